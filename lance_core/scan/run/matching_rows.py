"""The second half of a filtered scan: the rows that passed become batches, and the other columns are decoded
for them.

Batches end by the numbers of passing rows and by their places in the scan, by nothing else: however much was
pruned and however the windows were cut, the same rows make the same batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa

from lance_core.errors import LanceError
from lance_core.file.direct import Piece
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.read.columns import StoredColumn
from lance_core.scan.read.fragments import FragmentReader
from lance_core.scan.read.live_rows import Offsets
from lance_core.scan.read.row_selection import read_rows, select_rows
from lance_core.scan.read.value_sizes import Counts
from lance_core.scan.run.filter_windows import FilterWindow
from lance_core.scan.run.readahead import Job
from lance_core.scan.run.row_filter import Passing

# However few rows pass, a batch ends after so many rows of the scan, more and more of them, up to the most:
# nobody waits for the first match until a batch is full.
_FIRST_PLACES = 1 << 17
_MOST_PLACES = 1 << 22
# A stretch that decodes to so little is decoded whole, whichever of its rows are wanted.
_SHORT_BYTES = 32 << 10


class BatchEnds:
    """Positions at which batches end.

    A batch ends when it has the rows it should have, and where the scan crosses one of certain places.
    """

    def __init__(self) -> None:
        self._open_rows = 0
        self._aimed_rows = 0
        self._step = _FIRST_PLACES
        self._next_place = _FIRST_PLACES

    def add(self, places: Counts, aimed_rows: int) -> list[int]:
        """Rows of the batches that are now complete.

        Args:
            places: The places of passing rows in the scan, ascending, counted in live rows of the plan.
            aimed_rows: Rows of a batch that begins among them.
        """
        complete = []
        start = 0
        while start < len(places):
            complete += self.reach(int(places[start]))
            if not self._open_rows:
                self._aimed_rows = aimed_rows
            room = self._aimed_rows - self._open_rows
            end = min(start + room, int(np.searchsorted(places, self._next_place)))
            self._open_rows += end - start
            if self._open_rows == self._aimed_rows:
                complete += self.finish()
            start = end
        return complete

    def reach(self, place: int) -> list[int]:
        """Return the batches that are complete when all matching rows before `place` were added."""
        complete = []
        while place >= self._next_place:
            complete += self.finish()
            self._step = min(2 * self._step, _MOST_PLACES)
            self._next_place += self._step
        return complete

    def finish(self) -> list[int]:
        """End the batch that is open, if one is."""
        complete = [self._open_rows] if self._open_rows else []
        self._open_rows = 0
        return complete


@dataclass(frozen=True)
class PassingRead:
    """Decodes one column for rows that passed."""

    fragment: FragmentReader
    column: int
    rows: Offsets
    dense_share: float
    num_bytes: int

    def run(self) -> list[pa.Array]:
        column = self.fragment.columns[self.column]
        if self._is_short:
            return select_rows(column.read(*self._span), self.rows - self.rows[0])
        return read_rows(column, self.rows, self.dense_share)

    def pieces(self) -> list[Piece] | None:
        column = self.fragment.columns[self.column]
        return column.pieces(*self._span) if self._is_short and isinstance(column, StoredColumn) else None

    def from_pieces(self, arrays: list[pa.Array]) -> list[pa.Array]:
        column = self.fragment.columns[self.column]
        assert isinstance(column, StoredColumn)
        return select_rows(column.present(arrays), self.rows - self.rows[0])

    @property
    def _span(self) -> tuple[int, int]:
        return int(self.rows[0]), int(self.rows[-1]) + 1

    @property
    def _is_short(self) -> bool:
        """Whether decoding all between the first row and the last costs less than finding single rows."""
        first, end = self._span
        width = self.fragment.columns[self.column].bytes_per_row
        return self.dense_share <= 1 and (end - first) * width <= _SHORT_BYTES


@dataclass(frozen=True)
class HeldRead:
    """Values that the filter needed, and that are there."""

    column: int
    arrays: list[pa.Array]
    num_bytes: int

    def run(self) -> list[pa.Array]:
        return self.arrays

    def pieces(self) -> None:
        return None

    def from_pieces(self, arrays: list[pa.Array]) -> list[pa.Array]:
        return self.arrays


@dataclass(frozen=True)
class PassingWindow:
    """Whole batches of rows that passed.

    Attributes:
        reads: For each column one or more, in the order of the rows.
        cuts: Where batches begin and end, first and last included.
    """

    reads: tuple[PassingRead | HeldRead, ...]
    cuts: Counts


@dataclass
class _Part:
    """Rows of one fragment that passed, and their values as far as they are held."""

    fragment: FragmentReader
    rows: Offsets
    held: dict[int, list[pa.Array]]

    def split(self, num_rows: int) -> tuple[_Part, _Part]:
        """Return the first rows, and the others."""
        first, second = {}, {}
        for column, arrays in self.held.items():
            first[column], second[column] = _split(arrays, num_rows)
        return (
            _Part(self.fragment, self.rows[:num_rows], first),
            _Part(self.fragment, self.rows[num_rows:], second),
        )


class PassingRows:
    """Makes windows of batches from what the jobs of the first half find."""

    def __init__(
        self,
        jobs: Generator[Job[FilterWindow], None, None],
        options: ScanOptions,
        num_columns: int,
        dense_share: float,
    ) -> None:
        self._jobs = jobs
        self._job: Job[FilterWindow] | None = None
        self._num_columns = num_columns
        self._dense_share = dense_share
        self._aimed_bytes = options.batch_bytes // 2
        self._most_rows = options.batch_rows
        self._skip = options.offset or 0
        self._left = options.limit
        self._parts: deque[_Part] = deque()
        self._batches: deque[tuple[int, float]] = deque()
        """Complete batches that are not taken: their rows, and how many bytes each takes."""
        self._ends = BatchEnds()
        self._is_done = False
        self._error: LanceError | None = None

    def is_ready(self) -> bool:
        """Look at all that is decoded: whether it makes a batch, or is all there is."""
        while not self._batches and not self._is_done:
            if not self._advance(wait=False):
                return False
        return True

    def take(self, num_bytes: int) -> PassingWindow | None:
        """Return the next batches that make `num_bytes`, at least one; `None` at the end."""
        while not self._batches and not self._is_done:
            self._advance(wait=True)
        sizes: list[int] = []
        left = float(num_bytes)
        while self._batches and (not sizes or left >= self._batches[0][0] * self._batches[0][1]):
            rows, width = self._batches.popleft()
            sizes.append(rows)
            left -= rows * width
        if not sizes:
            if self._error is not None:
                raise self._error
            return None
        cuts = np.cumsum([0, *sizes])
        return PassingWindow(tuple(self._reads(self._take_parts(int(cuts[-1])))), cuts)

    def _advance(self, *, wait: bool) -> bool:
        """Look at the next window of the first half; tells whether it was decoded."""
        if self._job is None:
            self._job = None if self._left == 0 else next(self._jobs, None)
            if self._job is None:
                self._finish()
                return True
        if not wait and not self._job.is_done:
            return False
        job, self._job = self._job, None
        held = 0
        results: Iterator[list[Passing]] = job.results()
        try:
            for read, some in zip(job.work.reads, results, strict=True):
                held += sum(passing.num_bytes for passing in some)
                for passing in some:
                    self._add(passing, read.place)
        except LanceError as error:
            self._error = error  # after the batches that are complete by now
        job.reservation.resize(held)
        if self._error is not None:
            self._jobs.close()
            self._is_done = True
        return True

    def _add(self, passing: Passing, place: int) -> None:
        fragment = passing.fragment
        if passing.num_rows:
            part = _Part(fragment, passing.rows, passing.held)
            if self._skip:
                skipped = min(self._skip, passing.num_rows)
                self._skip -= skipped
                part = part.split(skipped)[1]
            if self._left is not None:
                part = part.split(min(self._left, len(part.rows)))[0]
                self._left -= len(part.rows)
            if len(part.rows):
                self._parts.append(part)
                width = self._width(fragment)
                aimed_rows = min(max(1, int(self._aimed_bytes / width)), self._most_rows or (1 << 62))
                places = fragment.live_rows_before(part.rows) + place
                self._complete(self._ends.add(places, aimed_rows), width)
        reached = int(fragment.live_rows_before(np.array([passing.end]))[0]) + place
        self._complete(self._ends.reach(reached), self._width(fragment))

    def _finish(self) -> None:
        self._jobs.close()
        self._is_done = True
        if self._parts:
            self._complete(self._ends.finish(), self._width(self._parts[-1].fragment))

    def _complete(self, batches: list[int], width: float) -> None:
        self._batches += [(rows, width) for rows in batches]

    def _width(self, fragment: FragmentReader) -> float:
        return max(sum(column.bytes_per_row for column in fragment.columns[: self._num_columns]), 0.125)

    def _take_parts(self, num_rows: int) -> list[_Part]:
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

    def _reads(self, parts: list[_Part]) -> list[PassingRead | HeldRead]:
        return [read for column in range(self._num_columns) for read in self._column_reads(column, parts)]

    def _column_reads(self, column: int, parts: list[_Part]) -> list[PassingRead | HeldRead]:
        """Return the reads of one column. Rows of one fragment are read together."""
        reads: list[PassingRead | HeldRead] = []
        for (_, is_held), group in groupby(parts, key=lambda part: (id(part.fragment), column in part.held)):
            same = list(group)
            fragment = same[0].fragment
            rows = np.concatenate([part.rows for part in same]) if len(same) > 1 else same[0].rows
            num_bytes = int(fragment.columns[column].bytes_per_row * len(rows)) + 1
            if is_held:
                arrays = [array for part in same for array in part.held[column]]
                reads.append(HeldRead(column, arrays, num_bytes))
            else:
                reads.append(PassingRead(fragment, column, rows, self._dense_share, num_bytes))
        return reads


def _split(arrays: list[pa.Array], num_rows: int) -> tuple[list[pa.Array], list[pa.Array]]:
    """Return the first values of arrays that follow each other, and the others."""
    first, second = [], []
    for array in arrays:
        taken = min(num_rows, len(array))
        num_rows -= taken
        if taken:
            first.append(array.slice(0, taken))
        if taken < len(array):
            second.append(array.slice(taken))
    return first, second
