"""Merging rows into a table: update or delete what they match, insert what is new, delete what they lack.

Rows of the table that are updated are deleted, and written again in new fragments; behind them stand the
inserted ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.expressions.tree import Column, Expression, IsIn
from lance_core.mutations.change import Change, Counts, commit_change
from lance_core.mutations.merge_join import Matches, find_matches, key_fields
from lance_core.mutations.merge_source import MergeSource, Rows
from lance_core.mutations.new_rows import NewRows
from lance_core.mutations.removal import Addresses, ChosenRows, passing_addresses, remove_rows
from lance_core.mutations.retry import CONFLICT_RETRIES, RETRY_TIMEOUT
from lance_core.proto import table_pb2
from lance_core.scan.bind import bind_filter
from lance_core.scan.options import ScanOptions
from lance_core.scan.projection import ROW_ADDRESS, ROW_ID, expression_schema
from lance_core.scan.scanner import LanceScanner
from lance_core.schema import Schema
from lance_core.table import transaction as transactions
from lance_core.table.snapshot import Snapshot
from lance_core.write.conform import Conformer

# So many rows of the source are held beside rows of the table, by what they take on average.
_BLOCK_BYTES = 8 << 20
# Rows of the table are looked up in fragments that have so many of them together: the filter that names
# them is prepared for every stretch of rows that it is asked of.
_ROWS_PER_LOOKUP = 1 << 12


@dataclass(frozen=True)
class MergePlan:
    """What becomes of which rows.

    Attributes:
        on: columns whose values make rows match; the primary key of the table where there are none.
        when_matched: what becomes of a row of the table that a row of the source matches.
        when_matched_condition: SQL on `source.<column>` and `target.<column>`: only pairs for which it is
            true are updated.
        when_not_matched: what becomes of a row of the source that matches none.
        when_not_matched_by_source: what becomes of a row of the table that no row of the source matches.
        when_not_matched_by_source_condition: SQL on columns of the table: only rows for which it is true are
            deleted.
    """

    on: tuple[str, ...] = ()
    when_matched: Literal["do_nothing", "update_all", "delete", "fail"] = "do_nothing"
    when_matched_condition: str | None = None
    when_not_matched: Literal["do_nothing", "insert_all"] = "do_nothing"
    when_not_matched_by_source: Literal["keep", "delete"] = "keep"
    when_not_matched_by_source_condition: str | None = None

    def check(self) -> None:
        """Raise InvalidInputError for a plan that changes nothing."""
        if (
            self.when_matched in ("do_nothing", "fail")
            and self.when_not_matched == "do_nothing"
            and self.when_not_matched_by_source == "keep"
        ):
            raise InvalidInputError("the merge is not configured to change the data in any way")


def merge_insert(
    snapshot: Snapshot,
    source: MergeSource,
    plan: MergePlan,
    *,
    conflict_retries: int = CONFLICT_RETRIES,
    retry_timeout: timedelta = RETRY_TIMEOUT,
    transaction_id: str | None = None,
    sync: bool = True,
) -> tuple[Snapshot, Counts]:
    """Merge rows into a table, as one new version.

    Args:
        snapshot: the version that is merged into. Later changes of other rows stand beside this one; rows
            that other writers insert meanwhile are not compared with those of the source.
        source: rows with the keys and some or all other columns. Columns that it lacks keep their values
            in rows that are updated, and are null in those that are inserted.
        plan: what becomes of which rows.
        conflict_retries, retry_timeout: see `with_retries`.
        transaction_id: a UUID that the transaction gets as its own; repeating it gives the first result.
        sync: make everything durable on local disks before the commit is acknowledged.

    Returns:
        The new version, and `num_inserted_rows`, `num_updated_rows`, `num_deleted_rows`.

    Raises:
        InvalidInputError: a plan, column or value that cannot be used; two rows of the source match the same
            row of the table; a match that the plan forbids.
        UnsupportedFeatureError: a table or key that cannot be merged with.
        CommitConflictError, CommitUnknownError: see `commit_change`.
    """
    plan.check()
    return commit_change(
        snapshot,
        lambda current, change: write_merge(current, source, plan, change, sync=sync),
        transaction_id=transaction_id,
        conflict_retries=conflict_retries,
        retry_timeout=retry_timeout,
        sync=sync,
    )


def write_merge(
    snapshot: Snapshot, source: MergeSource, plan: MergePlan, change: Change, *, sync: bool
) -> None:
    """Write what a merge changes, without committing it; errors are those of `merge_insert`."""
    plan.check()
    merge = _Merge(snapshot, source, plan)
    matches = find_matches(snapshot, source, merge.keys)
    if len(matches) and plan.when_matched == "fail":
        raise InvalidInputError(f"a row of the source matches one of the table: {merge.key_of(matches, 0)}")
    acted = merge.acted(matches)
    updated = inserted = 0
    new: list[table_pb2.DataFragment] = []
    if plan.when_matched == "update_all" or plan.when_not_matched == "insert_all":
        rows = NewRows(snapshot, merge.schema, change, sync=sync)
        if plan.when_matched == "update_all":
            for batch, row_ids in merge.updated(acted):
                rows.move(batch, row_ids)
                updated += batch.num_rows
        if plan.when_not_matched == "insert_all":
            for batch in merge.inserted(matches):
                rows.insert(batch)
                inserted += batch.num_rows
        new = rows.finish()
    chosen = ChosenRows()
    chosen.add(acted.addresses)
    if plan.when_not_matched_by_source == "delete":
        for addresses in merge.unmatched(matches):
            chosen.add(addresses)
    removal = remove_rows(snapshot, chosen.by_fragment(), change, sync=sync)
    transactions.update(
        change.transaction,
        updated=removal.updated,
        removed_ids=removal.removed_ids,
        new=new,
        fields_for_preserving_frag_bitmap=snapshot.manifest.schema.field_by_id,
    )
    change.counts.update(
        num_inserted_rows=inserted, num_updated_rows=updated, num_deleted_rows=removal.num_rows - updated
    )


class _Merge:
    """One source beside one version of a table."""

    def __init__(self, snapshot: Snapshot, source: MergeSource, plan: MergePlan) -> None:
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
        self.keys = key_fields(snapshot, plan.on or _primary_key(snapshot), source)
        self._kept = [field for field in fields if field.name not in given]
        """Columns that the source lacks."""
        self._check_source()
        self.schema = pa.schema(
            [source.schema.field(field.name) if field.name in given else field.to_arrow() for field in fields]
        )
        """Of complete rows, in the types of the source where it has a column."""

    def _check_source(self) -> None:
        """Compare the columns of the source with those of the table.

        Raises:
            InvalidInputError: a column has another type.
            UnsupportedFeatureError: a struct to be updated lacks a child, which would have to be kept.
        """
        schema = self._snapshot.manifest.schema
        given: set[int] = set()
        for message in schema.messages:  # parents come first
            top = message.parent_id < 0
            if message.name in self._source.schema.names if top else message.parent_id in given:
                given.add(message.id)
        table = Schema([message for message in schema.messages if message.id in given], schema.raw_metadata)
        found = Conformer(table, self._source.schema).schema
        if self._plan.when_matched == "update_all":
            for field_id, field in table.field_by_id.items():
                if field_id not in found.field_by_id:
                    raise UnsupportedFeatureError("updating some children of a struct", column=field.name)

    def acted(self, matches: Matches) -> Matches:
        """The pairs that the plan acts on.

        Raises:
            InvalidInputError: a row of the table is in two of them.
        """
        if self._plan.when_matched not in ("update_all", "delete"):
            return matches.filter(np.zeros(len(matches), dtype=bool))
        if self._plan.when_matched == "update_all" and self._plan.when_matched_condition is not None:
            condition = self._condition(self._plan.when_matched_condition)
            passed = [self._passing(condition, pairs) for pairs in _single_addresses(matches)]
            matches = _joined(passed, matches)
        again = np.flatnonzero(matches.addresses[1:] == matches.addresses[:-1])
        if len(again):
            raise InvalidInputError(
                "several rows of the source match the same row of the table:"
                f" {self.key_of(matches, int(again[0]))}"
            )
        return matches

    def updated(self, matches: Matches) -> Iterator[tuple[pa.RecordBatch, Addresses]]:
        """The new values of rows that are updated, and the row ids that they have."""
        kept = [field.name for field in self._kept]
        for pairs, batch in self._target_rows(matches, kept):
            given = dict(
                zip(
                    self._source.schema.names,
                    self._source.take(pairs.rows, self._source.schema.names),
                    strict=True,
                )
            )
            columns = [given[name] if name in given else batch.column(name) for name in self.schema.names]
            row_ids: Addresses = batch.column(ROW_ID).to_numpy()
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema), row_ids

    def inserted(self, matches: Matches) -> Iterator[pa.RecordBatch]:
        """The rows of the source that match none.

        Raises:
            InvalidInputError: the source lacks a column that allows no null.
        """
        needed = [field.name for field in self._kept if not field.nullable]
        if needed:
            raise InvalidInputError(
                "rows cannot be inserted without a column that allows no null", column=needed[0]
            )
        is_new = np.ones(self._source.num_rows, dtype=bool)
        is_new[matches.rows] = False
        for start, batch in self._source.batches():
            places = np.flatnonzero(is_new[start : start + batch.num_rows])
            if len(places):
                yield self._with_nulls(
                    batch if len(places) == batch.num_rows else batch.take(pa.array(places))
                )

    def unmatched(self, matches: Matches) -> Iterator[Addresses]:
        """The addresses of rows of the table that no row of the source matches, and that may be deleted."""
        schema = self._snapshot.manifest.schema
        condition = bind_filter(schema, self._plan.when_not_matched_by_source_condition)
        matched = np.unique(matches.addresses)
        for addresses in passing_addresses(self._snapshot, condition):
            yield addresses[~np.isin(addresses, matched, assume_unique=True)]

    def key_of(self, matches: Matches, place: int) -> str:
        """The key of one pair, for messages."""
        names = [field.name for field in self.keys]
        values = self._source.take(matches.rows[place : place + 1], names)
        return ", ".join(f"{name} = {value[0].as_py()!r}" for name, value in zip(names, values, strict=True))

    def _with_nulls(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        given = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns = [
            given[field.name] if field.name in given else pa.nulls(batch.num_rows, field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _condition(self, text: str) -> Expression:
        from lance_core.expressions.sql import parse_filter  # late: most merges have none

        target = expression_schema(self._snapshot.manifest.schema)
        sides = {"source": self._source.schema, "target": target}
        return parse_filter(text, pa.schema([(name, pa.struct(list(side))) for name, side in sides.items()]))

    def _passing(self, condition: Expression, matches: Matches) -> Matches:
        """The pairs for which a condition on both sides is true."""
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
        found = []
        for pairs, batch in self._target_rows(matches, needed["target"], binary=False):
            ours = self._source.take(pairs.rows, needed["source"])
            theirs = [batch.column(name) for name in needed["target"]]
            sides = [
                pa.StructArray.from_arrays(arrays, names=needed[side], mask=None)
                if arrays
                else pa.nulls(len(pairs))
                for side, arrays in (("source", ours), ("target", theirs))
            ]
            mask = passing(condition, pa.RecordBatch.from_arrays(sides, names=["source", "target"]))
            found.append(pairs.filter(mask.to_numpy(zero_copy_only=False)))
        return _joined(found, matches)

    def _target_rows(
        self, matches: Matches, columns: Sequence[str], *, binary: bool = True
    ) -> Iterator[tuple[Matches, pa.RecordBatch]]:
        """Pairs with ascending addresses, a few at a time, beside the values of the table for them.

        Args:
            matches: pairs, none with the address of another.
            columns: what is read of the table; `_rowid` is added.
            binary: read blobs instead of saying where they are.
        """
        if not len(matches):
            return
        step = max(1, int(_BLOCK_BYTES / max(self._source.bytes_per_row, 1)))
        fragments = matches.addresses >> np.uint64(32)
        ends = np.append(np.flatnonzero(np.diff(fragments)) + 1, len(matches)).tolist()
        start = 0
        for end in ends:
            if end - start < _ROWS_PER_LOOKUP and end < len(matches):
                continue
            wanted = matches.addresses[start:end]
            options = ScanOptions(
                columns=tuple(columns),
                filter=IsIn(Column((ROW_ADDRESS,), pa.uint64()), pa.array(wanted), has_null=False),
                fragments=tuple(np.unique(wanted >> np.uint64(32)).tolist()),
                with_row_id=True,
                with_row_address=True,
                blob_handling="all_binary" if binary else "blobs_descriptions",
            )
            for batch in LanceScanner(self._snapshot, options).to_batches():
                for place in range(0, batch.num_rows, step):
                    piece = batch.slice(place, step)
                    yield (
                        Matches(
                            matches.rows[start : start + piece.num_rows], piece.column(ROW_ADDRESS).to_numpy()
                        ),
                        piece,
                    )
                    start += piece.num_rows
            assert start == end


def _single_addresses(matches: Matches) -> Iterator[Matches]:
    """The pairs in parts, in each of which every address occurs once."""
    left = matches
    while len(left):
        first = np.append(True, left.addresses[1:] != left.addresses[:-1])
        yield left.filter(first)
        left = left.filter(~first)


def _joined(parts: Sequence[Matches], none: Matches) -> Matches:
    """Pairs of several parts by ascending address."""
    rows: Rows = np.concatenate([none.rows[:0], *(part.rows for part in parts)])
    addresses: Addresses = np.concatenate([none.addresses[:0], *(part.addresses for part in parts)])
    order = np.argsort(addresses, kind="stable")
    return Matches(rows[order], addresses[order])


def _primary_key(snapshot: Snapshot) -> tuple[str, ...]:
    """The columns that the schema declares to be the primary key, in its order."""
    messages = {message.id: message for message in snapshot.manifest.schema.messages}
    keys = [field for field in snapshot.manifest.schema.fields if messages[field.id].unenforced_primary_key]
    keys.sort(key=lambda field: (messages[field.id].unenforced_primary_key_position, field.id))
    return tuple(field.name for field in keys)
