"""Locks of the caller that are held while a version is made.

A storage without an exclusive put cannot decide which of two writers makes a version. A caller may bring a
lock for that, or hold a lock of its own around the commits of other tools. The lock is a function from the
number of the version to a context manager, as in the reference.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from lance_core.errors import ArgumentTypeError, CommitUnknownError, StorageError

CommitLock = Callable[[int], AbstractContextManager[object]]
"""Function from the number of the version that is about to be made to a context manager."""


def check_lock(lock: object) -> None:
    """Raise a `TypeError` if this is neither None nor a function."""
    if lock is not None and not callable(lock):
        raise ArgumentTypeError(f"commit_lock must be a function, got {type(lock).__name__}")


@contextmanager
def held(lock: CommitLock, version: int) -> Iterator[None]:
    """Hold the lock while the block puts the manifest of a version.

    If the put fails, the lock gets its error on release, and nothing that the lock raises then hides it.

    Raises:
        StorageError: the lock was not acquired; nothing was put.
        CommitUnknownError: the lock failed when it was released, after the version was made.
    """
    try:
        lease = lock(version)
        lease.__enter__()
    except Exception as error:
        raise StorageError(f"the commit lock refused version {version}: {_described(error)}") from error
    try:
        yield
    except BaseException as error:
        with suppress(Exception):
            lease.__exit__(type(error), error, error.__traceback__)
        raise
    try:
        lease.__exit__(None, None, None)
    except Exception as error:
        raise CommitUnknownError(
            f"version {version} was made, but releasing the commit lock failed: {_described(error)}"
        ) from error


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
