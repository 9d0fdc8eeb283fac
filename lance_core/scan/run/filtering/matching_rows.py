"""The second phase of a filtered scan: matching rows become batches, with the other columns decoded.

The cuts between batches follow from the number of matching rows and from their row numbers in the plan alone.
So the same rows make the same batches, whatever was pruned and however large the windows were.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from threading import Lock

import numpy as np
import pyarrow as pa

from lance_core.file.page_ranges import PageRange
from lance_core.kernels import take_rows
from lance_core.process.deferred import DeferredError
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.read.columns import Column, ExpressionColumn, StoredColumn
from lance_core.scan.read.fragments import FragmentReader
from lance_core.scan.read.live_rows import Offsets, joined_rows
from lance_core.scan.read.row_selection import by_density, read_dense_rows, rows_at_once
from lance_core.scan.read.value_sizes import Counts
from lance_core.scan.run.batch_cutter import BatchCutter
from lance_core.scan.run.filtering.filter_windows import FilterRead, FilterWindow
from lance_core.scan.run.filtering.row_filter import Matches
from lance_core.scan.run.readahead import DirectRead, HeldRead, Job, Source
from lance_core.scan.run.window_batches import WindowRead, WindowsTogether
from lance_core.scan.run.windows import Window

# A batch ends after this many rows of the plan, however few of them match, so that a reader gets rare matches
# soon. The number doubles with each end, up to the most.
_FIRST_SCANNED = 1 << 17
_MOST_SCANNED = 1 << 22
_NEVER = 1 << 62
"""A row number that no plan has."""
# A range of rows that decodes to at most this many bytes is decoded whole, whichever of its rows are wanted.
_SHORT_BYTES = 32 << 10
# Matching rows that follow each other, and decode to at most this many bytes, are read like rows of a scan
# without a filter: one call of a kernel makes their batch. More columns or rows keep several threads busy.
_WINDOW_BYTES = 1 << 20
# Rows that are at least so far from each other, on average, are decoded one by one instead of chunk by chunk.
_FAR_ROWS = 128


class BatchEnds:
    """Rule for the ends of batches: when a batch has its aimed rows, and when the scan passes certain rows.

    Row numbers count the live rows of the plan.
    """

    def __init__(self, *, are_awaited: bool = True) -> None:
        """Let batches end only when they have their aimed rows, unless a reader awaits them one by one."""
        self._open_rows = 0
        self._aimed_rows = 0
        self._step = _FIRST_SCANNED
        self._next_end = _FIRST_SCANNED if are_awaited else _NEVER

    def add(self, numbers: Counts, aimed_rows: int, before: int = 0) -> list[int]:
        """Add matching rows. Return the number of rows of each batch that is complete now.

        Args:
            numbers: Row numbers of the matching rows, ascending, less `before`.
            aimed_rows: Aimed number of rows of a batch that begins with one of these rows.
        """
        complete = []
        start = 0
        while start < len(numbers):
            complete += self.reach(int(numbers[start]) + before)
            if not self._open_rows:
                self._aimed_rows = aimed_rows
            room = self._aimed_rows - self._open_rows
            end = min(start + room, int(numbers.searchsorted(self._next_end - before)))
            self._open_rows += end - start
            if self._open_rows == self._aimed_rows:
                complete += self.finish()
            start = end
        return complete

    def reach(self, number: int) -> list[int]:
        """Return the number of rows of each batch that ends before row `number`.

        All matching rows before it must have been added.
        """
        complete = []
        while number >= self._next_end:
            complete += self.finish()
            self._step = min(2 * self._step, _MOST_SCANNED)
            self._next_end += self._step
        return complete

    def finish(self) -> list[int]:
        """End the open batch, if there is one. Return the number of its rows in a list."""
        complete = [self._open_rows] if self._open_rows else []
        self._open_rows = 0
        return complete


@dataclass(frozen=True)
class MatchingRead(DirectRead):
    """Read of one column at matching rows of a fragment, `rows` in physical row numbers.

    Attributes:
        is_dense: Whether all rows from the first to the last are decoded, and the other ones dropped.
        together: What takes these rows of several columns; None if each column is read by itself.
    """

    fragment: FragmentReader
    column: int
    rows: Offsets
    is_dense: bool
    num_bytes: int
    together: _TakenTogether | None

    def run(self) -> list[pa.Array]:
        column = self.fragment.columns[self.column]
        taken = None if self.together is None else self.together.column(self.column)
        if taken is not None:
            assert isinstance(column, StoredColumn)
            return column.present([taken])
        return self._read(column)

    def _read(self, column: Column) -> list[pa.Array]:
        if isinstance(column, ExpressionColumn):
            return column.at(self.rows, self._read)
        return read_dense_rows(column, self.rows) if self.is_dense else column.take(self.rows)

    def page_ranges(self) -> list[PageRange] | None:
        column = self.fragment.columns[self.column]
        if not self.is_dense or not isinstance(column, StoredColumn):
            return None
        return column.page_ranges_at(self.rows, rows_at_once(column))

    def from_arrays(self, arrays: list[pa.Array]) -> list[pa.Array]:
        column = self.fragment.columns[self.column]
        assert isinstance(column, StoredColumn)
        return column.present(arrays)


class _TakenTogether:
    """Rows of a fragment that one kernel call takes from all columns that it can decode. Thread-safe."""

    def __init__(self, fragment: FragmentReader, rows: Offsets, columns: Sequence[int]) -> None:
        self.rows = rows
        self._fragment = fragment
        self._columns = columns
        self._taken: dict[int, pa.Array] | None = None
        self._lock = Lock()

    def column(self, number: int) -> pa.Array | None:
        """Return the rows of a column as it is stored; None if the kernel cannot take them."""
        with self._lock:
            if self._taken is None:
                self._taken = self._take()
            return self._taken.get(number)

    def _take(self) -> dict[int, pa.Array]:
        columns = {number: self._fragment.columns[number] for number in self._columns}
        pages = {
            number: some
            for number, column in columns.items()
            if isinstance(column, StoredColumn) and (some := column.pages_at(self.rows)) is not None
        }
        if not pages:
            return {}
        taken = take_rows([(list(pages.values()), self.rows.data, None)], len(pages), len(self.rows))
        stored = {
            number: column.stored_type
            for number, is_there in zip(pages, taken.is_there, strict=True)
            if is_there and isinstance(column := columns[number], StoredColumn)
        }
        schema = pa.schema([(str(number), data_type) for number, data_type in stored.items()])
        arrays = pa.RecordBatch._import_from_c(taken.address, schema).columns
        return dict(zip(stored, arrays, strict=True))


@dataclass(frozen=True)
class MatchingWindow:
    """Whole batches of matching rows.

    Attributes:
        reads: One or more reads per column, in the order of the rows.
        cuts: Where batches begin and end, first and last included.
    """

    reads: tuple[MatchingRead | HeldRead, ...]
    cuts: Counts


@dataclass
class _FragmentRows:
    """Matching rows of one fragment, and the decoded values of these rows by column number."""

    fragment: FragmentReader
    rows: Offsets
    held: dict[int, list[pa.Array]]

    def split(self, num_rows: int) -> tuple[_FragmentRows, _FragmentRows]:
        """Return the first `num_rows` rows, and the others."""
        first, second = {}, {}
        for column, arrays in self.held.items():
            first[column], second[column] = _split(arrays, num_rows)
        return (
            _FragmentRows(self.fragment, self.rows[:num_rows], first),
            _FragmentRows(self.fragment, self.rows[num_rows:], second),
        )


class _DividedRows:
    """Rows of a fragment that are joined and divided by density once for all columns."""

    def __init__(self) -> None:
        self._joined: dict[tuple[int, int], tuple[Sequence[_FragmentRows], Offsets]] = {}
        self._divided: dict[tuple[int, float, int], list[tuple[Offsets, bool]]] = {}

    def joined(self, parts: Sequence[_FragmentRows]) -> Offsets:
        """Return the rows of consecutive parts."""
        key = id(parts[0]), len(parts)
        if key not in self._joined:
            self._joined[key] = parts, joined_rows([part.rows for part in parts])
        return self._joined[key][1]

    def by_density(self, rows: Offsets, dense_share: float, num_rows: int) -> list[tuple[Offsets, bool]]:
        """Divide rows that `joined` returned; see `lance_core.scan.read.row_selection.by_density`."""
        key = id(rows), dense_share, num_rows
        if key not in self._divided:
            self._divided[key] = list(by_density(rows, dense_share, num_rows))
        return self._divided[key]


class MatchingRows(Source["MatchingWindow | WindowsTogether"]):
    """Windows of whole batches, made of the matching rows that the jobs of the first phase find."""

    def __init__(
        self,
        jobs: Generator[Job[FilterWindow], None, None] | None,
        options: ScanOptions,
        num_columns: int,
        dense_share: float | None,
        *,
        is_stream: bool,
        cutter: BatchCutter | None = None,
    ) -> None:
        """Make windows of the rows that `jobs` find, or only of those that `add` gets.

        Args:
            cutter: If given, the results may have windows like those of a scan without a filter, which it
                divides into batches.
        """
        self._jobs = jobs
        self._cutter = cutter
        self._job: Job[FilterWindow] | None = None
        self._num_columns = num_columns
        self._dense_share = dense_share
        self._aimed_bytes = options.batch_bytes // 2
        self._most_rows = options.batch_rows
        self._skip = options.offset or 0
        self._left = options.limit
        self._parts: deque[_FragmentRows] = deque()
        self._batches: deque[tuple[int, float]] = deque()
        """Complete batches that are not taken yet: number of rows, and bytes per row."""
        # Batches that end early would tell how many rows guards hide.
        self._ends = BatchEnds(are_awaited=is_stream and not options.guards)
        self._measured: tuple[FragmentReader, float] | None = None
        self._is_done = False
        self._error = DeferredError()

    def close(self) -> None:
        """Stop the jobs of the first phase."""
        if self._jobs is not None:
            self._jobs.close()

    @property
    def num_bytes(self) -> float:
        """Estimated decoded bytes of the rows that are not taken yet."""
        return sum(len(part.rows) * self._width(part.fragment) for part in self._parts)

    def add(self, reads: Iterable[FilterRead], results: Iterable[list[Matches]]) -> int:
        """Add the rows that reads of the first phase found. Return about how many bytes they take here.

        An error in the results is raised after the batches that are complete by then.
        """
        held = 0
        with self._error:
            for read, some in zip(reads, results, strict=True):
                held += sum(matches.num_bytes for matches in some)
                for matches in some:
                    self._add(matches, read.first_number)
        self._is_done = self._error.error is not None
        return held

    def is_ready(self) -> bool:
        """Return whether the finished jobs of the first phase make a batch, or are the last jobs."""
        while not self._batches and not self._is_done:
            if not self._advance(wait=False):
                return False
        return True

    def take(self, num_bytes: int) -> MatchingWindow | WindowsTogether | None:
        """Return the next batches of `num_bytes` together, at least one; None at the end."""
        while not self._batches and not self._is_done:
            self._advance(wait=True)
        sizes: list[int] = []
        left = float(num_bytes)
        while self._batches and (not sizes or left >= self._batches[0][0] * self._batches[0][1]):
            rows, width = self._batches.popleft()
            sizes.append(rows)
            left -= rows * width
        if not sizes:
            self._error.raise_kept()
            return None
        cuts = np.array(list(accumulate(sizes, initial=0)), np.int64)
        parts = self._take_rows(int(cuts[-1]))
        read = self._window_read(parts, cuts)
        if read is not None:
            return WindowsTogether((read,))
        return MatchingWindow(tuple(self._reads(parts)), cuts)

    def _advance(self, *, wait: bool) -> bool:
        """Add the matching rows of the next job of the first phase. Return False if it is not done yet."""
        if self._job is None:
            self._job = None if self._left == 0 or self._jobs is None else next(self._jobs, None)
            if self._job is None:
                self._finish()
                return True
        if not wait and not self._job.is_done:
            return False
        job, self._job = self._job, None
        job.reservation.resize(self.add(job.work.reads, job.results()))
        if self._is_done:
            self.close()  # this releases the reservation
        return True

    def _add(self, matches: Matches, first_number: int) -> None:
        fragment = matches.fragment
        if matches.num_rows:
            part = _FragmentRows(fragment, matches.rows, matches.held)
            if self._skip:
                skipped = min(self._skip, matches.num_rows)
                self._skip -= skipped
                part = part.split(skipped)[1]
            if self._left is not None:
                part = part.split(min(self._left, len(part.rows)))[0]
                self._left -= len(part.rows)
            if len(part.rows):
                self._parts.append(part)
                width = self._width(fragment)
                aimed_rows = min(max(1, int(self._aimed_bytes / width)), self._most_rows or (1 << 62))
                numbers = fragment.live_rows_before(part.rows)
                self._complete(self._ends.add(numbers, aimed_rows, first_number), width)
        self._end(self._ends.reach(first_number + fragment.num_live_rows(0, matches.end)))

    def _finish(self) -> None:
        self.close()
        self._is_done = True
        self._end(self._ends.finish())

    def _end(self, batches: list[int]) -> None:
        """Complete batches whose last rows are known."""
        if batches:
            self._complete(batches, self._width(self._parts[-1].fragment))

    def _complete(self, batches: list[int], width: float) -> None:
        self._batches += [(rows, width) for rows in batches]

    def _width(self, fragment: FragmentReader) -> float:
        """Return the bytes per row of a fragment. It is asked for several times in a row."""
        if self._measured is None or self._measured[0] is not fragment:
            columns = fragment.columns[: self._num_columns]
            self._measured = fragment, max(sum([column.bytes_per_row for column in columns]), 0.125)
        return self._measured[1]

    def _take_rows(self, num_rows: int) -> list[_FragmentRows]:
        """Return the next `num_rows` rows."""
        taken = []
        while num_rows:
            part = self._parts.popleft()
            if len(part.rows) > num_rows:
                part, rest = part.split(num_rows)
                self._parts.appendleft(rest)
            taken.append(part)
            num_rows -= len(part.rows)
        return taken

    def _window_read(self, parts: list[_FragmentRows], cuts: Counts) -> WindowRead | None:
        """Return the read of a few rows that follow each other in one fragment; None for other rows."""
        if self._cutter is None or self._dense_share is not None:
            return None
        fragment = parts[0].fragment
        start, end = int(parts[0].rows[0]), int(parts[-1].rows[-1]) + 1
        width = self._width(fragment)
        if (
            parts[-1].fragment is not fragment
            or end - start != cuts[-1]
            or (end - start) * width > _WINDOW_BYTES
        ):
            return None
        window = Window(fragment.first_columns(self._num_columns), start, end, cuts, width)
        return WindowRead(window, self._cutter)

    def _reads(self, parts: list[_FragmentRows]) -> Sequence[MatchingRead | HeldRead]:
        if all(len(part.held) == self._num_columns for part in parts):
            num_bytes = int(sum(len(part.rows) * self._width(part.fragment) for part in parts))
            return [
                HeldRead(
                    column,
                    [array for part in parts for array in part.held[column]],
                    num_bytes // self._num_columns + 1,
                )
                for column in range(self._num_columns)
            ]
        fragments = [list(some) for _, some in groupby(parts, key=lambda part: id(part.fragment))]
        taken = list(map(self._together, fragments))
        divided = [_DividedRows() for _ in fragments]
        return [
            read
            for column in range(self._num_columns)
            for some, together, division in zip(fragments, taken, divided, strict=True)
            for read in self._column_reads(column, some, together, division)
        ]

    def _together(self, parts: list[_FragmentRows]) -> _TakenTogether | None:
        """Return what takes the rows of a fragment; None if they are so near to each other that decoding
        whole chunks costs less.
        """
        first, last = parts[0].rows[0], parts[-1].rows[-1]
        num_rows = sum(len(part.rows) for part in parts)
        if num_rows > 1 and last - first < _FAR_ROWS * num_rows:
            return None
        held = set[int]().union(*(part.held for part in parts))
        columns = [number for number in range(self._num_columns) if number not in held]
        return _TakenTogether(parts[0].fragment, joined_rows([part.rows for part in parts]), columns)

    def _column_reads(
        self,
        column: int,
        parts: list[_FragmentRows],
        together: _TakenTogether | None,
        division: _DividedRows,
    ) -> list[MatchingRead | HeldRead]:
        """Return the reads of one column at rows of one fragment."""
        fragment = parts[0].fragment
        width = fragment.columns[column].bytes_per_row
        reads: list[MatchingRead | HeldRead] = []

        def add(rows: Offsets, is_dense: bool, taken: _TakenTogether | None) -> None:
            num_bytes = int(width * len(rows)) + 1
            reads.append(MatchingRead(fragment, column, rows, is_dense, num_bytes, taken))

        for is_held, group in groupby(parts, key=lambda part: column in part.held):
            same = list(group)
            if is_held:
                arrays = [array for part in same for array in part.held[column]]
                num_bytes = int(width * sum(len(part.rows) for part in same)) + 1
                reads.append(HeldRead(column, arrays, num_bytes))
            elif together is not None and len(same) == len(parts):
                add(together.rows, self._is_short(fragment.columns[column], together.rows), together)
            else:
                rows = division.joined(same)
                for some, is_dense in self._by_density(fragment.columns[column], rows, division):
                    add(some, is_dense, None)
        return reads

    def _by_density(
        self, column: Column, rows: Offsets, division: _DividedRows
    ) -> Iterable[tuple[Offsets, bool]]:
        if self._is_short(column, rows):
            return [(rows, True)]
        share = column.dense_share if self._dense_share is None else self._dense_share
        return division.by_density(rows, share, column.page_rows[-1])

    def _is_short(self, column: Column, rows: Offsets) -> bool:
        """Return whether decoding all rows from the first to the last costs less than picking single rows."""
        span = int(rows[-1]) + 1 - int(rows[0])
        return (self._dense_share is None or self._dense_share <= 1) and (
            span * column.bytes_per_row <= _SHORT_BYTES
        )


def _split(arrays: list[pa.Array], num_rows: int) -> tuple[list[pa.Array], list[pa.Array]]:
    """Return the first `num_rows` values of consecutive arrays, and the others."""
    first, second = [], []
    for array in arrays:
        taken = min(num_rows, len(array))
        num_rows -= taken
        if taken:
            first.append(array.slice(0, taken))
        if taken < len(array):
            second.append(array.slice(taken))
    return first, second
