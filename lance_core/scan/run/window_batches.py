"""The batches of windows, each window read and cut by one worker thread.

If a window is in memory or on a local disk, reading its columns side by side saves no time. And the thread
that sends has nothing left to do with the batches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import pyarrow as pa

from lance_core.file.page_ranges import PageRange, read_batches
from lance_core.scan.read.columns import StoredColumn
from lance_core.scan.read.value_sizes import Counts
from lance_core.scan.run.batch_cutter import BatchCutter, BatchRun
from lance_core.scan.run.readahead import ColumnRead, Source, run_reads
from lance_core.scan.run.windows import Window, Windows

# Most fragments whose batches are decoded by one job, since a job has a price of its own.
_MOST_TOGETHER = 16


@dataclass(frozen=True)
class CutBatches:
    """The batches of a window.

    Attributes:
        runs: The batches, in order.
        num_bytes: Bytes of their values.
    """

    runs: list[BatchRun]
    num_bytes: int


@dataclass(frozen=True)
class WindowRead:
    """Read of all columns of a window; gives the batches of the window."""

    window: Window
    cutter: BatchCutter

    @property
    def num_bytes(self) -> int:
        """Estimated bytes of the decoded rows."""
        return self.window.num_bytes

    def run(self) -> CutBatches:
        cuts = self.window.cuts
        ranges = _page_ranges(self.window)
        if ranges is None:
            return self._cut(_columns(self.window.reads), cuts)
        if max(map(len, ranges)) == 1:
            return self._span([one for (one,) in ranges], 0, cuts)
        parts = []
        for start, end in _spans(ranges, cuts.tolist()):
            inside = [_between(column, start, end) for column in ranges]
            whole = [column[0] for column in inside] if max(map(len, inside)) == 1 else None
            spanned = cuts[cuts.searchsorted(start) : cuts.searchsorted(end, side="right")] - start
            parts.append(self._span(whole, start, spanned))
        return CutBatches([one for part in parts for one in part.runs], sum(p.num_bytes for p in parts))

    def _span(self, ranges: Sequence[PageRange] | None, start: int, cuts: Counts) -> CutBatches:
        """Return the batches between `cuts`, which count from row `start` of the window. No row is deleted.

        `ranges` has the page range of each column; None if one column needs several.
        """
        found = None if ranges is None else read_batches(ranges, cuts, self.cutter.schema)
        if found is not None:
            run = self.cutter.whole(found, cuts)
            if run is not None:
                return CutBatches([run], found.num_bytes)
            return self._cut([[array] for array in found.rows.columns], cuts)
        first = self.window.start + start
        return self._cut(_columns(self.window.reads_between(first, first + int(cuts[-1]))), cuts)

    def _cut(self, columns: Sequence[list[pa.Array]], cuts: Counts) -> CutBatches:
        cuts, num_bytes = self.cutter.fit(columns, cuts)
        return CutBatches(list(self.cutter.cut(columns, cuts)), num_bytes)


@dataclass(frozen=True)
class WindowsTogether:
    """Windows that one job reads."""

    reads: tuple[WindowRead, ...]


class WholeWindows(Source[WindowsTogether]):
    """The windows of a stream, to be read and cut by one worker thread each."""

    def __init__(self, windows: Windows, cutter: BatchCutter) -> None:
        self._windows = windows
        self._cutter = cutter
        self._together = 1

    def take(self, num_bytes: int) -> WindowsTogether | None:
        """Return the next window of about `num_bytes`, at least one batch; None at the end.

        Fragments that are small enough as a whole go together. The first results have few of them, since a
        reader waits for these.
        """
        windows = self._windows.take_several(num_bytes, self._together)
        self._together = min(2 * self._together, _MOST_TOGETHER)
        if not windows:
            return None
        return WindowsTogether(tuple([WindowRead(window, self._cutter) for window in windows]))


def _columns(reads: Sequence[ColumnRead]) -> list[list[pa.Array]]:
    """Return the arrays of each column. Raises the first error."""
    return list(run_reads(reads))


def _page_ranges(window: Window) -> list[list[PageRange]] | None:
    """Return the page ranges of all columns; None unless a kernel gives exactly the columns of the window.

    That is, no row is deleted, and all columns are shown as they are stored.
    """
    if window.cuts[-1] != window.end - window.start:
        return None
    ranges = []
    for column in window.fragment.columns:
        if not isinstance(column, StoredColumn) or not column.is_shown_as_stored:
            return None
        some = column.page_ranges(window.start, window.end)
        if some is None:
            return None
        ranges.append(some)
    return ranges


def _spans(ranges: Sequence[Sequence[PageRange]], cuts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows between cuts: the longest without an end of a page range inside, and the single
    batches with one inside.
    """
    edges = {
        end for column in ranges if len(column) > 1 for end in accumulate(p.end - p.start for p in column)
    }
    borders = {cuts[0], cuts[-1]}
    for edge in edges:
        number = bisect_left(cuts, edge)
        borders.add(cuts[number])
        if cuts[number] != edge:
            borders.add(cuts[number - 1])
    return pairwise(sorted(borders))


def _between(ranges: Sequence[PageRange], start: int, end: int) -> list[PageRange]:
    """Return the page ranges of rows `[start, end)`, counted from the first row of the first page range."""
    if len(ranges) == 1:
        first = ranges[0].start
        return [ranges[0]._replace(start=first + start, end=first + end)]
    found = []
    begin = 0
    for one in ranges:
        stop = begin + one.end - one.start
        if begin < end and start < stop:
            rows = max(start - begin, 0), min(end, stop) - begin
            found.append(one._replace(start=one.start + rows[0], end=one.start + rows[1]))
        begin = stop
    return found
