"""Merging rows into a table: update or delete what they match, insert what is new, delete what they lack.

Rows of the table that are updated are deleted, and written again in new fragments; behind them stand the
inserted ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from lance_core.changes.retry import CONFLICT_RETRIES, RETRY_TIMEOUT
from lance_core.changes.rows.key_matches import find_matches
from lance_core.changes.rows.merge_plan import MergePlan
from lance_core.changes.rows.merged_rows import MergedRows, primary_key
from lance_core.changes.rows.new_rows import NewRows
from lance_core.changes.rows.removal import ChosenRows, remove_rows
from lance_core.changes.rows.row_change import Counts, RowChange, commit_row_change
from lance_core.changes.source_rows import SourceRows
from lance_core.errors import InvalidInputError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.table import transaction as transactions
from lance_core.table.snapshot import Snapshot


def merge_insert(
    snapshot: Snapshot,
    source: SourceRows,
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
            that other writers insert meanwhile are compared with those of the source only where `on` is the
            primary key of the table.
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
        CommitConflictError, CommitUnknownError: see `commit_row_change`.
    """
    plan.check()
    return commit_row_change(
        snapshot,
        lambda current, change: write_merge(current, source, plan, change, sync=sync),
        "update",
        transaction_id=transaction_id,
        conflict_retries=conflict_retries,
        retry_timeout=retry_timeout,
        sync=sync,
    )


def write_merge(
    snapshot: Snapshot, source: SourceRows, plan: MergePlan, change: RowChange, *, sync: bool
) -> None:
    """Write what a merge changes, without committing it; errors are those of `merge_insert`."""
    plan.check()
    merge = MergedRows(snapshot, source, plan)
    matches = find_matches(snapshot, source, merge.keys)
    if len(matches) and plan.when_matched == "fail":
        raise InvalidInputError(f"a row of the source matches one of the table: {merge.key_of(matches, 0)}")
    acted = merge.acted(matches)
    updated = inserted = 0
    new: list[table_pb2.DataFragment] = []
    if plan.when_matched == "update_all" or plan.when_not_matched == "insert_all":
        rows = NewRows(snapshot, merge.schema, change, sync=sync)
        if plan.when_matched == "update_all":
            for moved in merge.updated(acted):
                rows.move(moved)
                updated += len(moved)
        if plan.when_not_matched == "insert_all":
            for columns in merge.inserted(matches):
                rows.insert(columns)
                inserted += len(columns[0])
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
    if inserted and set(merge.key_ids) == set(primary_key(snapshot)):
        _claim_all_keys(change.transaction.update, merge.key_ids)
    change.counts.update(
        num_inserted_rows=inserted, num_updated_rows=updated, num_deleted_rows=removal.num_rows - updated
    )


def _claim_all_keys(update: Transaction.Update, key_ids: Sequence[int]) -> None:
    """Say that the update may have inserted any primary key, so that none is inserted twice.

    A merge that inserts rows by primary key is in conflict with every other that may have inserted the same
    key, and is done again. Which keys these are the reference says in a Bloom filter; this one has all bits
    set, and a size that cannot be compared with others.
    Source: docs/format.md, "Two writers".
    """
    update.inserted_rows.field_ids.extend(key_ids)
    bloom = update.inserted_rows.bloom
    bloom.bitmap, bloom.num_bits = b"\xff" * 32, 256
    bloom.number_of_items, bloom.probability = 1, 0.5
