"""Thread pools of a process that read, decode and encode. A fork makes its own pools on first use.

One pool has a thread per core. The other pool reads remote files. It has more threads, because most of them
wait for answers.

In a server, each pool has two lanes with threads of their own: see `set_worker_niceness`. A flow is a
sequence of calls that one reader waits for, such as the windows of a scan. The first calls of every flow run
in the first lane, so they need not wait for the many calls that long scans have submitted to the other lane.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar, cast

from lance_core.process.counters import tallied

T = TypeVar("T")
R = TypeVar("R")

_REMOTE_WORKERS = 32
"""Threads of the pool for remote files: enough to send requests while others wait for their answers."""
_BEGUN_AHEAD = 16
"""Items of `map_ahead` that are begun before their results are needed."""

_FIRST_BYTES = 16 << 20
"""Decoded bytes that a flow gets in the first lane."""

_lock = threading.Lock()
_pools: dict[bool, WorkerPool] = {}
_niceness = 0


class Flow:
    """Calls that one reader waits for. For one thread."""

    __slots__ = ("num_bytes",)

    def __init__(self) -> None:
        self.num_bytes = 0
        """Decoded bytes of the calls so far."""


class WorkerPool:
    """Worker threads in two lanes. If the niceness is 0, both lanes are the same threads. Thread-safe.

    Attributes:
        num_threads: Number of threads of each lane.
    """

    def __init__(self, num_threads: int, name: str) -> None:
        self.num_threads = num_threads
        self._first = ThreadPoolExecutor(num_threads, thread_name_prefix=f"{name}-first")
        # Outside a server, few calls wait for others, and more threads than cores slow a filtered scan.
        self._other = self._first
        if _niceness:
            self._other = ThreadPoolExecutor(num_threads, thread_name_prefix=name, initializer=_make_nice)

    def submit(
        self, call: Callable[..., T], *arguments: object, flow: Flow | None = None, num_bytes: int = 0
    ) -> Future[T]:
        """Return the future result of a call that decodes `num_bytes`.

        A call without a flow never runs in the first lane.
        """
        is_first = flow is not None and flow.num_bytes < _FIRST_BYTES
        if flow is not None:
            flow.num_bytes += num_bytes
        return (self._first if is_first else self._other).submit(call, *arguments)


def num_workers(is_remote: bool = False) -> int:
    """Return the number of threads of a lane: one per core of this process, or `_REMOTE_WORKERS`."""
    return _REMOTE_WORKERS if is_remote else len(os.sched_getaffinity(0))


def set_worker_niceness(niceness: int) -> None:
    """Set the niceness of the threads of long scans and of writes, in pools that are made from now on.

    Args:
        niceness: 0 to 19, as for `nice`. If it is more than 0, pools have two lanes, and a server answers
            short calls between the windows of scans.
    """
    global _niceness
    _niceness = niceness


def worker_pool(is_remote: bool = False) -> WorkerPool:
    """Return the pool for local or for remote files, which the whole process shares.

    A function that runs in the pool must not wait for another one in the same pool: all threads could wait.
    """
    with _lock:
        pool = _pools.get(is_remote)
        if pool is None:
            name = "lance-remote" if is_remote else "lance-worker"
            pool = _pools[is_remote] = WorkerPool(num_workers(is_remote), name)
        return pool


def run_all(calls: Sequence[Callable[[], T]], is_remote: bool = False) -> list[T]:
    """Run all calls in a pool and in the calling thread, and return their results in order.

    If a call raises, the error is raised here after all calls that have begun.
    """
    results: list[T | None] = [None] * len(calls)
    waiting = iter(enumerate(calls))  # `next` is atomic, so that each call is run by one thread

    def work() -> None:
        for number, call in waiting:
            results[number] = call()

    num_helpers = min(num_workers(is_remote), len(calls)) - 1
    flow = Flow()
    helpers = [worker_pool(is_remote).submit(tallied(work), flow=flow) for _ in range(num_helpers)]
    try:
        work()
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)
    for helper in begun:
        helper.result()
    return cast(list[T], results)


def run_each(calls: Sequence[Callable[[], T]], is_remote: bool) -> list[T]:
    """Run all calls and return their results in order: side by side if each waits for a remote storage, else
    one after the other in the calling thread. Errors are those of the calls; see `run_all`.
    """
    return run_all(calls, is_remote=True) if is_remote else [call() for call in calls]


def run_both(first: Callable[[], T], second: Callable[[], R], is_remote: bool) -> tuple[T, R]:
    """Run two calls like `run_each`, and return both results."""
    calls: list[Callable[[], T | R]] = [first, second]
    return cast(tuple[T, R], tuple(run_each(calls, is_remote)))


def map_ahead(act: Callable[[T], R], items: Iterable[T], is_remote: bool) -> Iterator[R]:
    """Yield `act(item)` of each item, in order. If `is_remote`, the pool begins some of the next calls ahead.

    An error of `act` is raised when the result of its item is due.
    """
    if not is_remote:
        yield from map(act, items)
        return
    yield from map_in_pool(act, items, _BEGUN_AHEAD, is_remote=True, flow=Flow())


def map_in_pool(
    act: Callable[[T], R],
    items: Iterable[T],
    num_ahead: int,
    *,
    is_remote: bool = False,
    flow: Flow | None = None,
) -> Iterator[R]:
    """Yield `act(item)` of each item, in order. The pool begins `num_ahead` of the next calls ahead.

    An error of `act` is raised when the result of its item is due.
    """
    pool = worker_pool(is_remote)
    begun: deque[Future[R]] = deque()
    try:
        for item in items:
            begun.append(pool.submit(tallied(act), item, flow=flow))
            if len(begun) > num_ahead:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        for future in begun:
            future.cancel()


def _make_nice() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _niceness)


def _forget_pools() -> None:
    # The threads did not survive the fork, and the lock may have been held by one of them.
    global _lock, _pools
    _lock = threading.Lock()
    _pools = {}


os.register_at_fork(after_in_child=_forget_pools)
