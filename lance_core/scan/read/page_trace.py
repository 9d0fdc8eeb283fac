"""Record of the pages that a scan reads."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_core.number_sets import distinct
from lance_core.scan.read.columns import Column
from lance_core.scan.read.live_rows import Offsets


class Trace:
    """Record of the pages that were read, by fragment and column; thread-safe."""

    def __init__(self) -> None:
        self._pages: defaultdict[tuple[int, str], set[int]] = defaultdict(set)
        self._lock = threading.Lock()

    def pages_read(self, fragment_id: int, column: str) -> int:
        """Return the number of pages of a column that were read."""
        return len(self._pages.get((fragment_id, column), ()))

    def follow(self, fragment_id: int, name: str, column: Column) -> Column:
        """Return the column in a form that records its reads."""
        return _TracedColumn(self, (fragment_id, name), column)

    def note(self, key: tuple[int, str], pages: Offsets) -> None:
        with self._lock:
            self._pages[key].update(pages.tolist())


class _TracedColumn:
    def __init__(self, trace: Trace, key: tuple[int, str], column: Column) -> None:
        self._trace = trace
        self._key = key
        self._column = column

    @property
    def page_rows(self) -> Sequence[int]:
        return self._column.page_rows

    @property
    def bytes_per_row(self) -> float:
        return self._column.bytes_per_row

    @property
    def dense_share(self) -> float:
        return self._column.dense_share

    def read(self, start: int, end: int) -> list[pa.Array]:
        first, last = self._pages(np.array([start, max(start, end - 1)]))
        self._trace.note(self._key, np.arange(first, last + 1))
        return self._column.read(start, end)

    def take(self, rows: Offsets) -> list[pa.Array]:
        self._trace.note(self._key, distinct(self._pages(rows)))
        return self._column.take(rows)

    def _pages(self, rows: Offsets) -> Offsets:
        """Return the page number of each row."""
        pages: Offsets = np.searchsorted(np.asarray(self.page_rows), rows, side="right") - 1
        return pages
