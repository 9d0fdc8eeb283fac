"""Deletion of the rows that meet a condition, or that stand at given offsets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import numpy as np
import pyarrow.compute as pc

from lance_core.changes.retry import CONFLICT_RETRIES, RETRY_TIMEOUT
from lance_core.changes.rows.removal import ChosenRows, Removal, passing_addresses, remove_rows
from lance_core.changes.rows.row_change import RowChange, commit_row_change, make_row_change
from lance_core.errors import ArgumentTypeError, InvalidInputError
from lance_core.number_sets import distinct
from lance_core.scan.plan.bind import bind_filter
from lance_core.scan.take.keys import Keys
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

    def remove(current: Snapshot, change: RowChange) -> Removal:
        return _remove(current, predicate, change, (fragment.id,), sync=sync)

    return _remove_from_fragment(snapshot, fragment, remove)


def delete_offsets(
    snapshot: Snapshot, fragment: Fragment, offsets: Keys, *, sync: bool = True
) -> Fragment | None:
    """Write a deletion file for the rows at physical offsets of one fragment, without a commit.

    Offsets may be repeated, in any order, and may name rows that are deleted already.

    Returns:
        The fragment with the deletion file, None if no row is left.

    Raises:
        InvalidInputError: An offset is not below `physical_rows` of the fragment.
        LanceError: A deletion file cannot be read or written.
    """
    chosen = distinct(offsets)
    if not len(chosen):
        return fragment
    if chosen[-1] >= fragment.physical_rows:
        raise InvalidInputError(
            f"row offset is out of range for fragment {fragment.id}",
            expected=f"below {fragment.physical_rows}",
            found=chosen[-1],
        )

    def remove(current: Snapshot, change: RowChange) -> Removal:
        return remove_rows(current, {fragment.id: chosen.astype(np.uint32)}, change, sync=sync)

    return _remove_from_fragment(snapshot, fragment, remove)


def _remove_from_fragment(
    snapshot: Snapshot, fragment: Fragment, remove: Callable[[Snapshot, RowChange], Removal]
) -> Fragment | None:
    """Return the fragment after `remove`, None if no row is left."""
    removals: list[Removal] = []
    make_row_change(snapshot, lambda current, change: removals.append(remove(current, change)))
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
    """Write deletion files for the rows for which `predicate` is true. The caller commits the result.

    `fragments` are the ids of the fragments to search; None means all.
    """
    if predicate is None:
        raise ArgumentTypeError("predicate must be SQL text or a pyarrow expression, got None")
    condition = bind_filter(snapshot.manifest.schema, predicate)
    chosen = ChosenRows()
    for addresses in passing_addresses(snapshot, condition, fragments):
        chosen.add(addresses)
    return remove_rows(snapshot, chosen.by_fragment(), change, sync=sync)
