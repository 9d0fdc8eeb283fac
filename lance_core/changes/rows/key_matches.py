"""Pairs of source rows and rows of a table with equal keys, found by a hash join.

Only keys are held in memory: those of the source, and a part of those of the table. A null equals nothing.
Other values are equal if their bytes are: NaN equals NaN, and -0.0 does not equal 0.0, as in the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.changes.checked_reads import rows_for_change
from lance_core.changes.rows.removal import Addresses, addresses_of
from lance_core.changes.source_rows import Rows, SourceRows
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.expressions.tree import Expression
from lance_core.hints import did_you_mean
from lance_core.scan.plan.indices import finds_values
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import expression_schema
from lance_core.schema import Field
from lance_core.table.snapshot import Snapshot
from lance_core.write.schema_conformer import convert

# Least rows of the table whose keys are joined at once. Each join also reads all keys of the source, so it
# has at least as many rows of the table as the source has.
_LEAST_ROWS = 1 << 20
_ROW, _ADDRESS = "row", "address"
_MOST_LOOKUPS = 1 << 16
"""Most keys that are looked up in an index. With more, a scan of the keys is faster."""


@dataclass(frozen=True)
class Matches:
    """Pairs of rows with equal keys, by ascending address. A row may be in several pairs."""

    rows: Rows
    """Row numbers of the source."""
    addresses: Addresses
    """Row addresses of the table."""

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, start: int, end: int) -> Matches:
        """Return the pairs `[start, end)`."""
        return Matches(self.rows[start:end], self.addresses[start:end])

    def filter(self, mask: np.ndarray) -> Matches:
        """Return the pairs where the mask is true."""
        return Matches(self.rows[mask], self.addresses[mask])


def key_fields(snapshot: Snapshot, on: Sequence[str]) -> list[Field]:
    """Return the columns of the table that rows are matched by.

    Args:
        snapshot: A version of the table.
        on: Names of the columns. If empty, the primary key of the table.

    Raises:
        InvalidInputError: There are no key columns, or the table lacks one.
        UnsupportedFeatureError: A key column is nested or has the type null.
    """
    known = snapshot.manifest.schema.fields
    if not on:
        names = {field.id: field.name for field in known}
        on = [names[key] for key in primary_key(snapshot) if key in names]
    fields = []
    for name in on:
        field = _find(known, name)
        if pa.types.is_nested(field.arrow_type) or pa.types.is_null(field.arrow_type):
            raise UnsupportedFeatureError(
                "merging by a column of this type", column=field.name, found=field.arrow_type
            )
        fields.append(field)
    if not fields:
        raise InvalidInputError(
            "merging needs the columns that rows are matched by, or a table with a primary key"
        )
    return fields


def primary_key(snapshot: Snapshot) -> list[int]:
    """Return the field ids of the primary key of the schema, in the order of the key."""
    keys = [message for message in snapshot.manifest.schema.messages if message.unenforced_primary_key]
    keys.sort(key=lambda message: (message.unenforced_primary_key_position, message.id))
    return [message.id for message in keys]


def _find(fields: Sequence[Field], name: str) -> Field:
    """Return the field with this name, or the only one with this name in another case."""
    found = [field for field in fields if field.name == name]
    found = found or [field for field in fields if field.name.lower() == name.lower()]
    if len(found) != 1:
        hint = did_you_mean(name, [field.name for field in fields])
        raise InvalidInputError(f"there is no key column {name!r}{hint}")
    return found[0]


def find_matches(snapshot: Snapshot, source: SourceRows, keys: Sequence[Field]) -> Matches:
    """Return all pairs of rows of `source` and of the table with equal `keys`.

    Raises:
        LanceError: Something cannot be read.
    """
    source_keys = _source_keys(source, keys)
    if not source_keys.num_rows:
        return Matches(np.empty(0, np.int64), np.empty(0, np.uint64))
    options = _scan_options(snapshot, source_keys, keys)
    rows, addresses = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    for table_keys in _table_keys(snapshot, options, keys, max(_LEAST_ROWS, source_keys.num_rows)):
        pairs = _join(table_keys, source_keys, len(keys))
        rows.append(pairs.column(_ROW).to_numpy())
        addresses.append(pairs.column(_ADDRESS).to_numpy())
    found = np.concatenate(addresses)
    order = np.argsort(found, kind="stable")  # the join gives pairs in any order
    return Matches(np.concatenate(rows)[order], found[order])


def key_scan(snapshot: Snapshot, source: SourceRows, keys: Sequence[Field]) -> ScanOptions:
    """Return the scan of the table's keys that `find_matches` runs if the source has rows with keys."""
    return _scan_options(snapshot, _source_keys(source, keys), keys)


