"""Running a planned scan: rows decoded by the shared pool, ahead of the reader within a budget.

A stream decodes windows of whole batches. A table is put together from larger pieces that follow the pages of
each column on its own.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import closing

import pyarrow as pa

from lance_core.scan.batches import BatchCutter
from lance_core.scan.budget import MemoryBudget
from lance_core.scan.files import FileCache
from lance_core.scan.fragment import FragmentOpener
from lance_core.scan.plan import ScanPlan
from lance_core.scan.pool import num_workers
from lance_core.scan.projection import project
from lance_core.scan.readahead import run_ahead
from lance_core.scan.windows import TablePieces, Windows
from lance_core.table.snapshot import Snapshot


def scan_batches(
    snapshot: Snapshot, plan: ScanPlan, budget: MemoryBudget, files: FileCache
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of a plan as record batches sized by `plan.options`, in order.

    A plan gives the same batches whenever it runs, whatever the budget. Nothing is read before the first
    batch is asked for. Closing the iterator cancels what was started for it and gives back what it held.

    Raises:
        LanceError: in the place of the first batch that cannot be read.
    """
    projection = project(snapshot.manifest.schema, plan.options)
    if not projection.columns:
        for task in plan.tasks:
            yield from _rowless_batches(task.end - task.start, plan)
        return
    cutter = BatchCutter(plan.schema, plan.options)
    windows = Windows(plan, FragmentOpener(snapshot, projection, files))
    with closing(run_ahead(windows, budget, most_jobs=2 + num_workers())) as jobs:
        for job in jobs:
            columns = job.result()
            job.hold(cutter.num_bytes(columns))
            yield from cutter.cut(columns, job.work.cuts)
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
    pieces = TablePieces(plan, FragmentOpener(snapshot, projection, files))
    # The whole table will be in memory anyway: nothing is gained by a limit.
    with closing(run_ahead(pieces, MemoryBudget(sys.maxsize), most_jobs=4 * num_workers())) as jobs:
        for job in jobs:
            for read, arrays in zip(job.work.reads, job.result(), strict=True):
                chunks[read.column] += arrays
    columns = [pa.chunked_array(c, field.type) for c, field in zip(chunks, plan.schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=plan.schema)


def _rowless_batches(num_rows: int, plan: ScanPlan) -> Iterator[pa.RecordBatch]:
    """Batches without columns that still have a number of rows."""
    most = plan.options.batch_rows or max(num_rows, 1)
    for start in range(0, num_rows, most):
        rows = pa.StructArray.from_buffers(pa.struct([]), min(most, num_rows - start), [None])
        yield pa.RecordBatch.from_struct_array(rows).replace_schema_metadata(plan.schema.metadata)
