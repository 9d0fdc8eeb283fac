"""Counters: the use of caches, and the events of this process that operators watch."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from lance_core.forks import begin_anew_after_fork


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
