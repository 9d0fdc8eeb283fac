"""The results of tasks as one version."""

from __future__ import annotations

from collections.abc import Sequence

from lance_core.errors import InvalidInputError
from lance_core.mutations.compaction.plan import check_indices
from lance_core.mutations.compaction.tasks import RewriteResult
from lance_core.mutations.retry import made_before, opened
from lance_core.table.commit import commit as commit_transaction
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import new_transaction, rewrite


def commit(
    snapshot: Snapshot,
    results: Sequence[RewriteResult],
    *,
    transaction_id: str | None = None,
    sync: bool = True,
) -> Snapshot:
    """Put the new fragments of all results in the place of the old ones.

    Args:
        snapshot: any version of the table.
        results: of all tasks of a plan, or of some. Their files stay when this fails, see `discard`.
        transaction_id: the id of the transaction, a new one if not given.
        sync: make everything durable before returning.

    Raises:
        InvalidInputError: two results replace the same fragment, or there are none.
        CommitConflictError: a fragment was changed since the tasks were planned.
        CommitUnknownError: nobody can say whether the version was made.
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
    transaction = rewrite(
        new_transaction(min(result.read_version for result in results), uuid=transaction_id),
        ((result.original, result.new) for result in in_order),
    )
    return opened(snapshot, commit_transaction(snapshot.storage, transaction, sync=sync))
