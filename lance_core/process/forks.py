"""State of a process that must be reset in a forked process.

Only the forking thread survives in the child. Locks that other threads held would stay locked for ever, and
work that other threads had begun would never finish.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from lance_core.errors import UnsupportedFeatureError


class Shared(Protocol):
    """State that is shared by threads, with the locks that guard it."""

    def begin(self) -> None:
        """Reset the state to that of a new process, with new locks."""


_shared: WeakSet[Shared] = WeakSet()


def begin_anew_after_fork(shared: Shared) -> None:
    """Register state: `shared.begin()` is called in every process that is forked from this one."""
    _shared.add(shared)


def check_process(process: int) -> None:
    """Refuse to continue work that another process has begun.

    Args:
        process: id of the process that began the work.

    Raises:
        UnsupportedFeatureError: the current process was forked later.
    """
    if process != os.getpid():
        raise UnsupportedFeatureError(
            "a stream of batches that was begun before the process was forked; begin it in the forked process"
        )


def _begin_all() -> None:
    for shared in list(_shared):
        shared.begin()


os.register_at_fork(after_in_child=_begin_all)
