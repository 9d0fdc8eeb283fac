"""Work for the decode pool, begun in order ahead of whoever takes the results, as far as a budget allows."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from lance_core.errors import LanceError
from lance_core.file.direct import Piece, read_pieces
from lance_core.forks import check_process
from lance_core.pool import worker_pool
from lance_core.scan.read.columns import StoredColumn
from lance_core.scan.read.fragments import FragmentReader
from lance_core.scan.run.budget import MemoryBudget, Reservation

# Columns are decoded by one task until they make this many bytes, which hides the cost of starting a task.
_TASK_BYTES = 8 << 20
# A stream begins with little, so that its first batch comes soon, and asks for twice as much each time.
_FIRST_BYTES = 1 << 20
_MOST_BYTES = 16 << 20
# What a stream asks for, however little room the budget has.
_LEAST_BYTES = 2 << 20


@dataclass(frozen=True)
class Read:
    """A range of physical rows of one column of a fragment, and its estimated decoded size."""

    fragment: FragmentReader
    column: int
    start: int
    end: int
    num_bytes: int

    def run(self) -> list[pa.Array]:
        return self.fragment.read(self.column, self.start, self.end)

    def pieces(self) -> list[Piece] | None:
        column = self.fragment.columns[self.column]
        return column.pieces(self.start, self.end) if isinstance(column, StoredColumn) else None

    def from_pieces(self, arrays: list[pa.Array]) -> list[pa.Array]:
        column = self.fragment.columns[self.column]
        assert isinstance(column, StoredColumn)
        return self.fragment.live(column.present(arrays), self.start, self.end)


class Task(Protocol):
    """Part of a job that one thread runs."""

    @property
    def num_bytes(self) -> int:
        """Estimated size of what it gives."""

    def run(self) -> Any: ...

    def pieces(self) -> list[Piece] | None:
        """Return pieces that can be read together with pieces of other tasks; None if only `run` can read
        them.
        """

    def from_pieces(self, arrays: list[pa.Array]) -> Any:
        """Return the result of `run`, from the arrays of the pieces."""


class Work(Protocol):
    """The reads of one job."""

    @property
    def reads(self) -> Sequence[Task]: ...


W = TypeVar("W", bound=Work)
W_co = TypeVar("W_co", bound=Work, covariant=True)


class Source(Protocol[W_co]):
    """Source of the work of jobs."""

    def is_ready(self) -> bool:
        """Return whether `take` answers without waiting for other jobs."""

    def take(self, num_bytes: int) -> W_co | None:
        """Return the next work, of about `num_bytes` where that can be chosen; `None` when all is done."""


class Job(Generic[W]):
    """Work handed to the pool, and the bytes of a budget that are reserved for its results."""

    def __init__(self, work: W, reservation: Reservation, is_remote: bool, *, at_once: bool = False) -> None:
        """Begin the work. With `at_once`, the calling thread does all of it before this returns."""
        self.work = work
        self.reservation = reservation
        submit = _run_here if at_once else worker_pool(is_remote).submit
        self._futures = [submit(run_reads, group) for group in _grouped(work.reads)]

    @property
    def is_done(self) -> bool:
        """Whether `result` answers at once."""
        return all(future.done() for future in self._futures)

    def results(self) -> Iterator[Any]:
        """Yield the result of each read, up to the first that fails. Raises the error of that read."""
        for future in self._futures:
            for given in future.result():
                if isinstance(given, LanceError):
                    raise given
                yield given

    def result(self) -> list[Any]:
        """Return the result of each read."""
        return list(self.results())

    def stop(self) -> None:
        """Cancel what has not begun, wait for the rest (at most one task per worker), and hold nothing."""
        begun = [future for future in self._futures if not future.done() and not future.cancel()]
        if begun:
            wait(begun)
        self._futures = []
        self.reservation.release()


def run_ahead(
    source: Source[W],
    budget: MemoryBudget,
    most_jobs: int,
    is_remote: bool = False,
    *,
    num_alone: int = 0,
) -> Generator[Job[W], None, None]:
    """Jobs for the work of `source`, in order; up to `most_jobs` of them are begun.

    A job is stopped, and its part of the budget given back, when the one after it is asked for. Closing the
    generator stops all of them. The calling thread does the first `num_alone` jobs itself and waits for
    nobody else that uses the pool; it begins no other before the last of them is done.

    Raises:
        LanceError: what `source` raised, after the jobs for the work before it.
        UnsupportedFeatureError: the process was forked since the first job.
    """
    process = os.getpid()
    begun: deque[Job[W]] = deque()
    upcoming = _Upcoming(source, budget, num_alone)
    # Estimates come from metadata; what compressed data really takes is learnt from the job before.
    growth = 1.0
    try:
        while True:
            room = 1 if num_alone > 1 else most_jobs
            while len(begun) < room and (work := upcoming.get(wait=not begun)) is not None:
                needed = int(_estimate(work) * growth)
                reservation = budget.reserve(needed, required=not begun)
                if reservation is None:
                    break
                begun.append(Job(work, reservation, is_remote, at_once=num_alone > 0))
                num_alone -= 1
                upcoming.advance()
            if not begun:
                break
            yield begun[0]
            check_process(process)
            growth = max(1.0, begun[0].reservation.num_bytes / _estimate(begun[0].work))
            begun.popleft().stop()
    finally:
        for job in begun if process == os.getpid() else ():  # nobody does those of another process
            job.stop()
    if upcoming.error is not None:
        raise upcoming.error


class _Upcoming(Generic[W]):
    """The work that comes next, and the error that ended it, kept for its turn."""

    def __init__(self, source: Source[W], budget: MemoryBudget, num_small: int) -> None:
        """The first `num_small` wishes are for little, and in any case the first one."""
        self.error: LanceError | None = None
        self._num_small = num_small
        self._source = source
        self._budget = budget
        self._wish_bytes = _FIRST_BYTES
        self._work: W | None = None
        self._is_done = False

    def get(self, *, wait: bool) -> W | None:
        """Return the next work; `None` at the end, or when nobody wants to `wait` until it is known."""
        if self._work is not None or self._is_done:
            return self._work
        share = max(_LEAST_BYTES, self._budget.share_bytes)
        try:
            if wait or self._source.is_ready():
                self._work = self._source.take(min(share, self._wish_bytes))
                self._is_done = self._work is None
        except LanceError as error:
            self.error = error
            self._is_done = True
        return self._work

    def advance(self) -> None:
        self._work = None
        self._num_small -= 1
        if self._num_small <= 0:
            self._wish_bytes = min(2 * self._wish_bytes, _MOST_BYTES)


def _estimate(work: Work) -> int:
    return sum(read.num_bytes for read in work.reads)


def _run_here(run: Callable[[Sequence[Task]], list[Any]], reads: Sequence[Task]) -> Future[list[Any]]:
    future: Future[list[Any]] = Future()
    try:
        future.set_result(run(reads))
    except Exception as error:
        future.set_exception(error)
    return future


def run_reads(reads: Sequence[Task]) -> list[Any]:
    """Return the result of each read. Pieces are read and decoded together, without the interpreter's
    lock.

    The last result may be an error; then the reads behind it give nothing.
    """
    pieces = [_pieces(read) for read in reads]
    arrays = iter(read_pieces([piece for some in pieces if some for piece in some]))
    results = []
    for read, some in zip(reads, pieces, strict=True):
        found = [array for _ in some or () if (array := next(arrays)) is not None]
        is_whole = bool(some) and len(found) == len(some or ())
        try:
            results.append(read.from_pieces(found) if is_whole else read.run())
        except LanceError as error:
            results.append(error)
            break
    return results


def _pieces(read: Task) -> list[Piece] | None:
    try:
        return read.pieces()
    except LanceError:
        return None  # `run` raises it in its turn


def _grouped(reads: Sequence[Task]) -> list[list[Task]]:
    """Consecutive reads together until they are worth a task of the pool."""
    groups: list[list[Task]] = []
    room = 0
    for read in reads:
        if room <= 0:
            groups.append([])
            room = _TASK_BYTES
        groups[-1].append(read)
        room -= read.num_bytes
    return groups
