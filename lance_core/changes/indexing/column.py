"""The column of an index: its name, its type, and its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lance_core.changes.checked_reads import address_finder, bounded_rows_for_change, scan_for_change
from lance_core.errors import UnknownColumnError
from lance_core.expressions.tree import Column
from lance_core.hints import did_you_mean
from lance_core.index.build import ROW_KEY, VALUE, FragmentRows, IndexedRows, RowKeys
from lance_core.index.progress import Observer
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import ROW_ID
from lance_core.scan.read.value_sizes import value_bits
from lance_core.schema import Field, Schema, join_path, shown_path, split_path
from lance_core.schema.arrow_types import EXTENSION_NAME
from lance_core.schema.logical_types import LANCE_JSON
from lance_core.table.snapshot import Snapshot

_LEAST_AHEAD_BYTES, _MOST_AHEAD_BYTES = 4 << 20, 16 << 20
"""Bytes of rows that are decoded ahead of a build from local disks: more for large tables, whose builds take
more memory anyway, since larger batches take less time. More than the most would not make a build faster.
Reads of remote storage have no such bound, since many requests have to be under way.
"""
_AHEAD_SHARE = 1 / 8
"""Share of all rows that may be decoded ahead."""
_BATCHES_AHEAD = 4
_FULL = 3 / 4
"""Share of the most bytes of a batch that is aimed at. A scan aims at more, and so keeps these cuts."""
_UNEVEN_BITS = 128
"""Estimated bits of a value of varying size."""


@dataclass(frozen=True)
class IndexedColumn:
    """Column of an index: a top-level column, or a field below structs.

    Attributes:
        path: Names of the fields from the top-level column down.
        field: The field itself.
    """

    path: tuple[str, ...]
    field: Field

    @classmethod
    def resolve(cls, schema: Schema, text: str) -> IndexedColumn:
        """Return the column at a dotted path. Names match without case if none matches as written.

        Raises:
            UnknownColumnError: There is no such column.
            InvalidInputError: The path is malformed.
        """
        is_name = text in [field.name for field in schema.fields]
        fields: Sequence[Field] = schema.fields
        path: list[Field] = []
        for name in [text] if is_name else split_path(text):
            found = [field for field in fields if field.name == name]
            found = found or [field for field in fields if field.name.lower() == name.lower()]
            if len(found) != 1:
                names = [field.name for field in fields]
                raise UnknownColumnError(f"there is no column {text!r}{did_you_mean(name, names)}")
            path.append(found[0])
            fields = found[0].children if found[0].logical_type == "struct" else ()
        return cls(tuple(field.name for field in path), path[-1])

    @property
    def stored_field(self) -> pa.Field:
        """Name, type and metadata of the indexed values. Extension types are replaced by their storage;
        binary JSON keeps the name of its type in the metadata.
        """
        metadata = dict(self.field.to_arrow().metadata or {})
        if self.field.is_json:
            metadata[EXTENSION_NAME] = LANCE_JSON
        return pa.field(self.field.name, self.field.arrow_type, self.field.nullable, metadata)

    @property
    def default_index_name(self) -> str:
        """Name of an index on the column for which the caller gave no name, as the reference chooses it."""
        return shown_path(self.path) + "_idx"


def path_of(schema: Schema, field_id: int) -> str:
    """Return the dotted path of a field, as `IndexedColumn.resolve` reads it.

    Raises:
        UnknownColumnError: The schema has no such field.
    """
    names: list[str] = []
    while field_id >= 0:
        field = schema.field_by_id.get(field_id)
        if field is None:
            raise UnknownColumnError(f"there is no field {field_id}")
        names.insert(0, field.name)
        field_id = field.parent_id
    return join_path(names)


def indexed_rows(
    snapshot: Snapshot,
    column: IndexedColumn,
    fragment_ids: Sequence[int],
    row_keys: RowKeys,
    observer: Observer,
) -> IndexedRows:
    """Return the live rows of some fragments, which are read when the result is scanned.

    Args:
        snapshot: The version to read.
        column: The indexed column.
        fragment_ids: Ids of the fragments, ascending.
        row_keys: The numbers that name the rows.
        observer: Is told the progress of each scan.
    """
    by_id = row_keys is RowKeys.IDS
    name = column.path[0]
    finder = address_finder(snapshot)
    known = [snapshot.manifest.fragment_by_id[number] for number in fragment_ids]
    fragments = [FragmentRows(each.num_rows, partial(finder.at_offsets, fragments=[each])) for each in known]
    ahead_bytes = _ahead_bytes(sum(each.num_rows for each in known), column.field.arrow_type)
    options = ScanOptions(
        computed=((name, Column(column.path, column.field.arrow_type)),),
        fragments=tuple(fragment_ids),
        with_row_id=by_id,
        batch_bytes=ahead_bytes // _BATCHES_AHEAD,
        stored=True,
    )
    field = column.stored_field
    fields = [field.with_name(VALUE), pa.field(ROW_KEY, pa.uint64(), nullable=False)]
    schema = pa.schema(fields if by_id else fields[:1])

    def scan(multiple: int = 1) -> Iterator[pa.RecordBatch]:
        if not fragment_ids:
            return
        batch_rows = _batch_rows(options.batch_bytes, column.field.arrow_type, multiple)
        cut = replace(options, batch_rows=batch_rows)
        if snapshot.storage.is_remote:
            batches = scan_for_change(snapshot, cut).to_batches()
        else:
            # Zones of numbers are described in less time than it takes to wake a thread for their batch.
            ahead = batch_rows is None
            batches = bounded_rows_for_change(snapshot, cut, ahead_bytes, decodes_ahead=ahead)
        for batch in batches:
            values = batch.column(0)
            if isinstance(values, pa.ExtensionArray):
                values = values.storage
            columns = [values, batch.column(ROW_ID)] if by_id else [values]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return IndexedRows(field, fragments, scan, observer)


def _batch_rows(batch_bytes: int, value_type: pa.DataType, multiple: int) -> int | None:
    """Return the rows of a batch that are a multiple of `multiple`; None if a scan may choose them."""
    bits = value_bits(value_type)
    if multiple == 1 or not bits:
        return None
    return int(_FULL * batch_bytes * 8 / bits) // multiple * multiple or None


def _ahead_bytes(num_rows: int, value_type: pa.DataType) -> int:
    bytes_per_row = ((value_bits(value_type) or _UNEVEN_BITS) + 64) / 8
    share = int(num_rows * bytes_per_row * _AHEAD_SHARE)
    return min(max(share, _LEAST_AHEAD_BYTES), _MOST_AHEAD_BYTES)
