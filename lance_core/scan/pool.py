"""The threads that decode: one pool per process, made when first used and made anew after a fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar, cast

T = TypeVar("T")

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def num_workers() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0))


def decode_pool() -> ThreadPoolExecutor:
    """The shared pool. Its tasks never wait for one another, so streams cannot block each other for ever."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(num_workers(), thread_name_prefix="lance-decode")
        return _pool


def run_all(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """The results of all jobs, in order; the calling thread does its share, so that no thread waits idly."""
    results: list[T | None] = [None] * len(jobs)
    waiting = iter(enumerate(jobs))  # threads take turns: taking the next item is atomic

    def work() -> None:
        for number, job in waiting:
            results[number] = job()

    helpers = [decode_pool().submit(work) for _ in range(min(num_workers(), len(jobs)) - 1)]
    try:
        work()
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)
    for helper in begun:
        helper.result()
    return cast(list[T], results)


def _forget_pool() -> None:
    # The threads did not survive the fork, and the lock may have been held by one of them.
    global _lock, _pool
    _lock = threading.Lock()
    _pool = None


os.register_at_fork(after_in_child=_forget_pool)
