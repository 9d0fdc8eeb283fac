"""The batches of windows, read and cut by one thread of the pool each.

Where a window is in memory or on a disk nearby, nothing is won by reading its columns side by side, and the
thread that sends has nothing left to do with what it gets.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import pyarrow as pa

from lance_core.errors import LanceError
from lance_core.file.direct import Piece, read_batches
from lance_core.scan.read.columns import StoredColumn
from lance_core.scan.read.value_sizes import Counts
from lance_core.scan.run.batch_cutter import BatchCutter, BatchRun
from lance_core.scan.run.readahead import Read, run_reads
from lance_core.scan.run.windows import Window, Windows

# Fragments whose batches are decoded by one job: what a job costs counts where they are small.
_MOST_TOGETHER = 16


@dataclass(frozen=True)
class CutBatches:
    """Result of a window.

    Attributes:
        runs: Its batches, in order.
        num_bytes: The size of their values.
    """

    runs: list[BatchRun]
    num_bytes: int


@dataclass(frozen=True)
class WindowBatches:
    """A task: the batches of a window."""

    window: Window
    cutter: BatchCutter

    @property
    def num_bytes(self) -> int:
        return self.window.num_bytes

    def pieces(self) -> None:
        return None

    def from_pieces(self, arrays: list[pa.Array]) -> CutBatches:
        raise NotImplementedError("a window has no pieces")

    def run(self) -> CutBatches:
        cuts = self.window.cuts
        pieces = _shown_pieces(self.window)
        if pieces is None:
            return self._cut(_columns(self.window.reads), cuts)
        if max(map(len, pieces)) == 1:
            return self._span([piece for (piece,) in pieces], 0, cuts)
        parts = []
        for start, end in _spans(pieces, cuts.tolist()):
            inside = [_between(column, start, end) for column in pieces]
            whole = [column[0] for column in inside] if max(map(len, inside)) == 1 else None
            spanned = cuts[cuts.searchsorted(start) : cuts.searchsorted(end, side="right")] - start
            parts.append(self._span(whole, start, spanned))
        return CutBatches([one for part in parts for one in part.runs], sum(p.num_bytes for p in parts))

    def _span(self, pieces: Sequence[Piece] | None, start: int, cuts: Counts) -> CutBatches:
        """Return the batches between `cuts`, which count from row `start` of the window; all of its rows
        are wanted.

        `pieces`: one for each column, where each is in one.
        """
        found = None if pieces is None else read_batches(pieces, cuts, self.cutter.schema)
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

    reads: tuple[WindowBatches, ...]


class WholeWindows:
    """Windows to be read and cut by one thread each."""

    def __init__(self, windows: Windows, cutter: BatchCutter) -> None:
        self._windows = windows
        self._cutter = cutter
        self._together = 1

    def is_ready(self) -> bool:
        return True

    def take(self, num_bytes: int) -> WindowsTogether | None:
        """Return the next window of about `num_bytes`, at least one batch; `None` at the end.

        Fragments that are small enough as a whole go together: few in the first windows, which somebody
        waits for.
        """
        windows = self._windows.take_several(num_bytes, self._together)
        self._together = min(2 * self._together, _MOST_TOGETHER)
        if not windows:
            return None
        return WindowsTogether(tuple([WindowBatches(window, self._cutter) for window in windows]))


def _columns(reads: Sequence[Read]) -> list[list[pa.Array]]:
    """Return the arrays of each column."""
    columns = run_reads(reads)
    for arrays in columns:
        if isinstance(arrays, LanceError):
            raise arrays
    return columns


def _shown_pieces(window: Window) -> list[list[Piece]] | None:
    """Return the pieces of all columns; `None` unless all of their rows are wanted and shown as they are
    stored.
    """
    if window.cuts[-1] != window.end - window.start:
        return None
    pieces = []
    for column in window.fragment.columns:
        if not isinstance(column, StoredColumn) or not column.is_shown_as_stored:
            return None
        some = column.pieces(window.start, window.end)
        if some is None:
            return None
        pieces.append(some)
    return pieces


def _spans(pieces: Sequence[Sequence[Piece]], cuts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Rows between cuts, the longest that have no end of a piece inside, and single batches that do."""
    edges = {
        end for column in pieces if len(column) > 1 for end in accumulate(p.end - p.start for p in column)
    }
    borders = {cuts[0], cuts[-1]}
    for edge in edges:
        number = bisect_left(cuts, edge)
        borders.add(cuts[number])
        if cuts[number] != edge:
            borders.add(cuts[number - 1])
    return pairwise(sorted(borders))


def _between(pieces: Sequence[Piece], start: int, end: int) -> list[Piece]:
    """Return the pieces of rows `[start, end)`, counted from the first row of the first."""
    if len(pieces) == 1:
        first = pieces[0].start
        return [replace(pieces[0], start=first + start, end=first + end)]
    found = []
    begin = 0
    for piece in pieces:
        stop = begin + piece.end - piece.start
        if begin < end and start < stop:
            rows = max(start - begin, 0), min(end, stop) - begin
            found.append(replace(piece, start=piece.start + rows[0], end=piece.start + rows[1]))
        begin = stop
    return found
