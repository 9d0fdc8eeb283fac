"""Doing a change again on a newer version, when another commit made the first attempt impossible."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import timedelta

from lance_core.commit.transaction_lookup import find_committed
from lance_core.errors import CommitConflictError, InvalidInputError
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot

CONFLICT_RETRIES = 10
RETRY_TIMEOUT = timedelta(seconds=30)
_FIRST_WAIT_SECONDS = 0.02
_MAX_DOUBLINGS = 6


def with_retries(
    snapshot: Snapshot,
    attempt: Callable[[Snapshot], Manifest],
    operation: str,
    *,
    transaction_id: str | None = None,
    conflict_retries: int = CONFLICT_RETRIES,
    retry_timeout: timedelta = RETRY_TIMEOUT,
) -> Snapshot:
    """Let `attempt` change `snapshot` and commit; after a retryable conflict, the newest version instead.

    Before each attempt it is looked up whether a transaction of this id was committed, up to the version that
    the attempt is made on; the commit finds those after it. So who repeats a change gets its first result,
    even when both run at the same time.

    Args:
        snapshot: the version that the caller has open.
        attempt: makes the change and returns the manifest of the version it made. It leaves nothing behind
            when it fails.
        operation: what its transaction is, as a field of the message.
        transaction_id: the id of its transaction, if it was chosen by the caller.
        conflict_retries: attempts after the first.
        retry_timeout: no attempt begins later than this after the first.

    Returns:
        The version that was made.

    Raises:
        InvalidInputError: the id is that of another operation.
        CommitConflictError: not retryable, or retryable and there were too many.
        LanceError: as `attempt` does.
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
            # Writers that lost to the same commit do not come back at the same time.
            wait = _FIRST_WAIT_SECONDS * 2 ** min(number, _MAX_DOUBLINGS) * random.random()
            time.sleep(min(wait, max(0.0, deadline - time.monotonic())))
            current = snapshot.open_version()
        else:
            return snapshot.with_manifest(manifest)
    raise AssertionError  # the last attempt returns or raises


def made_before(snapshot: Snapshot, transaction_id: str | None, operation: str) -> Snapshot | None:
    """Return the version that a transaction of this id made, if one did: who repeats a change gets its
    first result.

    Errors are those of `find_committed`.
    """
    manifest = (
        None if transaction_id is None else find_committed(snapshot.storage, transaction_id, (operation,))
    )
    return None if manifest is None else snapshot.with_manifest(manifest)
