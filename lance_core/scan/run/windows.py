"""Division of a scan: windows of batches for a stream, pieces of columns for a table.

The batches of a stream are cut by estimates that the metadata gives, and by nothing else; so they are the
same however many of them are decoded together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lance_core.errors import LanceError
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.scan_plan import ScanPlan
from lance_core.scan.read.fragments import FragmentOpener, FragmentReader
from lance_core.scan.read.value_sizes import Counts
from lance_core.scan.run.page_cuts import cut_rows
from lance_core.scan.run.readahead import Read

# How much of the most bytes of a batch is aimed at; sizes are estimates, and what is larger is cut in halves.
_FULL = 7 / 8
# Batches that begin at a byte of every validity bitmap are sent without shifting bits.
_BATCH_MULTIPLE = 64
# How many times more rows than usual may be read for a batch, because deleted rows lie between its rows.
_MOST_SPREAD = 3
# A mini-block of a flat column has at most this many rows, a power of two (docs/format.md, "Mini-block
# pages"). A piece that begins between two mini-blocks decodes neither of them twice.
_PIECE_MULTIPLE = 4096
# What one thread reads of one column for a table.
_PIECE_BYTES = 16 << 20


@dataclass(frozen=True)
class Window:
    """All columns of some rows of a fragment that follow one another.

    Attributes:
        start, end: Physical rows, `[start, end)`.
        cuts: Where batches begin and end, counted in live rows of the window, first and last included.
        width: Estimated size of a row.
    """

    fragment: FragmentReader
    start: int
    end: int
    cuts: Counts
    width: float

    @property
    def num_bytes(self) -> int:
        """Estimated size of what is read."""
        return int(self.width * (self.end - self.start)) + 1

    @cached_property
    def reads(self) -> tuple[Read, ...]:
        """Each column."""
        return self.reads_between(self.start, self.end)

    def reads_between(self, start: int, end: int) -> tuple[Read, ...]:
        """Each column of some of the rows."""
        return tuple(
            Read(self.fragment, number, start, end, int(column.bytes_per_row * (end - start)) + 1)
            for number, column in enumerate(self.fragment.columns)
        )


class Windows:
    """The windows of a stream, as large as they are asked for."""

    def __init__(self, plan: ScanPlan, opener: FragmentOpener) -> None:
        self._fragments = (_FragmentBatches(each, plan.options) for each in opener.open_all(plan.tasks))
        self._batches: _FragmentBatches | None = None
        self._error: LanceError | None = None

    def is_ready(self) -> bool:
        return True

    def take(self, num_bytes: int) -> Window | None:
        """Return the next window of about `num_bytes`, at least one batch; `None` at the end."""
        windows = self.take_several(num_bytes, 1)
        return windows[0] if windows else None

    def take_several(self, num_bytes: int, most: int) -> list[Window]:
        """Return the next windows, of about `num_bytes` together; none at the end.

        More than one of them where fragments are small enough as a whole.
        """
        windows: list[Window] = []
        while len(windows) < most and self._has_batches(wait=not windows):
            assert self._batches is not None
            if windows and self._batches.num_bytes > num_bytes:
                break
            window = self._batches.take(num_bytes)
            if window is None:
                self._batches = None
            else:
                windows.append(window)
                num_bytes -= window.num_bytes
        return windows

    def _has_batches(self, *, wait: bool) -> bool:
        """Return whether there is a fragment to take from. What is wrong with the next is raised with
        `wait`.
        """
        if self._batches is None and self._error is None:
            try:
                self._batches = next(self._fragments, None)
            except LanceError as error:
                self._error = error
        if self._error is not None and wait:
            raise self._error
        return self._batches is not None


class _FragmentBatches:
    """The batches of one fragment and which of them were taken."""

    def __init__(self, fragment: FragmentReader, options: ScanOptions) -> None:
        self._fragment = fragment
        widths = [column.bytes_per_row for column in fragment.columns]
        self._width = max(sum(widths), 0.125)
        widest = fragment.columns[widths.index(max(widths))]
        rows_per_batch = _FULL * options.batch_bytes / self._width
        self._cuts = _live_cuts(fragment, widest.page_rows, options, rows_per_batch)
        # Deleted rows between two batches belong to neither.
        self._starts = fragment.physical_rows(self._cuts[:-1])
        self._ends = fragment.physical_rows(self._cuts[1:] - 1) + 1
        self._pages = [row for row in widest.page_rows if fragment.start < row < fragment.end]
        self._pages.append(fragment.end)
        self._taken = 0
        self.num_bytes = int(self._width * (fragment.end - fragment.start))

    def take(self, num_bytes: int) -> Window | None:
        """Return the next batches that make `num_bytes`, at least one; `None` when all are taken."""
        first = self._taken
        if first == len(self._starts):
            return None
        start = int(self._starts[first])
        last_row = self._last_row(start, int(num_bytes / self._width))
        self._taken = max(first + 1, int(self._ends.searchsorted(last_row, side="right")))
        end = int(self._ends[self._taken - 1])
        cuts = self._cuts[first : self._taken + 1] - self._cuts[first]
        return Window(self._fragment, start, end, cuts, self._width)

    def _last_row(self, first: int, num_rows: int) -> int:
        """Return the end of a window of about `num_rows`: a page end of the widest column, or an even part
        of a page.

        Rows inside one page need the least work to join.
        """
        number = bisect_right(self._pages, first + num_rows) - 1
        if number >= 0 and self._pages[number] > first:
            return self._pages[number]
        left = self._pages[number + 1] - first
        return first + -(-left // -(-left // max(num_rows, 1)))


def _live_cuts(
    fragment: FragmentReader, page_rows: Sequence[int], options: ScanOptions, rows_per_batch: float
) -> Counts:
    """Return the rows at which batches of a task begin and end, counted in live rows of the fragment.

    As many rows make a batch however many were deleted between them, as in the reference. Only where these
    lie much further apart than on average, so that reading them takes much more memory, batches are halved.
    """
    boundaries = fragment.live_rows_before(np.array(page_rows, np.int64)).tolist()
    start, end = fragment.task.start, fragment.task.end
    pieces = cut_rows(
        boundaries,
        start,
        end,
        rows_per_piece=max(1, int(rows_per_batch)),
        growth=1,
        most_rows=options.batch_rows,
        multiple=_BATCH_MULTIPLE,
    )
    cuts = np.array([start, *(last for _, last in pieces)], np.int64)
    if len(cuts) > 2 and options.batch_rows is None:  # half a batch comes sooner
        half = int(cuts[1] - start) // 2
        cuts = np.insert(cuts, 1, start + half - half % (_BATCH_MULTIPLE if half > _BATCH_MULTIPLE else 1))
    most_read = _MOST_SPREAD * max(1, int(rows_per_batch / fragment.live_share))
    while fragment.live_share < 1:
        read = fragment.physical_rows(cuts[1:] - 1) - fragment.physical_rows(cuts[:-1])
        large = (read > most_read) & (np.diff(cuts) > 1)
        if not large.any():
            break
        cuts = np.sort(np.concatenate((cuts, (cuts[:-1] + cuts[1:])[large] // 2)))
    return cuts


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
        """Return the next pieces, at least `num_bytes` of them; `None` at the end."""
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
                    growth=1.5,
                    most_rows=None,
                    multiple=_PIECE_MULTIPLE,
                ):
                    yield Read(fragment, index, start, end, int(width * (end - start)) + 1)
