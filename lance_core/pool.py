"""The threads that read, decode and encode: pools of a process, made when first used and again after a fork.

One has a thread per core. The other is for files that are far away: most of its threads wait for an answer.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")

_REMOTE_WORKERS = 32
_BEGUN_AHEAD = 16

_lock = threading.Lock()
_pools: dict[bool, ThreadPoolExecutor] = {}


def num_workers(is_remote: bool = False) -> int:
    """Threads of the pool: as many as cores this process may run on, or enough to hide round trips."""
    return _REMOTE_WORKERS if is_remote else len(os.sched_getaffinity(0))


def worker_pool(is_remote: bool = False) -> ThreadPoolExecutor:
    """Return the shared pool. Its tasks never wait for one another, so nobody can block another for ever."""
    with _lock:
        pool = _pools.get(is_remote)
        if pool is None:
            name = "lance-remote" if is_remote else "lance-worker"
            pool = _pools[is_remote] = ThreadPoolExecutor(num_workers(is_remote), thread_name_prefix=name)
        return pool


def run_all(jobs: Sequence[Callable[[], T]], is_remote: bool = False) -> list[T]:
    """Return the results of all jobs, in order; the calling thread does its share, so that no thread waits
    idly.
    """
    results: list[T | None] = [None] * len(jobs)
    waiting = iter(enumerate(jobs))  # threads take turns: taking the next item is atomic

    def work() -> None:
        for number, job in waiting:
            results[number] = job()

    num_helpers = min(num_workers(is_remote), len(jobs)) - 1
    helpers = [worker_pool(is_remote).submit(work) for _ in range(num_helpers)]
    try:
        work()
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)
    for helper in begun:
        helper.result()
    return cast(list[T], results)


def map_ahead(act: Callable[[T], R], items: Iterable[T], is_remote: bool) -> Iterator[R]:
    """`act` of each item, in order. Where files are far away, some of the next ones are begun meanwhile."""
    if not is_remote:
        yield from map(act, items)
        return
    pool = worker_pool(is_remote)
    begun: deque[Future[R]] = deque()
    try:
        for item in items:
            begun.append(pool.submit(act, item))
            if len(begun) > _BEGUN_AHEAD:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        for future in begun:
            future.cancel()


def _forget_pools() -> None:
    # The threads did not survive the fork, and the lock may have been held by one of them.
    global _lock, _pools
    _lock = threading.Lock()
    _pools = {}


os.register_at_fork(after_in_child=_forget_pools)
