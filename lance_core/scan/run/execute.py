"""Execution of a plan: worker threads decode rows ahead of the reader, within a budget.

A stream decodes windows of whole batches. A table is joined from larger reads, which follow the pages of each
column. With a filter, one sequence of jobs finds the matching rows, and another sequence decodes them.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_core.pool import num_workers
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.projection import Projection
from lance_core.scan.plan.scan_plan import ScanPlan
from lance_core.scan.read.columns import batch_of
from lance_core.scan.read.fragments import FragmentOpener
from lance_core.scan.run.batch_cutter import BatchCutter, BatchRun
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.readahead import Job, run_ahead
from lance_core.scan.run.strategy import Strategy
from lance_core.scan.run.table_reads import TableReads, TableSource
from lance_core.scan.run.window_batches import CutBatches, WholeWindows, WindowsTogether
from lance_core.scan.run.windows import Window, Windows
from lance_core.table.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_core.scan.run.filtering.matching_rows import MatchingWindow

_DEFAULT = Strategy()
# Windows that the thread of a stream decodes itself: the first, so that its batch comes soon, and the second,
# so that no read-ahead delays the sending of the first, and little is read for a client that stops there.
_ALONE = 2


def scan_batches(
    snapshot: Snapshot,
    plan: ScanPlan,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy = _DEFAULT,
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a plan as record batches sized by `plan.options`, in order; see `scan_batch_runs`."""
    with closing(scan_batch_runs(snapshot, plan, budget, files, strategy)) as runs:
        yield from _batches(runs)


def scan_batch_runs(
    snapshot: Snapshot,
    plan: ScanPlan,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy = _DEFAULT,
) -> Generator[BatchRun, None, None]:
    """Yield the batches of a plan, in order, several at a time if they are slices of the same arrays.

    A plan gives the same batches whenever it runs, whatever the budget, the strategy, and the statistics that
    are known. Nothing is read before the first batch is asked for. Closing the iterator cancels its jobs and
    releases what they reserved.

    Raises:
        LanceError: instead of the first batch that cannot be read.
    """
    if not plan.schema.names:
        for rows in _rowless_stream(snapshot, plan, budget, files, strategy):
            yield BatchRun(rows, max(rows.num_rows, 1))
        return
    if plan.options.filter is None:
        projection = plan.projection(snapshot.manifest.schema)
        yield from _unfiltered(snapshot, plan, projection, budget, files, strategy)
        return
    cutter = BatchCutter(plan.schema, plan.options)
    with closing(_matching_jobs(snapshot, plan, budget, files, strategy, cutter)) as jobs:
        yield from _cut_runs(jobs, cutter, plan)


