"""Counters of caches and events, the counts of single scans, and the steps of work that an observer may time.

The core knows nothing of who reads the counts, or of who observes its steps.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import ParamSpec, TypeAlias, TypeVar

from lance_core.kernels import thread_reads
from lance_core.process.forks import begin_anew_after_fork

P = ParamSpec("P")
R = TypeVar("R")

Observer: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Function that gets the name of a step of work, and returns a context that lasts as long as the step."""

_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)
_NOBODY = nullcontext()


@dataclass(frozen=True, slots=True)
class CacheUse:
    """State of a cache at one moment.

    Attributes:
        entries: Number of entries.
        bytes: Estimated memory of the entries.
        max_bytes: Limit of this memory. Above it, the least recently used entries are removed.
        hits: Requests for an entry that was in the cache.
        misses: Requests for an entry that was not.
    """

    entries: int
    bytes: int
    max_bytes: int
    hits: int
    misses: int


class HitCounter:
    """Counter of hits and misses. The caller holds the lock of the cache."""

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0

    def count(self, hit: bool) -> None:
        """Count one request."""
        if hit:
            self.hits += 1
        else:
            self.misses += 1


class EventCounter:
    """Number of events of one kind in this process, by their labels; thread-safe."""

    def __init__(self) -> None:
        self.begin()
        begin_anew_after_fork(self)

    def begin(self) -> None:
        """Begin with no events, in this process or in a forked process."""
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, ...]] = Counter()

    def add(self, *labels: str, amount: int = 1) -> None:
        """Count events with these labels, always as many labels."""
        with self._lock:
            self._counts[labels] += amount

    def counts(self) -> Mapping[tuple[str, ...], int]:
        """Return the number of events of all labels that had one."""
        with self._lock:
            return dict(self._counts)


PAGE_READS = EventCounter()
"""Reads of the rows of one page by one window of a scan. A page that two windows share is read twice."""
TAKEN_ROWS = EventCounter()
"""Rows that takes and lookups read."""
PLANNED_PAGES = EventCounter()
"""Pages of the columns of filters, when scans were planned and statistics were known."""
PRUNED_PAGES = EventCounter()
"""Pages among the planned pages in which no row matches."""
COMMITS = EventCounter()
"""Ends of commits, by operation and outcome: "landed", "repeated" (an earlier commit of the same transaction
made the version), "conflict", "unknown" or "failed".
"""
CONFLICTS = EventCounter()
"""Comparisons with transactions of other writers that mattered, by operation, operation of the other writer,
and verdict: "rebase", "retry" or "fail".
"""
RETRIES = EventCounter()
"""Repetitions, by operation and cause: "outpaced" (another writer made the version first, and the commit
tries the next version) or "conflict" (the change is computed again on the newest version).
"""


def event_counts() -> Mapping[str, Mapping[tuple[str, ...], int]]:
    """Return the counts of all events of this process by name and labels."""
    counters = {
        "page_reads": PAGE_READS,
        "taken_rows": TAKEN_ROWS,
        "planned_pages": PLANNED_PAGES,
        "pruned_pages": PRUNED_PAGES,
        "commits": COMMITS,
        "conflicts": CONFLICTS,
        "retries": RETRIES,
    }
    return {name: counter.counts() for name, counter in counters.items()}


class Tally:
    """Counts of the work of one scan, by all threads that do it; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._items: set[tuple[str, Hashable]] = set()
        self._times: Counter[str] = Counter()

    def add(self, name: str, amount: int = 1) -> None:
        """Add to a count."""
        with self._lock:
            self._counts[name] += amount

    def add_item(self, name: str, item: Hashable) -> None:
        """Add 1 to a count, unless it has counted this item before."""
        with self._lock:
            if (name, item) not in self._items:
                self._items.add((name, item))
                self._counts[name] += 1

    def add_time(self, name: str, nanoseconds: int) -> None:
        """Add the duration of a step."""
        with self._lock:
            self._times[name] += nanoseconds

    def counts(self) -> dict[str, int]:
        """Return all counts that are not 0, by name."""
        with self._lock:
            return {name: count for name, count in self._counts.items() if count}

    def times(self) -> dict[str, int]:
        """Return the nanoseconds of all steps, by name. Times of several threads are added."""
        with self._lock:
            return dict(self._times)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what this thread does in a block, and what worker threads do that it asks inside.

        Reads of files have the counts "requests" (calls that read), "iops" (byte ranges) and "bytes_read".
        """
        token = _tally.set(self)
        before = thread_reads()
        try:
            yield
        finally:
            _tally.reset(token)
            with self._lock:
                for name, then, now in zip(_READS, before, thread_reads(), strict=True):
                    self._counts[name] += now - then

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        """Add the duration of a block."""
        begun = time.perf_counter_ns()
        try:
            yield
        finally:
            self.add_time(name, time.perf_counter_ns() - begun)


_READS = ("requests", "iops", "bytes_read")
_tally: ContextVar[Tally | None] = ContextVar("tally", default=None)


def note(name: str, amount: int = 1) -> None:
    """Add to a count of the scan that this thread works for."""
    counts = _tally.get()
    if counts is not None:
        counts.add(name, amount)


def note_item(name: str, item: Hashable) -> None:
    """Add 1 to a count of the scan that this thread works for, unless the count has this item already."""
    counts = _tally.get()
    if counts is not None:
        counts.add_item(name, item)


def note_rows(fragment_id: int, num_ranges: int, num_rows: int) -> None:
    """Count row ranges of a fragment that the scan of this thread reads."""
    counts = _tally.get()
    if counts is not None:
        counts.add_item("fragments_scanned", fragment_id)
        counts.add("ranges_scanned", num_ranges)
        counts.add("rows_scanned", num_rows)


def tallied(run: Callable[P, R]) -> Callable[P, R]:
    """Return a function that another thread runs for the tally of this thread."""
    counts = _tally.get()
    if counts is None:
        return run

    def run_tallied(*arguments: P.args, **named: P.kwargs) -> R:
        with counts.counting():
            return run(*arguments, **named)

    return run_tallied


def observe(observer: Observer | None) -> None:
    """Let an observer see the steps that this thread does from now on, or lets worker threads do.

    The steps of reads are "decode" (rows of a window, or taken rows) and within it "read" (requests to a
    storage; files on a local disk are read by the kernels that decode). None: nobody observes.
    """
    _observer.set(observer)


def step(name: str) -> AbstractContextManager[object]:
    """Return the context of a step that begins."""
    observer, counts = _observer.get(), _tally.get()
    if counts is not None:
        return _timed(name, observer, counts)
    return _NOBODY if observer is None else observer(name)


@contextmanager
def _timed(name: str, observer: Observer | None, counts: Tally) -> Iterator[None]:
    with counts.timing(name), _NOBODY if observer is None else observer(name):
        yield


def observed(run: Callable[P, R]) -> Callable[P, R]:
    """Return a function that another thread runs with the observer and for the tally of this thread."""
    run = tallied(run)
    observer = _observer.get()
    if observer is None:
        return run

    def run_observed(*arguments: P.args, **named: P.kwargs) -> R:
        _observer.set(observer)
        try:
            return run(*arguments, **named)
        finally:
            _observer.set(None)

    return run_observed
