"""Commit of the results of tasks as one version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lance_core.changes.compaction.indices import check_indices, move_indices, segments_to_move
from lance_core.changes.compaction.results import RewriteResult
from lance_core.changes.retry import made_before
from lance_core.commit.commit import commit as commit_transaction
from lance_core.errors import CommitUnknownError, InvalidInputError, LanceError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import new_transaction, reserve_fragments, rewrite


def commit(
    snapshot: Snapshot,
    results: Sequence[RewriteResult],
    *,
    transaction_id: str | None = None,
    sync: bool = True,
) -> Snapshot:
    """Replace the old fragments of all results by the new ones.

    Index files that name rows by address are rewritten. This takes two versions: the first one reserves
    fragment ids. `lost_coverage` finds the indices that cover less nevertheless.

    Args:
        snapshot: Any version of the table.
        results: Results of all tasks of a plan, or of some. If the commit fails, their files stay; see
            `discard`.
        transaction_id: UUID of the transaction; a new one if None.
        sync: Make everything durable before returning.

    Raises:
        InvalidInputError: There are no results, or two results replace the same fragment.
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
    check_indices(snapshot.manifest)
    in_order = sorted(results, key=lambda result: result.original[0].id)
    if snapshot.manifest.index_segments:
        return _commit_with_indices(snapshot, in_order, transaction_id, sync)
    manifest = commit_transaction(snapshot.storage, _transaction(in_order, transaction_id), sync=sync)
    return snapshot.with_manifest(manifest)


def _commit_with_indices(
    snapshot: Snapshot, results: list[RewriteResult], transaction_id: str | None, sync: bool
) -> Snapshot:
    """Commit results together with rewritten index files.

    Index files name fragments, so the ids of the new fragments are reserved before the files are written.
    """
    storage = snapshot.storage
    newest = snapshot.open_version()
    if segments_to_move(newest, results):
        count = sum(len(result.new) for result in results)
        reservation = reserve_fragments(new_transaction(newest.manifest.version), count)
        newest = snapshot.with_manifest(commit_transaction(storage, reservation, sync=sync))
        assert newest.manifest.max_fragment_id is not None
        ids = iter(range(newest.manifest.max_fragment_id - count + 1, newest.manifest.max_fragment_id + 1))
        results = [replace(result, new=_numbered(result.new, ids)) for result in results]
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
