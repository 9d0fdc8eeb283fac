"""Windows: division of the plan of a stream into rows that are decoded at once.

The cuts between the batches of a stream follow from the estimates in the metadata alone. So a plan gives the
same batches however many of them are decoded together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lance_core.process.counters import note_rows
from lance_core.process.deferred import Lookahead
from lance_core.scan.plan.options import DEFAULT_BATCH_BYTES, ScanOptions
from lance_core.scan.plan.scan_plan import ScanPlan
from lance_core.scan.read.fragments import FragmentOpener, FragmentReader
from lance_core.scan.read.value_sizes import Counts
from lance_core.scan.run.page_cuts import cut_rows
from lance_core.scan.run.readahead import ColumnRead, Source

# The share of the most bytes of a batch that is aimed at. Sizes are estimates; larger batches are halved.
_FULL = 7 / 8
# How many times larger than the others the second batch of a stream is. Clients with glibc keep freed
# memory up to twice the largest message so far, and hold several messages at a time. If all messages had one
# size, this memory would be returned to the system, and cleared again, after every few messages.
_SECOND = 2
# Batches that begin at a whole byte of every validity bitmap are sent without shifting bits.
_BATCH_MULTIPLE = 64
# How many times more rows than usual may be read for a batch, because deleted rows lie between its rows.
_MOST_SPREAD = 3


@dataclass(frozen=True)
class Window:
    """All columns of consecutive rows of a fragment.

    Attributes:
        start, end: Physical rows, `[start, end)`.
        cuts: Where batches begin and end, counted in live rows of the window, first and last included.
        bytes_per_row: Estimated bytes of a decoded row.
    """

    fragment: FragmentReader
    start: int
    end: int
    cuts: Counts
    bytes_per_row: float

    @property
    def num_bytes(self) -> int:
        """Estimated bytes of the decoded rows."""
        return int(self.bytes_per_row * (self.end - self.start)) + 1

    @cached_property
    def reads(self) -> tuple[ColumnRead, ...]:
        """One read per column."""
        return self.reads_between(self.start, self.end)

    def reads_between(self, start: int, end: int) -> tuple[ColumnRead, ...]:
        """Return one read per column, of the physical rows `[start, end)`."""
        return tuple(
            ColumnRead(self.fragment, number, start, end, int(column.bytes_per_row * (end - start)) + 1)
            for number, column in enumerate(self.fragment.columns)
        )


class Windows(Source[Window]):
    """The windows of a stream, in order, each as large as it is asked for."""

    def __init__(self, plan: ScanPlan, opener: FragmentOpener) -> None:
        opened = opener.open_all(plan.fragment_scans)
        self._fragments = Lookahead(
            _FragmentWindows(each, plan.options, is_first=number == 0) for number, each in enumerate(opened)
        )

    def take(self, num_bytes: int) -> Window | None:
        """Return the next window of about `num_bytes`, at least one batch; None at the end."""
        windows = self.take_several(num_bytes, 1)
        return windows[0] if windows else None

    def take_several(self, num_bytes: int, most: int) -> list[Window]:
        """Return the next windows, of about `num_bytes` together; none at the end.

        The result has more than one window, up to `most`, if whole fragments are that small.
        """
        windows: list[Window] = []
        while len(windows) < most and (fragment := self._fragments.peek(in_turn=not windows)) is not None:
            if windows and fragment.num_bytes > num_bytes:
                break
            window = fragment.take(num_bytes)
            if window is None:
                self._fragments.take()
            else:
                windows.append(window)
                num_bytes -= window.num_bytes
        return windows


class _FragmentWindows:
    """The windows of one fragment that are not taken yet."""

    def __init__(self, fragment: FragmentReader, options: ScanOptions, *, is_first: bool) -> None:
        self._fragment = fragment
        widths = [column.bytes_per_row for column in fragment.columns]
        self._bytes_per_row = max(sum(widths), 0.125)
        widest = fragment.columns[widths.index(max(widths))]
        self._cuts = _live_cuts(fragment, widest.page_rows, options, self._bytes_per_row, is_first=is_first)
        # Deleted rows between two batches belong to neither batch.
        self._starts = fragment.physical_rows(self._cuts[:-1])
        self._ends = fragment.physical_rows(self._cuts[1:] - 1) + 1
        self._pages = [row for row in widest.page_rows if fragment.start < row < fragment.end]
        self._pages.append(fragment.end)
        self._taken = 0
        self.num_bytes = int(self._bytes_per_row * (fragment.end - fragment.start))

    def take(self, num_bytes: int) -> Window | None:
        """Return the next batches of `num_bytes` together, at least one; None if all are taken."""
        first = self._taken
        if first == len(self._starts):
            return None
        start = int(self._starts[first])
        last_row = self._last_row(start, int(num_bytes / self._bytes_per_row))
        # NumPy's search would release the interpreter's lock, and wait for worker threads to get it back.
        self._taken = max(first + 1, bisect_right(self._ends, last_row, first))
        end = int(self._ends[self._taken - 1])
        cuts = self._cuts[first : self._taken + 1] - self._cuts[first]
        note_rows(self._fragment.scan.fragment_id, 1, end - start)
        return Window(self._fragment, start, end, cuts, self._bytes_per_row)

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
    fragment: FragmentReader,
    page_rows: Sequence[int],
    options: ScanOptions,
    bytes_per_row: float,
    *,
    is_first: bool,
) -> Counts:
    """Return the rows where the batches of a fragment begin and end, counted in its live rows.

    As in the reference, the number of rows of a batch does not depend on deleted rows between them. A batch
    is halved only if its rows lie much further apart than the average, so that reading it takes much more
    memory.
    """
    is_default = options.batch_bytes == DEFAULT_BATCH_BYTES and options.batch_rows is None
    rows_per_batch = _FULL * options.batch_bytes / bytes_per_row / (_SECOND if is_default else 1)
    most_rows = int(rows_per_batch if options.batch_rows is None else min(rows_per_batch, options.batch_rows))
    start, end = fragment.scan.start, fragment.scan.end
    if fragment.live_share == 1 and len(page_rows) <= 2 and end - start <= most_rows:
        return np.array([start, end], np.int64)  # one batch of one page: nothing to cut
    boundaries = fragment.live_rows_before(np.array(page_rows, np.int64)).tolist()
    ranges = cut_rows(
        boundaries,
        start,
        end,
        aimed_rows=max(1, int(rows_per_batch)),
        growth=1,
        most_rows=options.batch_rows,
        multiple=_BATCH_MULTIPLE,
    )
    cuts = np.array([start, *(last for _, last in ranges)], np.int64)
    if is_default and is_first and len(cuts) > _SECOND + 1:
        cuts = np.delete(cuts, slice(2, _SECOND + 1))
    elif is_first and len(cuts) > 2 and options.batch_rows is None:  # half a batch comes sooner
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
