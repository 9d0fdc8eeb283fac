"""The threads that encode: one pool per process, made when first used and made anew after a fork."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def num_workers() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0))


def encode_pool() -> ThreadPoolExecutor:
    """The shared pool. Its tasks never wait for one another, so writers cannot block each other for ever."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(num_workers(), thread_name_prefix="lance-encode")
        return _pool


def _forget_pool() -> None:
    # The threads did not survive the fork, and the lock may have been held by one of them.
    global _lock, _pool
    _lock = threading.Lock()
    _pool = None


os.register_at_fork(after_in_child=_forget_pool)
