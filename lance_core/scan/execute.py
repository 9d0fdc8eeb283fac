"""Running a planned scan: rows decoded by the shared pool, ahead of the reader within a budget.

A stream cuts each fragment into windows of about `WINDOW_BYTES` decoded bytes and each window into record
batches. Both cuts depend on nothing but the plan and the files, so a plan gives the same batches whenever it
runs. A table is put together from larger pieces that follow the pages of each column on its own.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from lance_core.errors import LanceError
from lance_core.scan.batches import BatchCutter
from lance_core.scan.budget import MemoryBudget
from lance_core.scan.cuts import cut_rows
from lance_core.scan.files import FileCache
from lance_core.scan.fragment import FragmentOpener, FragmentReader
from lance_core.scan.plan import ScanPlan
from lance_core.scan.pool import decode_pool, num_workers
from lance_core.scan.projection import project
from lance_core.scan.sizes import num_bytes
from lance_core.table.snapshot import Snapshot

WINDOW_BYTES = 8 << 20
# What one thread reads of one column for a table.
PIECE_BYTES = 16 << 20
# Columns are decoded by one task until they make this many bytes, which hides the cost of starting a task.
_TASK_BYTES = 1 << 20
# Mini-blocks hold a power of two of at most this many rows of a flat column (Lance file format 2.1,
# section 5): windows that begin between two blocks decode none of them twice.
_WINDOW_MULTIPLE = 4096


def scan_batches(
    snapshot: Snapshot, plan: ScanPlan, budget: MemoryBudget, files: FileCache
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of a plan as record batches sized by `plan.options`, in order.

    Nothing is read before the first batch is asked for. Closing the iterator cancels what was started for it
    and gives back what it held of the budget.

    Raises:
        LanceError: in the place of the first batch that cannot be read.
    """
    projection = project(snapshot.manifest.schema, plan.options)
    if not projection.columns:
        for task in plan.tasks:
            yield from _rowless_batches(task.end - task.start, plan)
        return
    cutter = BatchCutter(plan.schema, plan.options)
    windows = _windows(plan, FragmentOpener(snapshot, projection, files))
    with closing(_run_ahead(windows, budget, most_jobs=2 + num_workers() // 2)) as jobs:
        for job in jobs:
            columns = job.result()
            sizes = [sum(map(num_bytes, arrays)) for arrays in columns]
            job.hold(sum(sizes))
            yield from cutter.cut(columns, sizes)
            # The memory must be free when the budget is, which is when the next job is asked for.
            del columns


def scan_table(snapshot: Snapshot, plan: ScanPlan, files: FileCache) -> pa.Table:
    """The rows of a plan as one table, whose columns are chunked each in its own way.

    Raises:
        LanceError: something cannot be read.
    """
    projection = project(snapshot.manifest.schema, plan.options)
    if not projection.columns:
        return pa.Table.from_batches(_rowless_batches(plan.num_rows, plan), plan.schema)
    chunks: list[list[pa.Array]] = [[] for _ in projection.columns]
    pieces = _grouped(_pieces(plan, FragmentOpener(snapshot, projection, files)), PIECE_BYTES // 4)
    unlimited = MemoryBudget(sys.maxsize)
    with closing(_run_ahead(pieces, unlimited, most_jobs=4 * num_workers())) as jobs:
        for job in jobs:
            for read, arrays in zip(job.reads, job.result(), strict=True):
                chunks[read.column] += arrays
    columns = [pa.chunked_array(c, field.type) for c, field in zip(chunks, plan.schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=plan.schema)


@dataclass(frozen=True)
class _Read:
    """A range of physical rows of one column of a fragment, and its estimated decoded size."""

    fragment: FragmentReader
    column: int
    start: int
    end: int
    num_bytes: int

    def run(self) -> list[pa.Array]:
        return self.fragment.read(self.column, self.start, self.end)


def _windows(plan: ScanPlan, opener: FragmentOpener) -> Iterator[list[_Read]]:
    aim = max(WINDOW_BYTES, plan.options.batch_bytes)
    for task in plan.tasks:
        fragment = opener.open(task)
        widths = [column.bytes_per_row for column in fragment.columns]
        widest = fragment.columns[widths.index(max(widths))]
        for start, end in cut_rows(
            widest.page_rows,
            fragment.start,
            fragment.end,
            rows_per_piece=_rows_in(aim, sum(widths)),
            most_rows=None,
            multiple=plan.options.batch_rows or _WINDOW_MULTIPLE,
        ):
            yield [
                _Read(fragment, column, start, end, int(width * (end - start)) + 1)
                for column, width in enumerate(widths)
            ]


def _pieces(plan: ScanPlan, opener: FragmentOpener) -> Iterator[_Read]:
    for task in plan.tasks:
        fragment = opener.open(task)
        for index, column in enumerate(fragment.columns):
            width = column.bytes_per_row
            for start, end in cut_rows(
                column.page_rows,
                fragment.start,
                fragment.end,
                rows_per_piece=_rows_in(PIECE_BYTES, width),
                most_rows=None,
                multiple=_WINDOW_MULTIPLE,
            ):
                yield _Read(fragment, index, start, end, int(width * (end - start)) + 1)


def _rows_in(num_bytes: int, bytes_per_row: float) -> int:
    return max(1, int(num_bytes / max(bytes_per_row, 0.125)))


def _grouped(reads: Iterable[_Read], least_bytes: int) -> Iterator[list[_Read]]:
    """Consecutive reads together until they make `least_bytes`."""
    group: list[_Read] = []
    num_bytes = 0
    for read in reads:
        group.append(read)
        num_bytes += read.num_bytes
        if num_bytes >= least_bytes:
            yield group
            group, num_bytes = [], 0
    if group:
        yield group


class _Job:
    """Reads handed to the pool, and the bytes of a budget that are held for what they give."""

    def __init__(self, reads: Sequence[_Read], budget: MemoryBudget, held_bytes: int) -> None:
        pool = decode_pool()
        self.reads = reads
        self.held_bytes = held_bytes
        self._budget = budget
        self._futures: list[Future[list[list[pa.Array]]]] = [
            pool.submit(_run_all, group) for group in _grouped(reads, _TASK_BYTES)
        ]

    def result(self) -> list[list[pa.Array]]:
        """The arrays of each read."""
        return [arrays for future in self._futures for arrays in future.result()]

    def hold(self, num_bytes: int) -> None:
        """Correct what is held, now that the real size is known."""
        self._budget.give_back(self.held_bytes - num_bytes)
        self.held_bytes = num_bytes

    def stop(self) -> None:
        """Cancel what has not begun, wait for the rest (at most one task per worker), and hold nothing."""
        wait([future for future in self._futures if not future.cancel()])
        self._futures = []
        self.hold(0)


def _run_all(reads: Sequence[_Read]) -> list[list[pa.Array]]:
    return [read.run() for read in reads]


def _run_ahead(
    reads: Iterator[list[_Read]], budget: MemoryBudget, most_jobs: int
) -> Generator[_Job, None, None]:
    """Jobs for `reads` in order; up to `most_jobs` of them are begun, as far as the budget allows.

    A job is stopped, and its part of the budget given back, when the one after it is asked for.
    """
    begun: deque[_Job] = deque()
    upcoming = _Upcoming(reads)
    # Estimates come from metadata; what compressed data really takes is learnt from the job before.
    growth = 1.0
    try:
        while True:
            while upcoming.reads is not None and len(begun) < most_jobs:
                needed = int(_estimate(upcoming.reads) * growth)
                if not budget.take(needed, required=not begun):
                    break
                begun.append(_Job(upcoming.reads, budget, needed))
                upcoming.advance()
            if not begun:
                break
            yield begun[0]
            growth = max(1.0, begun[0].held_bytes / _estimate(begun[0].reads))
            begun.popleft().stop()
    finally:
        for job in begun:
            job.stop()
    if upcoming.error is not None:
        raise upcoming.error


def _estimate(reads: Sequence[_Read]) -> int:
    return sum(read.num_bytes for read in reads)


class _Upcoming:
    """The reads that come next, `None` at their end, and the error that ended them, kept for its turn."""

    def __init__(self, reads: Iterator[list[_Read]]) -> None:
        self.error: LanceError | None = None
        self._iterator = reads
        self.advance()

    def advance(self) -> None:
        self.reads: list[_Read] | None = None
        try:
            self.reads = next(self._iterator, None)
        except LanceError as error:
            self.error = error


def _rowless_batches(num_rows: int, plan: ScanPlan) -> Iterator[pa.RecordBatch]:
    """Batches without columns that still have a number of rows."""
    most = plan.options.batch_rows or max(num_rows, 1)
    for start in range(0, num_rows, most):
        rows = pa.StructArray.from_buffers(pa.struct([]), min(most, num_rows - start), [None])
        yield pa.RecordBatch.from_struct_array(rows).replace_schema_metadata(plan.schema.metadata)