def scan_projection(
    snapshot: Snapshot, plan: ScanPlan, projection: Projection, budget: MemoryBudget, files: DataFiles
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a plan without a filter, as `scan_batches` gives them, with the columns of a
    projection.
    """
    with closing(_unfiltered(snapshot, plan, projection, budget, files, _DEFAULT)) as runs:
        yield from _batches(runs)


def _batches(runs: Iterator[BatchRun]) -> Iterator[pa.RecordBatch]:
    # A `for` loop would keep a run in memory while it asks for the next one.
    return chain.from_iterable(map(BatchRun.batches, runs))


def _whole_runs(jobs: Iterator[Job[WindowsTogether]]) -> Iterator[BatchRun]:
    for job in jobs:
        yield from _whole_runs_of(job)


def _whole_runs_of(job: Job[Any]) -> Iterator[BatchRun]:
    """Yield the batches that a job has cut; the caller releases its reservation next."""
    windows: list[CutBatches] = list(job.results())
    job.reservation.resize(sum(window.num_bytes for window in windows))
    yield from chain.from_iterable([window.runs for window in windows])


def _cut_runs(
    jobs: Iterator[Job[Window] | Job[MatchingWindow | WindowsTogether]], cutter: BatchCutter, plan: ScanPlan
) -> Iterator[BatchRun]:
    for job in jobs:
        if isinstance(job.work, WindowsTogether):
            yield from _whole_runs_of(job)
            continue
        columns = _by_column(job, plan)
        cuts, num_bytes = cutter.fit(columns, job.work.cuts)
        job.reservation.resize(num_bytes)
        yield from cutter.cut(columns, cuts)
        del columns  # `run_ahead` releases the reservation next


def scan_table(
    snapshot: Snapshot, plan: ScanPlan, files: DataFiles, strategy: Strategy = _DEFAULT
) -> pa.Table:
    """Return the rows of a plan as one table. Each column has chunks of its own.

    Raises:
        LanceError: something cannot be read.
    """
    # The whole table will be in memory anyway, so a limit would save nothing.
    budget = MemoryBudget(sys.maxsize)
    # With a limit, the scan may end soon: it begins with small windows, as a stream does.
    strategy = replace(strategy, is_stream=plan.options.limit is not None)
    if not plan.schema.names:
        batches = _rowless_stream(snapshot, plan, budget, files, strategy)
        return pa.Table.from_batches(batches, plan.schema)
    chunks: list[list[pa.Array]] = [[] for _ in plan.schema]
    with closing(_table_jobs(snapshot, plan, budget, files, strategy)) as jobs:
        for job in jobs:
            for chunk, arrays in zip(chunks, _by_column(job, plan), strict=True):
                chunk += arrays
    columns = [pa.chunked_array(c, field.type) for c, field in zip(chunks, plan.schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=plan.schema)


def count_matching(
    snapshot: Snapshot,
    plan: ScanPlan,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy = _DEFAULT,
) -> int:
    """Return the number of rows of a plan.

    Only columns of its filter are decoded, for rows that statistics do not decide.

    Raises:
        LanceError: something cannot be read.
    """
    options = plan.options
    if options.filter is not None:
        count = _count_before_limit(snapshot, plan, budget, files, strategy)
    elif options.order_by:
        count = plan.num_rows
    else:
        return plan.num_rows
    count = max(0, count - (options.offset or 0))
    return count if options.limit is None else min(count, options.limit)


def _count_before_limit(
    snapshot: Snapshot, plan: ScanPlan, budget: MemoryBudget, files: DataFiles, strategy: Strategy
) -> int:
    """Return the number of rows that match the filter of a plan."""
    from lance_core.scan.run.filtering.filtered_scan import filter_jobs  # late: most processes do not filter
    from lance_core.scan.run.filtering.index_masks import count_found, index_masks

    masks = index_masks(snapshot, plan.options, files, counts=True) if strategy.prune else None
    count, plan = (0, plan) if masks is None else count_found(snapshot, plan, masks, files)
    if not plan.fragment_scans:
        return count
    if plan.schema.names:
        nothing = replace(plan.options, columns=(), computed=None, with_row_id=False, with_row_address=False)
        plan = replace(plan, options=nothing)
    strategy = replace(strategy, is_stream=False)
    with closing(filter_jobs(snapshot, plan, budget, files, strategy, masks)) as jobs:
        for job in jobs:
            count += sum(matches.num_rows for found in job.results() for matches in found)
    return count


def _unfiltered(
    snapshot: Snapshot,
    plan: ScanPlan,
    projection: Projection,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy,
) -> Generator[BatchRun, None, None]:
    """Yield the batches of a stream without a filter."""
    windows = Windows(
        plan,
        FragmentOpener(
            snapshot,
            projection,
            files,
            strategy.trace,
            deleted=plan.options.include_deleted_rows,
        ),
    )
    cutter = BatchCutter(plan.schema, plan.options)
    if snapshot.storage.is_remote:  # requests for columns run side by side
        with closing(run_ahead(windows, budget, 2 + num_workers(True), True)) as jobs:
            yield from _cut_runs(jobs, cutter, plan)
        return
    whole = WholeWindows(windows, cutter)
    # The window that is sent, and one per worker thread. With more, several streams at once would need more
    # memory than the kernels keep for reuse.
    num_alone = _ALONE if strategy.decodes_ahead else sys.maxsize
    with closing(run_ahead(whole, budget, 1 + num_workers(), num_alone=num_alone)) as whole_jobs:
        yield from _whole_runs(whole_jobs)


def _matching_jobs(
    snapshot: Snapshot,
    plan: ScanPlan,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy,
    cutter: BatchCutter | None = None,
) -> Generator[Job[MatchingWindow | WindowsTogether], None, None]:
    # Imported late: most processes do not filter.
    from lance_core.scan.run.filtering.filtered_scan import matching_jobs

    return matching_jobs(snapshot, plan, budget, files, strategy, cutter)


def _table_jobs(
    snapshot: Snapshot, plan: ScanPlan, budget: MemoryBudget, files: DataFiles, strategy: Strategy
) -> Generator[Job[TableReads], None, None] | Generator[Job[MatchingWindow | WindowsTogether], None, None]:
    """Return the jobs of a table."""
    if plan.options.filter is not None:
        return _matching_jobs(snapshot, plan, budget, files, strategy)
    opener = FragmentOpener(
        snapshot,
        plan.projection(snapshot.manifest.schema),
        files,
        strategy.trace,
        deleted=plan.options.include_deleted_rows,
    )
    reads = TableSource(plan, opener)
    is_remote = snapshot.storage.is_remote
    most_jobs = num_workers(is_remote) if is_remote else 4 * num_workers()
    return run_ahead(reads, budget, most_jobs, is_remote)


def _by_column(job: Job[Any], plan: ScanPlan) -> list[list[pa.Array]]:
    """Return the arrays of each column from the results of a job whose reads have one column each."""
    columns: list[list[pa.Array]] = [[] for _ in plan.schema]
    for read, arrays in zip(job.work.reads, job.results(), strict=True):
        columns[read.column] += arrays
    return columns


def _rowless_stream(
    snapshot: Snapshot, plan: ScanPlan, budget: MemoryBudget, files: DataFiles, strategy: Strategy
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a plan without columns."""
    if plan.options.filter is not None or plan.options.strict_batch_size:
        yield from _rowless_batches(count_matching(snapshot, plan, budget, files, strategy), plan)
        return
    for scan in plan.fragment_scans:
        yield from _rowless_batches(scan.end - scan.start, plan)


def _rowless_batches(num_rows: int, plan: ScanPlan) -> Iterator[pa.RecordBatch]:
    """Yield batches without columns that have `num_rows` rows together."""
    most = plan.options.batch_rows or max(num_rows, 1)
    for start in range(0, num_rows, most):
        yield batch_of({}, min(most, num_rows - start)).replace_schema_metadata(plan.schema.metadata)
