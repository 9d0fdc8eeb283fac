"""In-memory cache of statistics that were read from files or gathered from decoded rows, bounded in bytes.

Data files never change, so an entry stays valid for the identity of its file. Statistics of a whole column
that scans gathered are also stored in a directory, if one is configured.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar, cast

import pyarrow as pa

from lance_core.process.counters import CacheUse, HitCounter
from lance_core.process.forks import begin_anew_after_fork

# Imported late: most processes never use a filter.
if TYPE_CHECKING:
    from lance_core.statistics.column_facts import ColumnFacts
    from lance_core.statistics.disk_cache import StatisticsDirectory
    from lance_core.statistics.zone_statistics import GatheredColumn


_TABLE_BYTES = 5 << 10
"""Memory of the objects that make a small table, beside the bytes of its values."""
_NOTHING_BYTES = 512
"""Estimated memory of an entry without statistics."""


class ColumnKey(NamedTuple):
    """Key of one column of one data file, as it is read."""

    storage: str
    """Identity of the storage."""
    file: str
    """Path of the file in the storage."""
    identity: str
    """Identity of the file, which changes when the file is replaced."""
    column: str
    """Column of the file, and the parts of the schema that decide how it is read."""


@dataclass
class _Stored:
    """Statistics of one column that its file contains."""

    table: pa.Table | None


@dataclass
class _Known:
    """All known statistics of one column, and the two tables that they were made of."""

    stored: pa.Table | None
    gathered: pa.Table | None
    facts: ColumnFacts


@dataclass
class _Whole:
    """Everything known of one or more fragments."""

    known: object
    num_bytes: int


T = TypeVar("T")
_Entry: TypeAlias = "_Stored | GatheredColumn | _Known | _Whole"
_Key: TypeAlias = "tuple[str, Hashable]"


class StatisticsCache:
    """Least recently used statistics of columns; thread-safe."""

    def __init__(self, max_bytes: int = 64 << 20, directory: StatisticsDirectory | None = None) -> None:
        self._max_bytes = max_bytes
        self._directory = directory
        self.begin()
        begin_anew_after_fork(self)

    def begin(self) -> None:
        """Start with an empty cache, in this process or in a forked one."""
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self._sizes: dict[_Key, int] = {}
        self._num_bytes = 0
        self._counter = HitCounter()
        self._num_changes = 0
        self._lock = threading.Lock()

    def use(self) -> CacheUse:
        """Return the memory in use, and the numbers of hits and misses."""
        with self._lock:
            counter = self._counter
            return CacheUse(
                len(self._entries), self._num_bytes, self._max_bytes, counter.hits, counter.misses
            )

    @property
    def directory(self) -> StatisticsDirectory | None:
        """Directory that stores gathered statistics for other processes; None without one."""
        return self._directory

    @property
    def num_bytes(self) -> int:
        """Estimated memory in use, in bytes."""
        return self._num_bytes

    @property
    def num_changes(self) -> int:
        """Number of times that scans added statistics."""
        return self._num_changes

    def use_directory(self, path: str | os.PathLike[str] | None, max_bytes: int = 256 << 20) -> None:
        """Store gathered statistics in a directory, too, from now on. None stops this."""
        from lance_core.statistics.disk_cache import StatisticsDirectory

        self._directory = None if path is None else StatisticsDirectory(path, max_bytes)

    def stored(self, key: ColumnKey, read: Callable[[], pa.Table | None]) -> pa.Table | None:
        """Return the statistics that the file contains for a column; `read` reads them at the first call."""
        entry = self._get(("stored", key))
        if not isinstance(entry, _Stored):
            entry = _Stored(read())
            self._put(("stored", key), entry)
        return entry.table

    def gathered(self, key: ColumnKey, value_type: pa.DataType, num_rows: int) -> pa.Table | None:
        """Return the statistics that scans gathered for a column of `num_rows` values, or None.

        With a directory, scans of earlier processes count too.
        """
        return self._column(key, value_type, num_rows).table()

    def facts(
        self, key: ColumnKey, stored: pa.Table | None, gathered: pa.Table | None, num_rows: int
    ) -> ColumnFacts | None:
        """Return both tables of statistics of a column of `num_rows` values as one; None without any.

        What pruning computes from it is kept until one of the tables is another one.
        """
        from lance_core.statistics.column_facts import ColumnFacts
        from lance_core.statistics.column_statistics import refined

        if stored is None and gathered is None:
            return None
        entry = self._get(("known", key))
        if isinstance(entry, _Known) and entry.stored is stored and entry.gathered is gathered:
            return entry.facts
        table = stored if gathered is None else gathered
        if stored is not None and gathered is not None:
            table = refined(stored, gathered, num_rows)
        facts = ColumnFacts(table)
        self._put(("known", key), _Known(stored, gathered, facts), replaces=True)
        return facts

    def whole(self, key: Hashable, kind: type[T]) -> T | None:
        """Return what `keep_whole` kept, an object of type `kind`; None if nothing is kept."""
        entry = self._get(("whole", key))
        return cast(T, entry.known) if isinstance(entry, _Whole) else None

    def keep_whole(self, key: Hashable, known: object, num_bytes: int) -> None:
        """Keep what is known of one or more fragments, in place of what was kept under the same key.

        Args:
            key: What identifies the fragments and the columns.
            known: What is known.
            num_bytes: Estimated memory of it.
        """
        self._put(("whole", key), _Whole(known, num_bytes), replaces=True)

    def wants(self, key: ColumnKey, value_type: pa.DataType, num_rows: int, start: int, end: int) -> bool:
        """Return whether `gather` would gather statistics from rows `[start, end)` of a column."""
        return bool(self._column(key, value_type, num_rows).gaps(start, end))

    def gather(
        self,
        key: ColumnKey,
        value_type: pa.DataType,
        num_rows: int,
        first_row: int,
        arrays: Sequence[pa.Array],
    ) -> None:
        """Gather statistics from consecutive decoded rows of a column.

        Args:
            key: the column.
            value_type: Arrow type of its values.
            num_rows: number of rows of the whole column.
            first_row: row number of the first value of `arrays`.
            arrays: decoded values.
        """
        column = self._column(key, value_type, num_rows)
        if column.is_complete:
            return
        column.add(first_row, arrays)
        self._put(("gathered", key), column)
        with self._lock:
            self._num_changes += 1
        if self._directory is not None and column.is_complete:
            table = column.table()
            if table is not None:
                self._directory.store(key, table)

    def _column(self, key: ColumnKey, value_type: pa.DataType, num_rows: int) -> GatheredColumn:
        from lance_core.statistics.zone_statistics import GatheredColumn

        entry = self._get(("gathered", key))
        if isinstance(entry, GatheredColumn):
            return entry
        known = self._directory.load(key, value_type, num_rows) if self._directory is not None else None
        column = GatheredColumn(value_type, num_rows, known)
        kept = self._put(("gathered", key), column)
        return kept if isinstance(kept, GatheredColumn) else column

    def _get(self, key: _Key) -> _Entry | None:
        with self._lock:
            entry = self._entries.get(key)
            self._counter.count(entry is not None)
            if entry is not None:
                self._entries.move_to_end(key)
            return entry

    def _put(self, key: _Key, entry: _Entry, *, replaces: bool = False) -> _Entry:
        """Store an entry, update its size, and return it; return the existing entry if another thread was
        faster, unless the entry replaces it.
        """
        with self._lock:
            if replaces:
                self._entries[key] = entry
            kept = self._entries.setdefault(key, entry)
            self._entries.move_to_end(key)
            size = _memory_bytes(kept)
            self._num_bytes += size - self._sizes.get(key, 0)
            self._sizes[key] = size
            while self._num_bytes > self._max_bytes and len(self._entries) > 1:
                dropped, _ = self._entries.popitem(last=False)
                self._num_bytes -= self._sizes.pop(dropped)
            return kept


def _memory_bytes(entry: _Entry) -> int:
    """Return the estimated memory of an entry."""
    if isinstance(entry, _Known):
        return entry.facts.num_bytes
    if isinstance(entry, _Whole):
        return _NOTHING_BYTES + entry.num_bytes
    if not isinstance(entry, _Stored):
        return _TABLE_BYTES * entry.num_tables + entry.value_bytes
    return _NOTHING_BYTES if entry.table is None else _TABLE_BYTES + entry.table.nbytes
