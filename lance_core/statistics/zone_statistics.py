"""Statistics of one column that scans gather while they decode the column for a filter.

Statistics are gathered per zone: a range of at most 8192 rows that were decoded together. Zones are finer
than pages, which may have a million rows, and a page need not be decoded at once. Rows with known statistics
are not examined again, so only the first filter on a column pays for them.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_core.schema.arrow_values import array_of, numbers_of
from lance_core.statistics.collect import page_bounds
from lance_core.statistics.column_statistics import statistics_schema

ZONE_ROWS = 8192
_LEAST_ROWS = 1024
"""Minimum rows of a zone, except for a zone that fills the gap between known rows."""


class GatheredColumn:
    """Known statistics of a column of `num_rows` values of type `value_type`; thread-safe.

    Attributes:
        value_bytes: Bytes of the values of all tables.
        num_tables: Number of small tables that hold the statistics.
    """

    def __init__(self, value_type: pa.DataType, num_rows: int, known: pa.Table | None = None) -> None:
        """Start without statistics, or with the table `known` of the whole column."""
        self._type = value_type
        self._num_rows = num_rows
        # Starts, ends and zones of the ranges of known rows, which are ascending and do not overlap.
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._zones: list[pa.RecordBatch] = []
        self._table = known
        self._unknown_rows = 0 if known is not None else num_rows
        self._lock = threading.Lock()
        self.num_tables = 1
        self.value_bytes = 0 if known is None else known.nbytes

    @property
    def is_complete(self) -> bool:
        """Whether all rows are known."""
        return self._unknown_rows == 0

    def table(self) -> pa.Table | None:
        """Return the known statistics as a table of `lance_core.statistics.column_statistics`.

        Return None if nothing is known.
        """
        with self._lock:
            if self._table is None and self._zones:
                self._table = self._assemble()
                if self.is_complete:
                    self._zones.clear()
                    self.num_tables, self.value_bytes = 1, self._table.nbytes
            return self._table

    def add(self, first_row: int, arrays: Sequence[pa.Array]) -> None:
        """Gather statistics of consecutive decoded rows; `first_row` is the number of the first one."""
        for array in arrays:
            for start, end in self.gaps(first_row, first_row + len(array)):
                part = array.slice(start - first_row, end - start)
                self._insert(start, end, page_bounds(part, ZONE_ROWS))
            first_row += len(array)

    def gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the ranges within `[start, end)` of which `add` would gather statistics."""
        if self.is_complete:
            return []
        return [gap for gap in self._gaps(start, end) if gap[1] - gap[0] >= _LEAST_ROWS or self._closes(*gap)]

    def _gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the ranges within `[start, end)` without known statistics."""
        with self._lock:
            first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
            lows = [start, *self._ends[first:last]]
            highs = [*self._starts[first:last], end]
        return [(low, high) for low, high in zip(lows, highs, strict=True) if low < high]

    def _closes(self, start: int, end: int) -> bool:
        """Return whether an unknown range lies between known rows or at an end of the column."""
        with self._lock:
            return (start == 0 or start in self._ends) and (end == self._num_rows or end in self._starts)

    def _insert(self, start: int, end: int, zones: pa.RecordBatch) -> None:
        with self._lock:
            at = bisect_left(self._starts, start)
            # Another thread may have added some of these rows meanwhile.
            if (at and self._ends[at - 1] > start) or (at < len(self._starts) and self._starts[at] < end):
                return
            self._starts.insert(at, start)
            self._ends.insert(at, end)
            self._zones.insert(at, zones)
            self._table = None
            self._unknown_rows -= end - start
            self.num_tables += 1
            self.value_bytes += zones.nbytes

    def _assemble(self) -> pa.Table:
        zones = pa.Table.from_batches(self._zones).combine_chunks()
        rows = numbers_of(zones["rows"])
        run_rows = np.subtract(self._ends, self._starts)
        # First row of a zone: the rows of all zones before it, plus the unknown rows before it.
        skipped = np.subtract(self._starts, np.cumsum(run_rows) - run_rows)
        first_rows = np.cumsum(rows) - rows + np.repeat(skipped, [len(batch) for batch in self._zones])
        return pa.Table.from_arrays(
            [
                array_of(np.zeros(len(rows), np.int32)),
                pa.nulls(len(rows), pa.int32()),
                array_of(first_rows),
                *zones.columns,
            ],
            schema=statistics_schema(self._type),
        )