def _scan_options(snapshot: Snapshot, source_keys: pa.Table, keys: Sequence[Field]) -> ScanOptions:
    names = tuple(field.name for field in keys)
    condition = _condition(snapshot, source_keys, keys) if source_keys.num_rows else None
    return ScanOptions(columns=names, filter=condition, with_row_address=True)


def _source_keys(source: SourceRows, keys: Sequence[Field]) -> pa.Table:
    """Return the keys and the numbers of the source rows that have no null key.

    The key columns are named by their places in `keys`: "0", "1" and so on. Those of `_table_keys` are, too.
    """
    tables = []
    for start, batch in source.batches():
        columns = [_stored(batch.column(field.name), field) for field in keys]
        numbers = pa.array(np.arange(start, start + batch.num_rows))
        tables.append(_numbered(columns, numbers, _ROW))
    types = [_key_type(field) for field in keys]
    schema = pa.schema([*((str(place), kind) for place, kind in enumerate(types)), (_ROW, pa.int64())])
    return pa.concat_tables([schema.empty_table(), *tables]).drop_null()


def _table_keys(
    snapshot: Snapshot, options: ScanOptions, keys: Sequence[Field], num_rows: int
) -> Iterator[pa.Table]:
    """Yield the keys and addresses of the table, in tables of about `num_rows`."""
    held: list[pa.Table] = []
    count = 0
    for batch in rows_for_change(snapshot, options):
        columns = [_stored(batch.column(field.name), field) for field in keys]
        held.append(_numbered(columns, pa.array(addresses_of(batch)), _ADDRESS))
        count += batch.num_rows
        if count >= num_rows:
            yield pa.concat_tables(held)
            held, count = [], 0
    if held:
        yield pa.concat_tables(held)


def _numbered(keys: list[pa.Array], numbers: pa.Array, name: str) -> pa.Table:
    """Return a table of key columns, and of the column `name` with the numbers of their rows."""
    return pa.Table.from_arrays([*keys, numbers], names=[*map(str, range(len(keys))), name])


def _key_type(field: Field) -> pa.DataType:
    data_type = field.arrow_type
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


def _stored(array: pa.Array, field: Field) -> pa.Array:
    """Return values in the form of data files without dictionaries, so that both sides have one type."""
    array = convert(array, field)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _join(table_keys: pa.Table, source_keys: pa.Table, num_keys: int) -> pa.Table:
    """Return the address and the source row of each pair of rows with equal keys, in any order.

    Arrow builds the hash table of the right side, the source, and looks each row of the left side up in it.
    The output has no keys, which nobody needs.
    """
    from pyarrow.acero import Declaration, HashJoinNodeOptions, TableSourceNodeOptions  # late: seldom needed

    names = [str(place) for place in range(num_keys)]
    left, right = (
        Declaration("table_source", TableSourceNodeOptions(side)) for side in (table_keys, source_keys)
    )
    options = HashJoinNodeOptions("inner", names, names, left_output=[_ADDRESS], right_output=[_ROW])
    return Declaration("hashjoin", options, inputs=[left, right]).to_table()


def _condition(snapshot: Snapshot, source_keys: pa.Table, keys: Sequence[Field]) -> Expression | None:
    """Return a condition that all matching rows of the table meet, to prune the others by statistics.

    If a key has an index, the condition names its values, so that the index finds the rows.
    """
    from lance_core.expressions.builders import comparison, conjunction  # late, as in `_join`
    from lance_core.expressions.column_names import resolve_column
    from lance_core.expressions.tree import IsIn, Literal

    known = expression_schema(snapshot.manifest.schema)
    parts: list[Expression] = []
    for place, field in enumerate(keys):
        kind = known.field(field.name).type
        if finds_values(snapshot, field.id):
            values = source_keys.column(str(place)).unique()
            if values.type == kind and len(values) <= _MOST_LOOKUPS:
                parts.append(IsIn(resolve_column((field.name,), known, exact=True), values, False))
                continue
        if not (pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_string(kind)):
            continue
        ends = pc.min_max(source_keys.column(str(place)))
        column = resolve_column((field.name,), known, exact=True)
        parts += [comparison(op, column, Literal(ends[end])) for op, end in ((">=", "min"), ("<=", "max"))]
    return conjunction(parts) if parts else None
