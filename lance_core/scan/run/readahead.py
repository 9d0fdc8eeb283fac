"""Read-ahead: jobs that worker threads begin before their results are asked for, within a budget."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from lance_core.errors import LanceError
from lance_core.file.page_ranges import PageRange, decode_page_ranges
from lance_core.pool import Flow, worker_pool
from lance_core.process.counters import observed, step
from lance_core.process.deferred import Lookahead, Results
from lance_core.process.forks import check_process
from lance_core.process.readers import check_fits_reader, for_reader, look_at_reader
from lance_core.scan.read.columns import StoredColumn
from lance_core.scan.read.fragments import FragmentReader
from lance_core.scan.run.budget import MemoryBudget, Reservation

# Decoded bytes of the reads that one worker thread gets together: enough to hide the cost of a submission,
# and at most a share of the job per thread, so that all threads end at about the same time.
_LEAST_GROUP_BYTES, _MOST_GROUP_BYTES = 3 << 20, 8 << 20
# Decoded bytes of the first job of a stream, so that its first batch comes soon. Each job asks for twice as
# much as the job before, up to the most.
_FIRST_BYTES = 1 << 20
_MOST_BYTES = 16 << 20
ALONE_BYTES = 1 << 20
"""Most decoded bytes of a job that the calling thread does itself: handing it to a worker thread and waiting
for the result would take longer.
"""
# Most decoded bytes of a job that counts as work of the interpreter, such as a job of many fragments with few
# rows. Worker threads would only wait for the interpreter's lock, so the calling thread does such a job when
# its results are due.
_TINY_BYTES = 64 << 10
# Time between two checks whether the reader still waits for a long job.
_LOOK_SECONDS = 0.1
# Time after which a reader counts as stalled. Other streams may then use the memory of the rows that were
# decoded ahead for it.
_STALLED_SECONDS = 0.5
# Decoded bytes that a stream requests even if the budget has less room. If the limit of the budget is small,
# the stream requests less, but at least the bytes of the first job.
_LEAST_BYTES = 2 << 20
_LEAST_JOBS = 4


class Read(Protocol):
    """A unit of decoding, which one thread does."""

    @property
    def num_bytes(self) -> int:
        """Estimated size of the result, in bytes."""

    def run(self) -> Any:
        """Read and decode. Raises LanceError."""


class DirectRead(ABC):
    """A `Read` of rows that a kernel may decode together with the rows of other reads."""

    @abstractmethod
    def page_ranges(self) -> list[PageRange] | None:
        """Return the page ranges with the rows of this read; None if only `run` can decode them."""

    @abstractmethod
    def from_arrays(self, arrays: list[pa.Array]) -> Any:
        """Return the result of `run`, from the arrays of the page ranges."""


@dataclass(frozen=True)
class ColumnRead(DirectRead):
    """Read of the physical rows `[start, end)` of one column of a fragment; gives the live rows of them."""

    fragment: FragmentReader
    column: int
    start: int
    end: int
    num_bytes: int

    def run(self) -> list[pa.Array]:
        return self.fragment.read(self.column, self.start, self.end)

    def page_ranges(self) -> list[PageRange] | None:
        column = self.fragment.columns[self.column]
        return column.page_ranges(self.start, self.end) if isinstance(column, StoredColumn) else None

    def from_arrays(self, arrays: list[pa.Array]) -> list[pa.Array]:
        column = self.fragment.columns[self.column]
        assert isinstance(column, StoredColumn)
        return self.fragment.live(column.present(arrays), self.start)


@dataclass(frozen=True)
class HeldRead:
    """Read of rows of one column that are decoded already."""

    column: int
    arrays: list[pa.Array]
    num_bytes: int

    def run(self) -> list[pa.Array]:
        return self.arrays


class Work(Protocol):
    """The reads of one job."""

    @property
    def reads(self) -> Sequence[Read]: ...


W = TypeVar("W", bound=Work)


class Source(ABC, Generic[W]):
    """Source of the work of jobs, in order. For one thread."""

    def is_ready(self) -> bool:
        """Return whether `take` answers without waiting for jobs of another source.

        Most sources need no other source, so this is True unless a source says otherwise.
        """
        return True

    @abstractmethod
    def take(self, num_bytes: int) -> W | None:
        """Return the next work, of about `num_bytes` decoded bytes; None at the end. Raises LanceError."""


class Job(Generic[W]):
    """Work that was handed to worker threads, and the bytes of a budget that are reserved for its results."""

    def __init__(self, work: W, num_bytes: int, reservation: Reservation) -> None:
        self.work = work
        self.num_bytes = num_bytes
        """Estimated bytes of the results."""
        self.reservation = reservation
        self._futures: list[Future[Results[Any]]] = []
        self._own: Results[Any] | None = None
        """Results of `run`."""
        self.is_given_back = False
        """Whether the reads have to begin again, since their results were given back."""

    def begin(self, is_remote: bool, flow: Flow) -> None:
        """Hand the reads to worker threads, as a part of a flow."""
        pool = worker_pool(is_remote)
        run = for_reader(observed(run_reads))
        self._futures = [
            pool.submit(run, group, flow=flow, num_bytes=sum(read.num_bytes for read in group))
            for group in _grouped(self.work.reads, pool.num_threads, is_remote)
        ]

    def run(self) -> None:
        """Do the reads on the calling thread."""
        self._own = run_reads(self.work.reads)

    def hold(self) -> None:
        """Take the results of reads that are all `HeldRead`."""
        self._own = Results([read.run() for read in self.work.reads])

    @property
    def is_done(self) -> bool:
        """Whether `results` yields without waiting."""
        return all(future.done() for future in self._futures)

    def results(self) -> Iterator[Any]:
        """Return the result of each read, up to the first that fails. Then comes the error of that read."""
        return self._from_workers() if self._own is None else iter(self._own)

    def _from_workers(self) -> Iterator[Any]:
        for future in self._futures:
            while not self._has_ended(future):
                look_at_reader()
            yield from future.result()

    @staticmethod
    def _has_ended(future: Future[Results[Any]]) -> bool:
        """Wait for some work, but no longer than `_LOOK_SECONDS`. Return whether it has ended."""
        try:
            future.exception(_LOOK_SECONDS)
        except TimeoutError:
            return False
        return True

    def give_back(self) -> None:
        """Drop the results and their reservation. A read that runs now ends, and its result is dropped."""
        for future in self._futures:
            future.cancel()
        self._futures = []
        self._own = None
        self.reservation.release()
        self.is_given_back = True

    def stop(self) -> None:
        """Cancel the reads that have not begun, wait for the others (at most one group per worker thread),
        and release the reservation.
        """
        begun = [future for future in self._futures if not future.done() and not future.cancel()]
        if begun:
            wait(begun)
        self._futures = []
        self._own = None
        self.reservation.release()


def run_ahead(
    source: Source[W],
    budget: MemoryBudget,
    most_jobs: int,
    is_remote: bool = False,
    *,
    num_alone: int = 0,
) -> Generator[Job[W], None, None]:
    """Yield jobs for the work of `source`, in order, of which up to `most_jobs` are begun.

    A job is stopped when the next job is asked for; that releases its reservation. Closing the generator
    stops all jobs. If the budget is short while the reader of a stream does not read, the jobs after the one
    that it has are given back, and begin again when the reader goes on. No other job begins before the first
    `num_alone` jobs are done. If they are local, the calling thread does them itself, without worker threads.
    It also does a small local job that waits for no other one, and each job of rows that are decoded already.
    The latter never run ahead, because their memory cannot be given back.

    Raises:
        LanceError: what `source` raised, after the jobs for the work before it.
        InvalidInputError: the caller that the thread reads for cannot take a row.
        UnsupportedFeatureError: the process was forked since the first job.
    """
    process = os.getpid()
    begun: deque[Job[W]] = deque()
    ahead: _Ahead[W] | None = None
    flow = Flow()
    upcoming = _Upcoming(source, budget, num_alone)
    # Estimates come from metadata. The real size of compressed data is known from the job before.
    growth = 1.0
    try:
        while True:
            look_at_reader()
            if ahead is not None:
                _begin_again(begun, budget, is_remote, flow)
            # The calling thread has done the last local job of these when the next one begins.
            room = 1 if num_alone > (0 if is_remote else 1) else most_jobs
            while len(begun) < room and (work := upcoming.peek(wait=not begun)) is not None:
                num_bytes = _estimate(work)
                check_fits_reader(num_bytes)
                is_held = all(isinstance(read, HeldRead) for read in work.reads)
                if begun and (is_held or (not is_remote and num_bytes <= _TINY_BYTES)):
                    break
                reservation = budget.reserve(int(num_bytes * growth), required=not begun)
                if reservation is None:
                    break
                upcoming.take()
                begun.append(Job(work, num_bytes, reservation))
                is_small = len(begun) == 1 and not is_remote and num_bytes <= ALONE_BYTES
                if is_held:
                    begun[-1].hold()
                elif (num_alone > 0 and not is_remote) or is_small:
                    begun[-1].run()
                else:
                    begun[-1].begin(is_remote, flow)
                num_alone -= 1
            if not begun:
                return
            if len(begun) > 1:
                if ahead is None:
                    ahead = _Ahead(begun)
                    budget.lend(ahead)
                ahead.pause()
            try:
                yield begun[0]
            finally:
                if ahead is not None and process == os.getpid():
                    ahead.go_on()
            check_process(process)
            growth = max(1.0, begun[0].reservation.num_bytes / begun[0].num_bytes)
            begun.popleft().stop()
    finally:
        for job in begun if process == os.getpid() else ():  # the worker threads are in the other process
            job.stop()


def run_alone(source: Source[W], budget: MemoryBudget) -> Generator[Job[W], None, None]:
    """Yield jobs for the work of `source`, in order, which the calling thread does one after the other.

    A job is stopped when the next job is asked for. Errors are those of `run_ahead`.
    """
    while (work := source.take(_FIRST_BYTES)) is not None:
        look_at_reader()
        num_bytes = _estimate(work)
        check_fits_reader(num_bytes)
        job = Job(work, num_bytes, budget.require(num_bytes))
        try:
            job.run()
            yield job
        finally:
            job.stop()


def _begin_again(begun: Sequence[Job[W]], budget: MemoryBudget, is_remote: bool, flow: Flow) -> None:
    """Begin jobs again that were given back: the first in any case, the others while the budget has room."""
    for job in begun:
        if job.is_given_back:
            reservation = budget.reserve(job.num_bytes, required=job is begun[0])
            if reservation is None:
                return
            job.reservation, job.is_given_back = reservation, False
            job.begin(is_remote, flow)


class _Ahead(Generic[W]):
    """The jobs ahead of one reader, which other readers may take the memory of while this one does not read.

    Methods may be called by the garbage collector in a thread that is inside another one, hence the kind of
    the lock.
    """

    def __init__(self, begun: deque[Job[W]]) -> None:
        self._begun = begun
        self._lock = threading.RLock()
        self._paused: float | None = None

    def pause(self) -> None:
        """Note that the reader has got a job."""
        with self._lock:
            self._paused = time.monotonic()

    def go_on(self) -> None:
        """Note that the reader asks for the next job."""
        with self._lock:
            self._paused = None

    def give_back(self) -> None:
        """Give back the jobs ahead if the reader has not read for `_STALLED_SECONDS`."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._paused is not None and time.monotonic() - self._paused > _STALLED_SECONDS:
                for job in list(self._begun)[1:]:
                    job.give_back()
        finally:
            self._lock.release()


