"""Retries of a change on a newer version, after a conflict with another commit."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import timedelta

from lance_core.arguments import named
from lance_core.commit.transaction_lookup import find_committed
from lance_core.errors import CommitConflictError, InvalidInputError
from lance_core.process.counters import RETRIES
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot

CONFLICT_RETRIES = 10
RETRY_TIMEOUT = timedelta(seconds=30)
_FIRST_WAIT_SECONDS = 0.02
_MAX_DOUBLINGS = 6


@named
def with_retries(
    snapshot: Snapshot,
    attempt: Callable[[Snapshot], Manifest],
    operation: str,
    *,
    transaction_id: str | None = None,
    conflict_retries: int = CONFLICT_RETRIES,
    retry_timeout: timedelta = RETRY_TIMEOUT,
) -> Snapshot:
    """Call `attempt` with `snapshot`. After a retryable conflict, call it again with the newest version.

    Each attempt is preceded by a search for a transaction with this id, up to the version of the attempt. The
    commit finds such transactions in later versions. So a repeated change gets the first result, also if both
    run at the same time.

    Args:
        snapshot: The opened version.
        attempt: Makes and commits the change, and returns the manifest of the new version. If it fails, it
            leaves no files.
        operation: Field name of the operation in the transaction.
        transaction_id: UUID of the transaction, if the caller chose it.
        conflict_retries: Number of attempts after the first.
        retry_timeout: No attempt begins later than this after the first.

    Returns:
        The new version.

    Raises:
        InvalidInputError: A transaction of another operation has this id.
        CommitConflictError: A conflict is not retryable, or there were too many conflicts.
        LanceError: The errors of `attempt`.
    """
    if conflict_retries < 0:
        raise InvalidInputError("conflict_retries", expected="0 or more", found=conflict_retries)
    deadline = time.monotonic() + retry_timeout.total_seconds()
    current = snapshot
    for number in range(conflict_retries + 1):
        before = made_before(current, transaction_id, operation)
        if before is not None:
            return before
        try:
            manifest = attempt(current)
        except CommitConflictError as error:
            if not error.retryable:
                raise
            if number == conflict_retries or time.monotonic() >= deadline:
                raise CommitConflictError(
                    f"too many concurrent writers: gave up after {number + 1} attempts, the last of which"
                    f" failed because {error}",
                    retryable=True,
                ) from error
            # The wait is random, so that writers that lost to the same commit do not collide again.
            wait = _FIRST_WAIT_SECONDS * 2 ** min(number, _MAX_DOUBLINGS) * random.random()
            time.sleep(min(wait, max(0.0, deadline - time.monotonic())))
            RETRIES.add(operation, "conflict")
            current = snapshot.open_version()
        else:
            return snapshot.with_manifest(manifest)
    raise AssertionError  # the last attempt returns or raises


def made_before(snapshot: Snapshot, transaction_id: str | None, operation: str) -> Snapshot | None:
    """Return the version that the transaction with this id made, None if there is none.

    Errors are those of `find_committed`.
    """
    manifest = (
        None if transaction_id is None else find_committed(snapshot.storage, transaction_id, (operation,))
    )
    return None if manifest is None else snapshot.with_manifest(manifest)
