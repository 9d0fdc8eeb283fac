"""Merge of source rows into a table: update or delete matched rows, insert new rows, delete other rows.

An updated row is deleted, and written again to a new fragment. Inserted rows follow the updated rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from lance_core.changes.retry import CONFLICT_RETRIES, RETRY_TIMEOUT
from lance_core.changes.rows.key_matches import find_matches, primary_key
from lance_core.changes.rows.merge_plan import MergePlan
from lance_core.changes.rows.merged_rows import MergedRows
from lance_core.changes.rows.new_rows import NewRows
from lance_core.changes.rows.removal import ChosenRows, remove_rows
from lance_core.changes.rows.row_change import Counts, RowChange, commit_row_change
from lance_core.changes.source_rows import SourceRows
from lance_core.errors import InvalidInputError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.table import transaction as transactions
from lance_core.table.snapshot import Snapshot
from lance_core.write.targets import TargetBases


@dataclass
class MergeTrace:
    """Facts about a running merge that its result does not tell.

    Attributes:
        num_pairs: Pairs of a source row and a row of the table with equal keys.
        elapsed_ms: Milliseconds of each step: "find" compares keys, "write" writes updated and inserted rows,
            "remove" finds the rows without a source row and writes deletion files.
    """

    num_pairs: int = 0
    elapsed_ms: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure the time of a step."""
        begin = time.perf_counter()
        yield
        self.elapsed_ms[name] = 1000 * (time.perf_counter() - begin)


def merge_insert(
    snapshot: Snapshot,
    source: SourceRows,
    plan: MergePlan,
    *,
    conflict_retries: int = CONFLICT_RETRIES,
    retry_timeout: timedelta = RETRY_TIMEOUT,
    transaction_id: str | None = None,
    targets: TargetBases | None = None,
    sync: bool = True,
) -> tuple[Snapshot, Counts]:
    """Merge source rows into a table as one new version.

    Args:
        snapshot: The version to merge into. Later changes of other rows are no conflict. Rows that other
            writers insert meanwhile are compared with the source only if `on` is the primary key of the
            table.
        source: Rows with the keys and some or all other columns. A column that the source lacks keeps its
            values in updated rows, and is null in inserted rows.
        plan: Actions per kind of row.
        conflict_retries, retry_timeout: See `with_retries`.
        transaction_id: UUID of the transaction. Repeating it gives the first result.
        targets: Base paths that the files of new fragments are written to; None: none of them.
        sync: On local disks make everything durable before returning.

    Returns:
        The new version, and the counts `num_inserted_rows`, `num_updated_rows`, `num_deleted_rows`.

    Raises:
        InvalidInputError: The plan, a column or a value is not valid, two source rows match the same row of
            the table, or a row matches though the plan forbids it.
        UnsupportedFeatureError: Rows cannot be matched by a key of this type, or the table cannot hold a
            value.
        CommitConflictError, CommitUnknownError: See `commit_row_change`.
    """
    plan.check()
    return commit_row_change(
        snapshot,
        lambda current, change: write_merge(current, source, plan, change, targets, sync=sync),
        "update",
        transaction_id=transaction_id,
        conflict_retries=conflict_retries,
        retry_timeout=retry_timeout,
        sync=sync,
    )


def write_merge(
    snapshot: Snapshot,
    source: SourceRows,
    plan: MergePlan,
    change: RowChange,
    targets: TargetBases | None = None,
    *,
    trace: MergeTrace | None = None,
    sync: bool,
) -> None:
    """Write the files of a merge, and set its transaction and counts in `change`, which the caller commits.

    Facts about the run are added to `trace`. Errors are those of `merge_insert`.
    """
    plan.check()
    trace = trace or MergeTrace()
    merge = MergedRows(snapshot, source, plan)
    with trace.step("find"):
        matches = find_matches(snapshot, source, merge.keys)
        trace.num_pairs = len(matches)
        if len(matches) and plan.when_matched == "fail":
            raise InvalidInputError(f"a source row matches a row of the table: {merge.key_of(matches, 0)}")
        acted = merge.acted(matches)
    updated = inserted = 0
    new: list[table_pb2.DataFragment] = []
    if plan.writes_rows:
        with trace.step("write"):
            rows = NewRows(snapshot, merge.schema, change, targets, sync=sync)
            if plan.when_matched == "update_all":
                for moved in merge.updated(acted):
                    rows.move(moved)
                    updated += len(moved)
            if plan.when_not_matched == "insert_all":
                for columns in merge.inserted(matches):
                    rows.insert(columns)
                    inserted += len(columns[0])
            new = rows.finish()
    with trace.step("remove"):
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
    if inserted and set(merge.key_ids) == set(primary_key(snapshot)):
        _claim_all_keys(change.transaction.update, merge.key_ids)
    change.counts.update(
        num_inserted_rows=inserted, num_updated_rows=updated, num_deleted_rows=removal.num_rows - updated
    )


def _claim_all_keys(update: Transaction.Update, key_ids: Sequence[int]) -> None:
    """Mark the update as one that may have inserted any primary key, so that no key is inserted twice.

    A merge that inserts rows by primary key is in conflict with every merge that may have inserted the same
    key, and is retried. The reference stores the inserted keys as a Bloom filter. The filter here has all
    bits set, and a size that no other filter can be compared with.
    Source: docs/format.md, "Two writers".
    """
    update.inserted_rows.field_ids.extend(key_ids)
    bloom = update.inserted_rows.bloom
    bloom.bitmap, bloom.num_bits = b"\xff" * 32, 256
    bloom.number_of_items, bloom.probability = 1, 0.5
