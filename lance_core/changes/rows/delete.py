"""Deletion of the rows that meet a condition."""

from __future__ import annotations

from datetime import timedelta

import pyarrow.compute as pc

from lance_core.changes.retry import CONFLICT_RETRIES, RETRY_TIMEOUT
from lance_core.changes.rows.removal import ChosenRows, Removal, passing_addresses, remove_rows
from lance_core.changes.rows.row_change import RowChange, commit_row_change, make_row_change
from lance_core.scan.plan.bind import bind_filter
from lance_core.table import transaction as transactions
from lance_core.table.fragment import Fragment
from lance_core.table.snapshot import Snapshot


def delete(
    snapshot: Snapshot,
    predicate: str | pc.Expression,
    *,
    conflict_retries: int = CONFLICT_RETRIES,
    retry_timeout: timedelta = RETRY_TIMEOUT,
    transaction_id: str | None = None,
    sync: bool = True,
) -> tuple[Snapshot, int]:
    """Delete rows as one new version.

    A version is made even if no row meets the condition, as in the reference.

    Args:
        snapshot: The version to search. Later deletions of other rows are no conflict.
        predicate: SQL text or an Arrow expression; rows for which it is true are deleted.
        conflict_retries, retry_timeout: See `with_retries`.
        transaction_id: UUID of the transaction. Repeating it gives the first result.
        sync: On local disks make everything durable before returning.

    Returns:
        The new version and the number of deleted rows.

    Raises:
        InvalidInputError: The predicate is not valid.
        CommitConflictError, CommitUnknownError: See `commit_row_change`.
    """

    def make(current: Snapshot, change: RowChange) -> None:
        removal = _remove(current, predicate, change, sync=sync)
        transactions.delete(
            change.transaction, removal.updated, removal.removed_ids, predicate=str(predicate)
        )
        change.counts["num_deleted_rows"] = removal.num_rows

    made, counts = commit_row_change(
        snapshot,
        make,
        "delete",
        transaction_id=transaction_id,
        conflict_retries=conflict_retries,
        retry_timeout=retry_timeout,
        sync=sync,
    )
    return made, counts.get("num_deleted_rows", 0)


def delete_from_fragment(
    snapshot: Snapshot, fragment: Fragment, predicate: str | pc.Expression, *, sync: bool = True
) -> Fragment | None:
    """Write a deletion file for rows of one fragment, without a commit.

    Returns:
        The fragment with the deletion file, None if no row is left.

    Raises:
        LanceError: The errors of `delete`.
    """
    removals: list[Removal] = []
    make_row_change(
        snapshot,
        lambda current, change: removals.append(
            _remove(current, predicate, change, (fragment.id,), sync=sync)
        ),
    )
    (removal,) = removals
    if removal.removed_ids:
        return None
    for message in removal.updated:
        return Fragment(message, snapshot.manifest.name, None, snapshot.manifest.base_paths)
    return fragment


def _remove(
    snapshot: Snapshot,
    predicate: str | pc.Expression,
    change: RowChange,
    fragments: tuple[int, ...] | None = None,
    *,
    sync: bool,
) -> Removal:
    """Delete the rows for which `predicate` is true, in all fragments or in those with the given ids."""
    if predicate is None:
        raise TypeError("predicate must be SQL text or a pyarrow expression, got None")
    condition = bind_filter(snapshot.manifest.schema, predicate)
    chosen = ChosenRows()
    for addresses in passing_addresses(snapshot, condition, fragments):
        chosen.add(addresses)
    return remove_rows(snapshot, chosen.by_fragment(), change, sync=sync)
