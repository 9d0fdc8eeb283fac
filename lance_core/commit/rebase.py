"""Letting a delete or update that lost a race go on, where the winner deleted other rows; and an append.

The first two say which rows of a fragment are gone, in a file that names all of them. The one that comes
second takes the rows of the newest version, adds its own, and writes a new file. That works if its
fragments are what they were but for deleted rows, and none of its rows is among those. Otherwise it has to be
made anew.
Files of an append lose the columns that the winner dropped: the next new column may get the id of one.
Source: docs/format.md, "Two writers".
"""

from collections.abc import Mapping, Set

import numpy as np

from lance_core.errors import CommitConflictError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.storage import Storage
from lance_core.table.deletions import Offsets, path_of, read_deletions, sync_deletions, write_deletions
from lance_core.table.fragment import TOMBSTONE, Fragment
from lance_core.table.manifest import Manifest

_BITMAP = table_pb2.DeletionFile.BITMAP


def drop_whole_fragments(transaction: Transaction) -> list[str]:
    """Let a delete or update remove the fragments of which it leaves no row.

    Returns:
        The paths of deletion files that are not needed any more.
    """
    operation = _operation(transaction)
    if operation is None:
        return []
    dropped = [
        fragment
        for fragment in operation.updated_fragments
        if 0 < fragment.physical_rows == fragment.deletion_file.num_deleted_rows
    ]
    paths = [
        path_of(fragment.id, fragment.deletion_file)
        for fragment in dropped
        if _is_new(fragment, transaction.read_version)
    ]
    for fragment in dropped:
        _remove(transaction, fragment.id)
    return paths


def rebase(
    storage: Storage,
    newest: Manifest,
    transaction: Transaction,
    affected_rows: Mapping[int, Offsets],
    shared: Set[int],
    *,
    made_on: int,
    written: list[str],
    replaced: list[str],
    sync: bool,
) -> None:
    """Move a delete or update onto the newest version, in which other rows of its fragments are deleted.

    Args:
        storage: where the table is.
        newest: the newest version.
        transaction: changed in place: its fragments get new deletion files, or are removed, and its read
            version becomes the newest.
        affected_rows: by fragment the rows that it deletes, by their physical offsets.
        shared: the fragments that others changed, too.
        made_on: the version that the transaction was made on at first.
        written: takes the paths of deletion files that were written.
        replaced: takes those of the files in whose place they are.
        sync: make deletion files durable.

    Raises:
        CommitConflictError: retryable: the fragments changed otherwise, or the same rows were deleted.
    """
    operation = _operation(transaction)
    if operation is None:
        raise CommitConflictError("transaction deletes no rows", retryable=True)
    current = {fragment.id: fragment for fragment in newest.message.fragments}
    views = {fragment.id: fragment for fragment in newest.fragments}
    updated = {fragment.id: fragment for fragment in operation.updated_fragments}
    merged: dict[int, Offsets] = {}
    for fragment_id in sorted(shared):
        if fragment_id not in current or fragment_id not in updated:
            raise CommitConflictError(f"fragment {fragment_id} was removed", retryable=True)
        if list(updated[fragment_id].files) != list(current[fragment_id].files):
            raise CommitConflictError(f"columns of fragment {fragment_id} changed", retryable=True)
        merged[fragment_id] = _union(storage, views[fragment_id], affected_rows.get(fragment_id))
    transaction.read_version = newest.version
    for fragment_id, offsets in merged.items():
        mine, other = updated[fragment_id], current[fragment_id]
        if _is_new(mine, made_on):
            replaced.append(path_of(fragment_id, mine.deletion_file))
        if len(offsets) == other.physical_rows:
            _remove(transaction, fragment_id)
            continue
        was_bitmap = other.HasField("deletion_file") and other.deletion_file.file_type == _BITMAP
        file = write_deletions(
            storage, fragment_id, newest.version, offsets, as_bitmap=was_bitmap or None, sync=sync
        )
        written.append(path_of(fragment_id, file))
        mine.CopyFrom(other)
        mine.deletion_file.CopyFrom(file)
    if sync and written:
        sync_deletions(storage)


def forget_columns(transaction: Transaction, projection: Transaction.Project, version: int) -> None:
    """Let the new files of an append have no columns but those that a projection left.

    Args:
        transaction: changed in place; its read version becomes `version`.
        projection: was committed meanwhile.
        version: the newest one.

    Raises:
        CommitConflictError: retryable: nothing is left of a fragment, or columns of 0.1 files cannot go.
    """
    left = {field.id for field in projection.schema}
    for fragment in transaction.append.fragments:
        for file in fragment.files:
            if not file.column_indices and not left.issuperset(file.fields):
                raise CommitConflictError("a column of a 0.1 file was dropped", retryable=True)
            file.fields[:] = [field if field < 0 or field in left else TOMBSTONE for field in file.fields]
        if not left.intersection(field for file in fragment.files for field in file.fields):
            raise CommitConflictError("all columns of a new fragment were dropped", retryable=True)
    transaction.read_version = version


def _union(storage: Storage, fragment: Fragment, mine: Offsets | None) -> Offsets:
    """All deleted rows of a fragment, if mine are others than those that are deleted in it."""
    file = fragment.deletion_file
    if file is not None and file.base_id is not None:  # which base paths are followed is not known here
        raise CommitConflictError(f"deleted rows of fragment {fragment.id} are elsewhere", retryable=True)
    if mine is None:
        raise CommitConflictError(f"other rows of fragment {fragment.id} changed", retryable=True)
    theirs = read_deletions(storage, fragment)
    if np.isin(mine, theirs).any():
        raise CommitConflictError(f"the same rows of fragment {fragment.id} were changed", retryable=True)
    return np.union1d(theirs, mine).astype(np.uint32, casting="same_kind")


def _operation(transaction: Transaction) -> Transaction.Delete | Transaction.Update | None:
    match transaction.WhichOneof("operation"):
        case "delete":
            return transaction.delete
        case "update":
            return transaction.update
    return None


def _is_new(fragment: table_pb2.DataFragment, read_version: int) -> bool:
    """Return whether the deletion file is of this transaction: files of versions were made on older ones."""
    file = fragment.deletion_file
    return (
        fragment.HasField("deletion_file")
        and not file.HasField("base_id")
        and file.read_version >= read_version
    )


def _remove(transaction: Transaction, fragment_id: int) -> None:
    """Let the operation remove a fragment instead of changing it."""
    operation = _operation(transaction)
    if isinstance(operation, Transaction.Delete):
        operation.deleted_fragment_ids.append(fragment_id)
    elif operation is not None:
        operation.removed_fragment_ids.append(fragment_id)
    if operation is not None:
        places = [place for place, each in enumerate(operation.updated_fragments) if each.id == fragment_id]
        for place in reversed(places):
            del operation.updated_fragments[place]
