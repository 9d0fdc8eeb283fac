"""Rebase of deletes, updates and appends that lost the race for a version.

A delete or an update replaces the deletion file of a fragment. If another writer deleted other rows of the
fragment meanwhile, the rebase reads the deleted rows of the newest version, adds its own rows, and writes a
new file. This requires that the fragment changed only by deletions, and that none of the rows is deleted
already. Otherwise the change must be computed again.

An append is rebased if a projection dropped some of its columns meanwhile. These columns become obsolete in
the new files, because a later column may get the same field id.

Source: docs/format.md, "Two writers".
"""

from collections.abc import Mapping, Set

import numpy as np

from lance_core.errors import CommitConflictError
from lance_core.number_sets import distinct, union
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.storage import Storage
from lance_core.table.deletions import Offsets, path_of, read_deletions, sync_deletions, write_deletions
from lance_core.table.fragment import TOMBSTONE, Fragment
from lance_core.table.manifest import Manifest

_BITMAP = table_pb2.DeletionFile.BITMAP


def drop_whole_fragments(transaction: Transaction) -> list[str]:
    """Let a delete or update remove the fragments in which it deletes all rows.

    Returns:
        The paths of deletion files that are no longer needed.
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


def changed_fragments(before: Manifest, newest: Manifest, fragment_ids: Set[int]) -> set[int]:
    """Return those of some fragments that were removed since the version `before`, or in which rows were
    deleted or columns written.
    """
    if not fragment_ids or newest is before:
        return set()  # the usual case, and a table may have many fragments
    then, now = (
        {fragment.id: fragment for fragment in manifest.message.fragments if fragment.id in fragment_ids}
        for manifest in (before, newest)
    )
    return {each for each, fragment in then.items() if each not in now or _has_changed(fragment, now[each])}


def _has_changed(before: table_pb2.DataFragment, now: table_pb2.DataFragment) -> bool:
    then, later = before.deletion_file, now.deletion_file
    if (then.id, then.read_version, then.file_type) != (later.id, later.read_version, later.file_type):
        return True
    return not {file.path for file in now.files} <= {file.path for file in before.files}


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
    """Move a delete or update to the newest version, in which other rows of its fragments were deleted.

    Args:
        storage: storage of the table.
        newest: newest version.
        transaction: transaction, changed in place: its fragments get new deletion files or are removed, and
            its read version becomes the newest version.
        affected_rows: by fragment id, the physical offsets of the rows that the transaction deletes.
        shared: fragments that other writers changed, too.
        made_on: version on which the transaction was based at first.
        written: list to which the paths of new deletion files are added.
        replaced: list to which the paths of replaced deletion files are added.
        sync: make deletion files durable.

    Raises:
        CommitConflictError: the fragments changed in another way, or other writers deleted the same rows;
            retryable.
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
    """Make the columns that a projection dropped obsolete in the new files of an append.

    Args:
        transaction: append, changed in place; its read version becomes `version`.
        projection: projection that was committed meanwhile.
        version: newest version.

    Raises:
        CommitConflictError: a fragment has no columns left, or columns of 0.1 files would have to go;
            retryable.
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
    """Return the deleted rows of a fragment together with `mine`, which must not overlap.

    Raises:
        CommitConflictError: `mine` is unknown or overlaps, or the deletion file is in a base path; retryable.
    """
    file = fragment.deletion_file
    # a commit does not know which base paths may be followed
    if file is not None and file.base_id is not None:
        raise CommitConflictError(f"deleted rows of fragment {fragment.id} are elsewhere", retryable=True)
    if mine is None:
        raise CommitConflictError(f"other rows of fragment {fragment.id} changed", retryable=True)
    theirs = read_deletions(storage, fragment)
    mine = distinct(mine)
    deleted = union(theirs, mine)
    if len(deleted) < len(theirs) + len(mine):
        raise CommitConflictError(f"the same rows of fragment {fragment.id} were changed", retryable=True)
    return deleted.astype(np.uint32, casting="same_kind")


def _operation(transaction: Transaction) -> Transaction.Delete | Transaction.Update | None:
    match transaction.WhichOneof("operation"):
        case "delete":
            return transaction.delete
        case "update":
            return transaction.update
    return None


def _is_new(fragment: table_pb2.DataFragment, read_version: int) -> bool:
    """Return whether this transaction wrote the deletion file. Files of older versions name an older read
    version.
    """
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