class _Upcoming(Generic[W]):
    """The next work of a source, asked for in growing sizes."""

    def __init__(self, source: Source[W], budget: MemoryBudget, num_small: int) -> None:
        """Ask for little in the first `num_small` calls, at least in the first one."""
        self._num_small = num_small
        self._source = source
        self._budget = budget
        self._wish_bytes = _FIRST_BYTES
        self._work: Lookahead[W] = Lookahead(iter(self._ask, None))

    def peek(self, *, wait: bool) -> W | None:
        """Return the next work; None at the end, and if it is not known yet and the caller does not `wait`.

        With `wait`, an error of the source is raised: then all jobs from before it are done.
        """
        if self._work.is_known or wait or self._source.is_ready():
            return self._work.peek(in_turn=wait)
        return None

    def take(self) -> None:
        """Take the work that `peek` returned."""
        self._work.take()
        self._num_small -= 1
        if self._num_small <= 0:
            self._wish_bytes = min(2 * self._wish_bytes, _MOST_BYTES)

    def _ask(self) -> W | None:
        share = self._budget.share_bytes
        if share < self._wish_bytes:
            self._budget.take_back()
            least = min(max(_FIRST_BYTES, self._budget.limit_bytes // _LEAST_JOBS), _LEAST_BYTES)
            share = max(least, self._budget.share_bytes)
        return self._source.take(min(share, self._wish_bytes))


def _estimate(work: Work) -> int:
    return sum([read.num_bytes for read in work.reads])


def run_reads(reads: Sequence[Read]) -> Results[Any]:
    """Return the results of reads, up to the first that fails.

    A kernel reads and decodes the page ranges of all reads together, without the interpreter's lock. If it
    cannot decode one of them, the read runs by itself and raises the error that names file, column and page.
    """
    results: Results[Any] = Results()
    with step("decode"), results.error:
        ranges = [_page_ranges(read) for read in reads]
        wanted = [one for some in ranges for one in some]
        arrays = iter(decode_page_ranges(wanted) if wanted else ())
        for read, some in zip(reads, ranges, strict=True):
            found = [array for _ in some if (array := next(arrays)) is not None]
            if some and len(found) == len(some):
                assert isinstance(read, DirectRead)
                results.values.append(read.from_arrays(found))
            else:
                results.values.append(read.run())
    return results


def _page_ranges(read: Read) -> list[PageRange]:
    """Return the page ranges of a read for the kernel; none if the read must decode its pages itself."""
    if not isinstance(read, DirectRead):
        return []
    try:
        return read.page_ranges() or []
    except LanceError:
        return []  # `run` raises the error when the results before it are delivered


def _grouped(reads: Sequence[Read], num_threads: int, is_remote: bool) -> list[list[Read]]:
    """Return consecutive reads in groups, so large that each group is worth a submission to the pool.

    A remote read is a group of its own, because it spends its time waiting for answers.
    """
    if is_remote:
        return [[read] for read in reads]
    share = sum(read.num_bytes for read in reads) // num_threads
    most = min(max(share, _LEAST_GROUP_BYTES), _MOST_GROUP_BYTES)
    groups: list[list[Read]] = []
    room = 0
    for read in reads:
        if room <= 0:
            groups.append([])
            room = most
        groups[-1].append(read)
        room -= read.num_bytes
    return groups
