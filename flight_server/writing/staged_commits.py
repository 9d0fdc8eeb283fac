"""Commits of staged writes: one function per operation, each for one version of many writes."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn

import pyarrow as pa

from flight_server.writing.changes import Target
from flight_server.writing.staging import StagedWrite
from lance_core.changes import compaction
from lance_core.changes.columns.join import join_columns
from lance_core.changes.columns.replaced_columns import ReplacedColumns, commit_replaced_columns
from lance_core.changes.columns.staged_columns import StagedColumns, commit_staged_columns
from lance_core.changes.compaction import RewriteResult
from lance_core.changes.rows.merge_insert import merge_insert
from lance_core.changes.source_rows import SourceRows
from lance_core.commit.commit import commit
from lance_core.commit.next_manifest import next_manifest
from lance_core.errors import CommitConflictError, InvalidInputError, StorageError
from lance_core.file.side_files import delete_data_file
from lance_core.proto import table_pb2, transaction_pb2
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.scanner import LanceScanner
from lance_core.schema.blobs import given_blobs
from lance_core.table.manifest import Manifest, parse_manifest, serialize_manifest
from lance_core.table.snapshot import Snapshot

Transaction = transaction_pb2.Transaction
Committer = Callable[[Target, Transaction, Sequence[StagedWrite]], Manifest]
"""Is given a transaction without an operation, whose id and read version the commit is to have."""


def commit_writes(
    operation: str, target: Target, transaction: Transaction, writes: Sequence[StagedWrite]
) -> Manifest:
    """Make the version.

    Raises:
        InvalidInputError: writes that do not go together, or not with the dataset.
        CommitConflictError: another version makes this one impossible.
        CommitUnknownError: nobody can say whether the version was made.
        LanceError: others mean that nothing was committed.
    """
    return _COMMITTERS[operation](target, transaction, writes)


def _append(target: Target, transaction: Transaction, writes: Sequence[StagedWrite]) -> Manifest:
    transaction.append.SetInParent()
    for write in writes:
        transaction.append.fragments.extend(write.transaction.append.fragments)
    try:
        return commit(target.storage, transaction)
    except CommitConflictError as error:
        if error.outpaced:
            raise
        # The staged files stay as they are: only rows that are staged anew can fit the table that it is now.
        raise CommitConflictError(f"{error}; stage the rows again", retryable=False) from error


def _overwrite(target: Target, transaction: Transaction, writes: Sequence[StagedWrite]) -> Manifest:
    transaction.overwrite.CopyFrom(_joined(writes).overwrite)
    return commit(target.storage, transaction, writes[0].settings)


def _merge_insert(target: Target, transaction: Transaction, writes: Sequence[StagedWrite]) -> Manifest:
    snapshot, plan = _opened(target), writes[0].merge
    if plan is None or any(write.merge != plan for write in writes):
        raise InvalidInputError("the staged writes are of different merges")
    with SourceRows(_staged_rows(snapshot, writes)) as source:
        made, _ = merge_insert(snapshot, source, plan, transaction_id=transaction.uuid)
    _delete_files(target, writes)
    return made.manifest


def _add_columns(target: Target, transaction: Transaction, writes: Sequence[StagedWrite]) -> Manifest:
    snapshot, on = _opened(target), writes[0].on
    if any(write.on != on for write in writes):
        raise InvalidInputError("the staged columns are joined by different keys")
    if on:
        with SourceRows(_staged_rows(snapshot, writes)) as source:
            made = join_columns(snapshot, source, on, transaction_id=transaction.uuid)
        _delete_files(target, writes)
        return made.manifest
    staged = [
        StagedColumns(
            write.transaction.merge.fragments[0],
            table_pb2.Manifest(fields=write.transaction.merge.schema),
            transaction.read_version,
        )
        for write in writes
    ]
    return commit_staged_columns(snapshot, staged, transaction_id=transaction.uuid).manifest


def _replace_columns(target: Target, transaction: Transaction, writes: Sequence[StagedWrite]) -> Manifest:
    replaced = [
        ReplacedColumns(each.fragment_id, each.new_file)
        for write in writes
        for each in write.transaction.data_replacement.replacements
    ]
    return commit_replaced_columns(target.storage, transaction, replaced)


def _rewrite(target: Target, transaction: Transaction, writes: Sequence[StagedWrite]) -> Manifest:
    results = [
        RewriteResult(write.transaction.read_version, tuple(group.old_fragments), tuple(group.new_fragments))
        for write in writes
        for group in write.transaction.rewrite.groups
    ]
    return compaction.commit(_opened(target), results, transaction_id=transaction.uuid).manifest


_COMMITTERS: Mapping[str, Committer] = {
    "append": _append,
    "overwrite": _overwrite,
    "merge_insert": _merge_insert,
    "add_columns": _add_columns,
    "replace_columns": _replace_columns,
    "rewrite": _rewrite,
}


def _opened(target: Target) -> Snapshot:
    assert target.snapshot is not None  # only an overwrite creates datasets
    return target.snapshot


def _joined(writes: Sequence[StagedWrite]) -> Transaction:
    """All rows of overwrites as those of one."""
    first, *others = (write.transaction for write in writes)
    joined = Transaction()
    joined.CopyFrom(first)
    for other in (write.overwrite for write in others):
        if (list(other.schema), dict(other.schema_metadata)) != (
            list(first.overwrite.schema),
            dict(first.overwrite.schema_metadata),
        ):
            raise InvalidInputError("the staged writes have different schemas")
        joined.overwrite.fragments.extend(other.fragments)
    return joined


def _delete_files(target: Target, writes: Sequence[StagedWrite]) -> None:
    """Remove staged rows that were read once more, and are no part of the version."""
    for path, _ in (file for write in writes for file in write.files):
        with suppress(StorageError):
            delete_data_file(target.storage, path)


def _staged_rows(snapshot: Snapshot, writes: Sequence[StagedWrite]) -> pa.RecordBatchReader:
    """Return the rows of staged files, read as a table of their own, as they were uploaded."""
    joined = _joined(writes)
    message, _ = next_manifest(None, joined, writes[0].settings, read_version=_no_version)
    data = serialize_manifest(message, joined.SerializeToString(), None)
    rows = replace(snapshot, manifest=parse_manifest(data, "staged rows"))
    schema = pa.schema([given_blobs(field).to_arrow() for field in rows.manifest.schema.fields])
    options = ScanOptions(blob_handling="all_binary", verify_checksums=True)  # they are written again
    batches = LanceScanner(rows, options).to_batches()
    return pa.RecordBatchReader.from_batches(
        schema, (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches)
    )


def _no_version(version: int) -> NoReturn:
    raise InvalidInputError("staged rows have no versions", found=version)
