"""Commit of staged changes: one version of all of them, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from lance_core.changes import compaction
from lance_core.changes.columns.join import join_columns
from lance_core.changes.columns.replaced_columns import ReplacedColumns, commit_replaced_columns
from lance_core.changes.columns.staged_columns import StagedColumns, commit_staged_columns
from lance_core.changes.compaction import RewriteResult
from lance_core.changes.indexing.column import path_of
from lance_core.changes.indexing.create import commit_segments
from lance_core.changes.rows.merge_insert import merge_insert
from lance_core.changes.source_rows import SourceRows
from lance_core.changes.staged.change import DEFER_INDEX_REMAP, StagedChange
from lance_core.changes.staged.rows import joined_overwrite, staged_rows
from lance_core.commit.commit import commit
from lance_core.errors import CommitConflictError, CorruptFileError, FileMissingError, InvalidInputError
from lance_core.pool import map_ahead
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.storage import Storage
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import new_transaction


def commit_staged(
    storage: Storage,
    base: Snapshot | None,
    changes: Sequence[StagedChange],
    *,
    transaction_id: str,
    read_version: int,
    properties: Mapping[str, str] | None = None,
) -> Manifest:
    """Make one version of staged changes, of all of them or none.

    The files of a merge or a join are removed afterwards: their rows were written again. If the commit fails,
    all files stay.

    Args:
        storage: storage of the branch.
        base: latest version of the branch; None if there is no dataset yet, which only an overwrite makes.
        changes: one or more, all of the same operation.
        transaction_id: a UUID for the transaction.
        read_version: conflicts are searched for in the versions after this one.
        properties: properties of the transaction of an append or an overwrite.

    Raises:
        InvalidInputError: changes that do not fit together, or not the dataset; a data file is missing.
        CorruptFileError: a data file has another size than was written.
        CommitConflictError: another version makes this one impossible.
        CommitUnknownError: it cannot be determined whether the version was made.
        LanceError: others mean that nothing was committed.
    """
    _check_files(storage, changes)
    transaction = new_transaction(read_version, uuid=transaction_id, properties=properties)
    return _COMMITTERS[changes[0].operation](_Target(storage, base), transaction, changes)


@dataclass(frozen=True)
class _Target:
    """Branch that a commit changes."""

    storage: Storage
    base: Snapshot | None

    @property
    def read(self) -> Manifest | None:
        """Return the manifest of the latest version; None if there is no dataset."""
        return None if self.base is None else self.base.manifest

    @property
    def snapshot(self) -> Snapshot:
        """Return the latest version, which every operation but an overwrite needs."""
        if self.base is None:
            raise InvalidInputError("there is no dataset that the staged writes could change")
        return self.base


def _append(target: _Target, transaction: Transaction, changes: Sequence[StagedChange]) -> Manifest:
    transaction.append.SetInParent()
    for change in changes:
        transaction.append.fragments.extend(change.transaction.append.fragments)
    try:
        return commit(target.storage, transaction, read=target.read)
    except CommitConflictError as error:
        if error.outpaced:
            raise
        # The staged files stay as they are: only rows that are staged anew can fit the table that it is now.
        raise CommitConflictError(f"{error}; stage the rows again", retryable=False) from error


def _overwrite(target: _Target, transaction: Transaction, changes: Sequence[StagedChange]) -> Manifest:
    transaction.overwrite.CopyFrom(joined_overwrite(changes))
    return commit(target.storage, transaction, changes[0].settings, read=target.read)


def _merge_insert(target: _Target, transaction: Transaction, changes: Sequence[StagedChange]) -> Manifest:
    snapshot, plan = target.snapshot, changes[0].merge
    if plan is None or any(change.merge != plan for change in changes):
        raise InvalidInputError("the staged writes are of different merges")
    with SourceRows(staged_rows(snapshot, changes)) as source:
        made, _ = merge_insert(snapshot, source, plan, transaction_id=transaction.uuid)
    _discard(target.storage, changes)
    return made.manifest


def _add_columns(target: _Target, transaction: Transaction, changes: Sequence[StagedChange]) -> Manifest:
    snapshot, on = target.snapshot, changes[0].on
    if any(change.on != on for change in changes):
        raise InvalidInputError("the staged columns are joined by different keys")
    if on:
        with SourceRows(staged_rows(snapshot, changes)) as source:
            made = join_columns(snapshot, source, on, transaction_id=transaction.uuid)
        _discard(target.storage, changes)
        return made.manifest
    staged = [
        StagedColumns(
            change.transaction.merge.fragments[0],
            table_pb2.Manifest(fields=change.transaction.merge.schema),
            transaction.read_version,
        )
        for change in changes
    ]
    return commit_staged_columns(snapshot, staged, transaction_id=transaction.uuid).manifest


def _replace_columns(target: _Target, transaction: Transaction, changes: Sequence[StagedChange]) -> Manifest:
    replaced = [
        ReplacedColumns(each.fragment_id, each.new_file)
        for change in changes
        for each in change.transaction.data_replacement.replacements
    ]
    return commit_replaced_columns(target.storage, transaction, replaced)


def _rewrite(target: _Target, transaction: Transaction, changes: Sequence[StagedChange]) -> Manifest:
    results = [
        RewriteResult(change.read_version, tuple(group.old_fragments), tuple(group.new_fragments))
        for change in changes
        for group in change.transaction.rewrite.groups
    ]
    deferred = any(DEFER_INDEX_REMAP in change.transaction.transaction_properties for change in changes)
    made = compaction.commit(
        target.snapshot, results, defer_index_remap=deferred, transaction_id=transaction.uuid
    )
    return made.manifest


def _create_index(target: _Target, transaction: Transaction, changes: Sequence[StagedChange]) -> Manifest:
    snapshot = target.snapshot
    segments = [segment for change in changes for segment in change.transaction.create_index.new_indices]
    first = segments[0]
    if any(segment.name != first.name for segment in segments):
        raise InvalidInputError("the staged segments are of different indices")
    column = path_of(snapshot.manifest.schema, first.fields[0])
    made = commit_segments(snapshot, first.name, column, segments, transaction_id=transaction.uuid)
    return made.manifest


_COMMITTERS: Mapping[str, Callable[[_Target, Transaction, Sequence[StagedChange]], Manifest]] = {
    "append": _append,
    "overwrite": _overwrite,
    "merge_insert": _merge_insert,
    "add_columns": _add_columns,
    "replace_columns": _replace_columns,
    "rewrite": _rewrite,
    "create_index": _create_index,
}


def _check_files(storage: Storage, changes: Sequence[StagedChange]) -> None:
    """Raise InvalidInputError if a data file is missing, CorruptFileError if it has another size."""

    def check(file: tuple[str, int]) -> None:
        path, size = file
        try:
            # The size is not passed on: a remote storage would believe it and ask for nothing.
            with closing(storage.open_file(path)) as opened:
                if opened.size != size:
                    raise CorruptFileError(
                        "file has the wrong size", file=path, expected=size, found=opened.size
                    )
        except FileMissingError:
            raise InvalidInputError("a data file of a staged write is gone, write it again") from None

    for _ in map_ahead(check, [file for change in changes for file in change.files], storage.is_remote):
        pass


def _discard(storage: Storage, changes: Sequence[StagedChange]) -> None:
    for change in changes:
        change.discard(storage)
