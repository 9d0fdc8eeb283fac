"""Commit of the results of tasks as one version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from lance_core.changes.compaction.indices import (
    check_indices,
    move_indices,
    moved_group,
    segments_to_move,
)
from lance_core.changes.compaction.results import RewriteResult
from lance_core.changes.fragment_reuse import discard_entry, reuse_entry
from lance_core.changes.retry import made_before
from lance_core.commit.commit import commit as commit_transaction
from lance_core.commit.index_section import DeferredMoves
from lance_core.errors import CommitUnknownError, InvalidInputError, LanceError
from lance_core.index.moving.reused_fragments import group_message
from lance_core.proto import table_pb2
from lance_core.proto.index_pb2 import FragmentReuseIndexDetails as Details
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import new_transaction, reserve_fragments, rewrite


def commit(
    snapshot: Snapshot,
    results: Sequence[RewriteResult],
    *,
    defer_index_remap: bool = False,
    transaction_id: str | None = None,
    sync: bool = True,
) -> Snapshot:
    """Replace the old fragments of all results by the new ones.

    Index files that name rows by address are rewritten, or readers translate the addresses in them
    (`defer_index_remap`). Both take two versions: the first one reserves fragment ids. `coverage_report`
    finds the indices that cover less nevertheless.

    Args:
        snapshot: Any version of the table.
        results: Results of all tasks of a plan, or of some. If the commit fails, their files stay; see
            `discard`.
        defer_index_remap: See `CompactionOptions`.
        transaction_id: UUID of the transaction; a new one if None.
        sync: Make everything durable before returning.

    Raises:
        InvalidInputError: There are no results, two results replace the same fragment, or
            `defer_index_remap` is given for a table with stable row ids.
        CommitConflictError: A fragment was changed since the plan.
        CommitUnknownError: The storage did not tell whether the version was made.
    """
    before = made_before(snapshot, transaction_id, "rewrite")
    if before is not None:
        return before
    if not results:
        raise InvalidInputError("no results to commit")
    replaced = [message.id for result in results for message in result.original]
    if len(set(replaced)) != len(replaced):
        raise InvalidInputError("two results replace one fragment")
    check_indices(snapshot.manifest, defer_index_remap)
    in_order = sorted(results, key=lambda result: result.original[0].id)
    if defer_index_remap:
        return _commit_deferred(snapshot, in_order, transaction_id, sync)
    if snapshot.manifest.index_segments:
        return _commit_with_indices(snapshot, in_order, transaction_id, sync)
    transaction = _transaction(in_order, transaction_id)
    return snapshot.with_manifest(
        commit_transaction(snapshot.storage, transaction, read=snapshot.manifest, sync=sync)
    )


def _commit_with_indices(
    snapshot: Snapshot, results: list[RewriteResult], transaction_id: str | None, sync: bool
) -> Snapshot:
    """Commit results together with rewritten index files.

    Index files name fragments, so the ids of the new fragments are reserved before the files are written.
    """
    storage = snapshot.storage
    newest = snapshot.open_version()
    if segments_to_move(newest, results):
        newest, results = _reserved(newest, results, sync)
    moved = move_indices(newest, segments_to_move(newest, results), results, sync=sync)
    transaction = _transaction(results, transaction_id)
    transaction.rewrite.rewritten_indices.extend(moved.rewritten)
    try:
        return snapshot.with_manifest(commit_transaction(storage, transaction, sync=sync))
    except CommitUnknownError:
        raise
    except LanceError:
        moved.discard(storage)
        raise


def _commit_deferred(
    snapshot: Snapshot, results: list[RewriteResult], transaction_id: str | None, sync: bool
) -> Snapshot:
    """Commit results together with an entry that says how to translate row addresses in index files."""
    storage = snapshot.storage
    newest, results = _reserved(snapshot.open_version(), results, sync)
    reuse = newest.manifest.fragment_reuse
    version = Details.Version(
        dataset_version=newest.manifest.version,
        groups=[group_message(moved_group(newest, result)) for result in results],
    )
    versions = [*(reuse.versions if reuse else ()), version]
    entry = reuse_entry(storage, newest.manifest, versions, sync=sync)
    deferred = DeferredMoves(entry, UUID(reuse.uuid).bytes if reuse else None)
    try:
        manifest = commit_transaction(
            storage, _transaction(results, transaction_id), deferred_moves=deferred, sync=sync
        )
    except CommitUnknownError:
        raise
    except LanceError:
        discard_entry(storage, entry)
        raise
    return snapshot.with_manifest(manifest)


def _reserved(
    newest: Snapshot, results: list[RewriteResult], sync: bool
) -> tuple[Snapshot, list[RewriteResult]]:
    """Make a version that reserves ids for all new fragments; return it, and the results with these ids."""
    count = sum(len(result.new) for result in results)
    reservation = reserve_fragments(new_transaction(newest.manifest.version), count)
    reserved = newest.with_manifest(
        commit_transaction(newest.storage, reservation, read=newest.manifest, sync=sync)
    )
    highest = reserved.manifest.max_fragment_id
    assert highest is not None
    ids = iter(range(highest - count + 1, highest + 1))
    return reserved, [replace(result, new=_numbered(result.new, ids)) for result in results]


def _transaction(results: Sequence[RewriteResult], transaction_id: str | None) -> Transaction:
    read_version = min(result.read_version for result in results)
    return rewrite(
        new_transaction(read_version, uuid=transaction_id),
        ((result.original, result.new) for result in results),
    )


def _numbered(
    fragments: Sequence[table_pb2.DataFragment], ids: Iterator[int]
) -> tuple[table_pb2.DataFragment, ...]:
    """Return copies of the fragments with the next ids."""
    numbered = []
    for fragment in fragments:
        copy = table_pb2.DataFragment()
        copy.CopyFrom(fragment)
        copy.id = next(ids)
        numbered.append(copy)
    return tuple(numbered)
