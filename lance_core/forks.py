"""Shared state of a process begins anew in a forked process.

Only the thread that forks survives in the child. Locks that other threads held stay locked there for ever,
and what these threads had begun is never finished.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from lance_core.errors import UnsupportedFeatureError


class Shared(Protocol):
    """State that many threads use, with the locks that guard it."""

    def begin(self) -> None:
        """Set the state to what it is in a new process, with new locks."""


_shared: WeakSet[Shared] = WeakSet()


def begin_anew_after_fork(shared: Shared) -> None:
    """Call `shared.begin()` in every process that is forked from this one."""
    _shared.add(shared)


def check_process(process: int) -> None:
    """Refuse to go on with what another process has begun.

    Args:
        process: id of the process in which it was begun.

    Raises:
        UnsupportedFeatureError: this is a child that was forked since.
    """
    if process != os.getpid():
        raise UnsupportedFeatureError(
            "a stream of batches that was begun before the process was forked; begin it in the forked process"
        )


def _begin_all() -> None:
    for shared in list(_shared):
        shared.begin()


os.register_at_fork(after_in_child=_begin_all)
