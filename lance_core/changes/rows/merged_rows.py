"""The rows of a merge: updated and inserted rows with their new values, and rows to delete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lance_core.changes.checked_reads import rows_at
from lance_core.changes.rows.key_matches import Matches, key_fields
from lance_core.changes.rows.merge_plan import MergePlan
from lance_core.changes.rows.removal import Addresses, passing_addresses
from lance_core.changes.source_rows import SourceRows
from lance_core.changes.stored_rows import StoredRows, stored_columns, stored_rows
from lance_core.encodings.values import take_values
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.expressions.builders import shown
from lance_core.expressions.tree import Expression
from lance_core.number_sets import are_among, distinct
from lance_core.scan.plan.bind import bind_filter
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import expression_schema
from lance_core.schema import Schema
from lance_core.table.snapshot import Snapshot
from lance_core.write.schema_conformer import Conformer, convert

# Approximate bytes of source rows that are held at once beside rows of the table.
_BLOCK_BYTES = 8 << 20


class MergedRows:
    """The rows that a merge of one source into one version of a table changes; see `merge_insert`."""

    def __init__(self, snapshot: Snapshot, source: SourceRows, plan: MergePlan) -> None:
        """Compare the columns of the source with those of the table.

        Raises:
            InvalidInputError: The table lacks a column of the source, or has it with another type.
            UnsupportedFeatureError: A key of this type cannot be matched, or a struct to update lacks
                children.
        """
        self._snapshot = snapshot
        self._source = source
        self._plan = plan
        fields = snapshot.manifest.schema.fields
        given = source.schema.names
        known = {field.name for field in fields}
        unexpected = [name for name in given if name not in known]
        if unexpected or len(set(given)) != len(given):
            raise InvalidInputError(
                "columns of the source do not fit the table",
                expected=f"some of [{', '.join(field.name for field in fields)}], each once",
                found=f"[{', '.join(given)}]",
            )
        self.keys = key_fields(snapshot, plan.on)
        for key in self.keys:
            if key.name not in given:
                raise InvalidInputError("the source lacks a key column", column=key.name)
        self.kept = [field for field in fields if field.name not in given]
        """Columns of the table that the source lacks."""
        self.schema = self._compared()
        """Schema of complete rows: that of the table, without children of structs that the source lacks."""

    @property
    def key_ids(self) -> list[int]:
        """Field ids of the key columns."""
        return [field.id for field in self.keys]

    def _compared(self) -> Schema:
        """Return the schema of complete rows, and check the columns of the source.

        If structs are updated, the source must have all their children.
        """
        schema = self._snapshot.manifest.schema
        given: set[int] = set()
        for message in schema.messages:  # parents come first
            top = message.parent_id < 0
            if message.name in self._source.schema.names if top else message.parent_id in given:
                given.add(message.id)
        table = schema.only(given)
        found = Conformer(table, self._source.schema).schema.field_by_id
        if self._plan.when_matched == "update_all":
            for field_id, field in table.field_by_id.items():
                if field_id not in found:
                    raise UnsupportedFeatureError("updating some children of a struct", column=field.name)
        messages = [m for m in schema.messages if m.id not in given or m.id in found]
        # The schema of the table keeps what was learnt about it, so a copy would lose that.
        is_whole = len(messages) == len(schema.field_by_id)
        return schema if is_whole else Schema(messages, schema.raw_metadata)

    def acted(self, matches: Matches) -> Matches:
        """Return the pairs to update or delete.

        Raises:
            InvalidInputError: A row of the table is in two of these pairs.
        """
        if self._plan.when_matched not in ("update_all", "delete"):
            return matches.filter(np.zeros(len(matches), dtype=bool))
        if self._plan.when_matched == "update_all" and self._plan.when_matched_condition is not None:
            condition = self._condition(self._plan.when_matched_condition)
            matches = self._passing(condition, matches)
        again = np.flatnonzero(matches.addresses[1:] == matches.addresses[:-1])
        if len(again):
            raise InvalidInputError(
                f"several source rows match the same row of the table: {self.key_of(matches, int(again[0]))}"
            )
        return matches

    def updated(self, matches: Matches) -> Iterator[StoredRows]:
        """Yield the updated rows with their new values, in the form of data files."""
        kept = [field.name for field in self.kept]
        for pairs, old in self._old_rows(matches):
            for part in self._blocks(len(old)):
                rows = pairs.part(part.start, part.stop).rows
                given = self._given(self._source.take(rows, self._source.schema.names))
                others = {name: array[part] for name, array in zip(kept, old.columns, strict=True)}
                yield old.part(part, self._complete(given, others))

    def _old_rows(self, matches: Matches) -> Iterator[tuple[Matches, StoredRows]]:
        """Yield pairs, and the rows of the table with the columns that keep their values."""
        if not self.kept and not self._snapshot.manifest.has_stable_row_ids:
            addresses = matches.addresses
            yield matches, StoredRows([], addresses, addresses, addresses)
            return
        start = 0
        options = ScanOptions(computed=stored_columns(self.kept))
        for old in stored_rows(self._snapshot, options, matches.addresses):
            yield matches.part(start, start + len(old)), old
            start += len(old)

    def inserted(self, matches: Matches) -> Iterator[list[pa.Array]]:
        """Yield the source rows without a match, in the form of data files.

        Raises:
            InvalidInputError: The source has rows and lacks a non-nullable column.
        """
        needed = [field.name for field in self.kept if not field.nullable]
        if needed and self._source.num_rows:
            raise InvalidInputError(
                "rows cannot be inserted: the source lacks a non-nullable column", column=needed[0]
            )
        is_new = np.ones(self._source.num_rows, dtype=bool)
        is_new[matches.rows] = False
        for start, batch in self._source.batches():
            places = np.flatnonzero(is_new[start : start + batch.num_rows])
            if len(places):
                given = batch.columns
                if len(places) < batch.num_rows:
                    given = [take_values(column, pa.array(places)) for column in given]
                nulls = {field.name: pa.nulls(len(places), field.arrow_type) for field in self.kept}
                yield self._complete(self._given(given), nulls)

    def unmatched(self, matches: Matches) -> Iterator[Addresses]:
        """Yield the addresses of rows of the table to delete because they match no source row."""
        schema = self._snapshot.manifest.schema
        by_source = self._plan.when_not_matched_by_source_condition
        condition = bind_filter(schema, by_source, blob_handling="all_binary")
        matched = distinct(matches.addresses)
        for addresses in passing_addresses(self._snapshot, condition):
            yield addresses[~are_among(matched, addresses)]

    def key_of(self, matches: Matches, place: int) -> str:
        """Return the key of one pair as text, for messages."""
        names = [field.name for field in self.keys]
        values = self._source.take(matches.rows[place : place + 1], names)
        return ", ".join(f"{name} = {shown(value[0])}" for name, value in zip(names, values, strict=True))

    def _given(self, columns: Sequence[pa.Array]) -> dict[str, pa.Array]:
        """Return the columns of source rows by name, in the form of data files."""
        fields = {field.name: field for field in self.schema.fields}
        names = self._source.schema.names
        return {name: convert(array, fields[name]) for name, array in zip(names, columns, strict=True)}

    def _complete(self, given: dict[str, pa.Array], others: dict[str, pa.Array]) -> list[pa.Array]:
        return [
            given[field.name] if field.name in given else others[field.name] for field in self.schema.fields
        ]

    def _condition(self, text: str) -> Expression:
        # Late: most merges have no condition.
        from lance_core.expressions.parsing.sql import parse_filter
        from lance_core.scan.plan.blob_nulls import with_nulls_of_values

        schema = self._snapshot.manifest.schema
        sides = {"source": self._source.schema, "target": expression_schema(schema)}
        known = pa.schema([(name, pa.struct(list(side))) for name, side in sides.items()])
        return with_nulls_of_values(schema, parse_filter(text, known), below=("target",))

    def _passing(self, condition: Expression, matches: Matches) -> Matches:
        """Return the pairs for which a condition on both sides is true."""
        from lance_core.expressions.evaluate import passing
        from lance_core.expressions.tree import columns

        paths = columns(condition)
        needed = {
            side: list(dict.fromkeys(path[1] for path in paths if path[0] == side and path[1:]))
            for side in ("source", "target")
        }
        for path in paths:
            if not path[1:]:
                raise InvalidInputError(f"the condition names all of {path[0]!r}, not one of its columns")
        start = 0
        passed = [np.zeros(0, dtype=bool)]
        for batch in rows_at(self._snapshot, ScanOptions(columns=tuple(needed["target"])), matches.addresses):
            for part in self._blocks(batch.num_rows):
                some = matches.part(start + part.start, start + part.stop)
                ours = self._source.take(some.rows, needed["source"])
                theirs = [batch.column(name)[part] for name in needed["target"]]
                sides = [
                    _struct(needed[side], arrays, len(some))
                    for side, arrays in (("source", ours), ("target", theirs))
                ]
                mask = passing(condition, pa.RecordBatch.from_arrays(sides, names=["source", "target"]))
                passed.append(mask.to_numpy(zero_copy_only=False))
            start += batch.num_rows
        return matches.filter(np.concatenate(passed))

    def _blocks(self, num_rows: int) -> Iterator[slice]:
        """Yield slices of `num_rows` rows; the source rows of a slice take about `_BLOCK_BYTES`."""
        step = max(1, int(_BLOCK_BYTES / max(self._source.bytes_per_row, 1)))
        for start in range(0, num_rows, step):
            yield slice(start, min(start + step, num_rows))


def _struct(names: Sequence[str], arrays: Sequence[pa.Array], num_rows: int) -> pa.Array:
    """Return the columns of one side as a struct. Conditions name its fields `source.x` or `target.x`."""
    return pa.StructArray.from_arrays(arrays, names=names) if names else pa.nulls(num_rows)
