"""Cache of what searches read from index files, limited in bytes.

Index files never change, so an entry stays valid as long as the uuid in its key. An entry is anything that a
search reads or derives from a file: the open file itself, columns, pages, dictionaries, posting lists.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar, cast

from lance_core.process.counters import CacheUse, HitCounter, note
from lance_core.process.forks import begin_anew_after_fork

T = TypeVar("T")

_ENTRY_BYTES = 512
"""Estimated memory of an entry besides its value."""


class IndexCache:
    """Least recently used parts of index files; thread-safe."""

    def __init__(self, max_bytes: int = 256 << 20) -> None:
        """Make an empty cache of at most `max_bytes`; with 0 nothing is kept."""
        self._max_bytes = max_bytes
        self.begin()
        begin_anew_after_fork(self)

    def begin(self) -> None:
        """Begin without entries, in this process or in a forked process."""
        self._entries: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._num_bytes = 0
        self._counter = HitCounter()
        self._lock = threading.Lock()

    @property
    def max_bytes(self) -> int:
        """Most bytes of all entries."""
        return self._max_bytes

    def use(self) -> CacheUse:
        """Return the memory in use, and the numbers of hits and misses."""
        with self._lock:
            counter = self._counter
            return CacheUse(
                len(self._entries), self._num_bytes, self._max_bytes, counter.hits, counter.misses
            )

    def has(self, key: Hashable) -> bool:
        """Return whether there is an entry. This counts neither as a hit nor as a use."""
        with self._lock:
            return key in self._entries

    def find(self, key: Hashable) -> object | None:
        """Return the value of an entry, which counts as used; None if there is no such entry."""
        with self._lock:
            entry = self._entries.get(key)
            self._counter.count(hit=entry is not None)
            note("index_cache_misses" if entry is None else "index_cache_hits")
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def find_each(self, keys: Sequence[Hashable]) -> list[object | None]:
        """Return what `find` returns for each key."""
        with self._lock:
            entries = self._entries
            found: list[object | None] = [None] * len(keys)
            num_missed = len(keys)
            for place, key in enumerate(keys):
                entry = entries.get(key)
                if entry is not None:
                    entries.move_to_end(key)
                    found[place] = entry[0]
                    num_missed -= 1
            self._counter.hits += len(keys) - num_missed
            self._counter.misses += num_missed
        note("index_cache_hits", len(keys) - num_missed)
        note("index_cache_misses", num_missed)
        return found

    def keep(self, key: Hashable, value: T, num_bytes: int) -> T:
        """Keep a value, and return it; return the value that another thread kept under this key before.

        Args:
            key: Key of the entry.
            value: Any object but None, which no one changes.
            num_bytes: Estimated memory of the value. A value that is larger than the cache is not kept.
        """
        num_bytes += _ENTRY_BYTES
        if num_bytes > self._max_bytes:
            return value
        with self._lock:
            if key in self._entries:
                return cast(T, self._entries[key][0])
            self._entries[key] = (value, num_bytes)
            self._num_bytes += num_bytes
            while self._num_bytes > self._max_bytes:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._num_bytes -= dropped
            return value

    def get(self, key: Hashable, load: Callable[[], T], num_bytes: Callable[[T], int]) -> T:
        """Return the value of an entry; without it, load the value and keep it.

        Two threads that miss at the same time both load. `load` must not return None; its errors are raised.
        """
        found = self.find(key)
        if found is not None:
            return cast(T, found)
        value = load()
        return self.keep(key, value, num_bytes(value))
