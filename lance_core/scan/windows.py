"""How the work of a scan is cut: windows of batches for a stream, pieces of columns for a table.

The batches of a stream are cut by estimates that the metadata gives, and by nothing else; so they are the
same however many of them are decoded together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from lance_core.errors import LanceError
from lance_core.scan.cuts import cut_rows
from lance_core.scan.fragment import FragmentOpener, FragmentReader
from lance_core.scan.options import ScanOptions
from lance_core.scan.plan import ScanPlan
from lance_core.scan.readahead import Read
from lance_core.scan.sizes import Counts

# Batches that begin at a byte of every validity bitmap are sent without shifting bits.
_BATCH_MULTIPLE = 64
# Fragments whose batches are decoded by one job: what a job costs counts where they are small.
_MOST_TOGETHER = 16
# Mini-blocks hold a power of two of at most this many rows of a flat column (Lance file format 2.1,
# section 5): pieces that begin between two blocks decode none of them twice.
_PIECE_MULTIPLE = 4096
# What one thread reads of one column for a table.
_PIECE_BYTES = 16 << 20


@dataclass(frozen=True)
class Window:
    """All columns of some rows that follow one another.

    Attributes:
        reads: For each column one or more, in the order of the rows.
        cuts: Where batches begin and end, counted in live rows of the window, first and last included.
    """

    reads: tuple[Read, ...]
    cuts: Counts


class Windows:
    """The windows of a stream, as large as they are asked for."""

    def __init__(self, plan: ScanPlan, opener: FragmentOpener) -> None:
        self._fragments = (_FragmentBatches(each, plan.options) for each in opener.open_all(plan.tasks))
        self._batches: _FragmentBatches | None = None
        self._together = 1
        # What is far away is read by as many jobs as can be, at the same time.
        self._most_together = 1 if opener.is_remote else _MOST_TOGETHER
        self._error: LanceError | None = None

    def is_ready(self) -> bool:
        return True

    def take(self, num_bytes: int) -> Window | None:
        """The next window of about `num_bytes`, at least one batch; `None` at the end.

        It goes on with fragments that are small enough as a whole: few in the first windows, which somebody
        waits for.
        """
        windows: list[Window] = []
        while len(windows) < self._together and self._has_batches(wait=not windows):
            assert self._batches is not None
            if windows and self._batches.num_bytes > num_bytes:
                break
            window = self._batches.take(num_bytes)
            if window is None:
                self._batches = None
            else:
                windows.append(window)
                num_bytes -= sum(read.num_bytes for read in window.reads)
        self._together = min(2 * self._together, self._most_together)
        return _joined(windows) if windows else None

    def _has_batches(self, *, wait: bool) -> bool:
        """Whether there is a fragment to take from. What is wrong with the next is raised with `wait`."""
        if self._batches is None and self._error is None:
            try:
                self._batches = next(self._fragments, None)
            except LanceError as error:
                self._error = error
        if self._error is not None and wait:
            raise self._error
        return self._batches is not None


def _joined(windows: Sequence[Window]) -> Window:
    """Windows that follow one another as one."""
    if len(windows) == 1:
        return windows[0]
    ends = np.cumsum([window.cuts[-1] for window in windows])
    cuts = [window.cuts[1:] + end - window.cuts[-1] for window, end in zip(windows, ends, strict=True)]
    reads = chain.from_iterable(window.reads for window in windows)
    return Window(tuple(reads), np.concatenate((windows[0].cuts[:1], *cuts)))


class _FragmentBatches:
    """The batches of one fragment and which of them were taken."""

    def __init__(self, fragment: FragmentReader, options: ScanOptions) -> None:
        self._fragment = fragment
        self._widths = [column.bytes_per_row for column in fragment.columns]
        self._width = max(sum(self._widths), 0.125)
        widest = fragment.columns[self._widths.index(max(self._widths))]
        pieces = cut_rows(
            widest.page_rows,
            fragment.start,
            fragment.end,
            rows_per_piece=max(1, int(options.batch_bytes / self._width / fragment.live_share)),
            most_rows=options.batch_rows,
            multiple=_BATCH_MULTIPLE,
        )
        self._edges = [fragment.start, *(end for _, end in pieces)]
        self._taken = 0
        self.num_bytes = int(self._width * (fragment.end - fragment.start))

    def take(self, num_bytes: int) -> Window | None:
        """The next batches that make `num_bytes`, at least one; `None` when all are taken."""
        while self._taken < len(self._edges) - 1:
            first = self._taken
            last_row = self._edges[first] + int(num_bytes / self._width)
            self._taken = max(first + 1, bisect_right(self._edges, last_row) - 1)
            window = self._window(self._edges[first : self._taken + 1])
            if window.cuts[-1] > 0:
                return window
        return None

    def _window(self, edges: list[int]) -> Window:
        live_rows = self._fragment.live_rows_before(np.array(edges))
        start, end = edges[0], edges[-1]
        reads = (
            Read(self._fragment, column, start, end, int(width * (end - start)) + 1)
            for column, width in enumerate(self._widths)
        )
        return Window(tuple(reads), live_rows - live_rows[0])


@dataclass(frozen=True)
class Pieces:
    """Reads for a table, which are worth a thread together."""

    reads: tuple[Read, ...]


class TablePieces:
    """The pieces of a table, fragment by fragment, column by column; each column is cut at its own pages."""

    def __init__(self, plan: ScanPlan, opener: FragmentOpener) -> None:
        self._plan = plan
        self._opener = opener
        self._reads = self._all_reads()

    def is_ready(self) -> bool:
        return True

    def take(self, num_bytes: int) -> Pieces | None:
        """The next pieces, at least `num_bytes` of them; `None` at the end."""
        reads: list[Read] = []
        left = num_bytes
        while left > 0 and (read := next(self._reads, None)) is not None:
            reads.append(read)
            left -= read.num_bytes
        return Pieces(tuple(reads)) if reads else None

    def _all_reads(self) -> Iterator[Read]:
        for fragment in self._opener.open_all(self._plan.tasks):
            for index, column in enumerate(fragment.columns):
                width = max(column.bytes_per_row, 0.125)
                for start, end in cut_rows(
                    column.page_rows,
                    fragment.start,
                    fragment.end,
                    rows_per_piece=max(1, int(_PIECE_BYTES / width)),
                    most_rows=None,
                    multiple=_PIECE_MULTIPLE,
                ):
                    yield Read(fragment, index, start, end, int(width * (end - start)) + 1)
