"""Joining of batches, so that all but the last have the same number of rows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lance_core.encodings.concatenation import concatenated
from lance_core.scan.run.batch_cutter import BatchRun


def even_runs(runs: Iterator[BatchRun], num_rows: int) -> Iterator[BatchRun]:
    """Yield the rows of a stream in batches of `num_rows`; the last one may be shorter.

    Rows are copied only where a batch of the stream ends within one of the result.
    """
    open_rows: list[pa.RecordBatch] = []
    missing = num_rows
    for run in runs:
        rows = run.rows
        if open_rows:
            open_rows.append(rows.slice(0, missing))
            missing -= open_rows[-1].num_rows
            rows = rows.slice(open_rows[-1].num_rows)
            if not missing:
                yield BatchRun(_joined(open_rows), num_rows)
                open_rows, missing = [], num_rows
        whole = rows.num_rows - rows.num_rows % num_rows
        if whole:
            yield BatchRun(rows.slice(0, whole), num_rows)
        if whole < rows.num_rows:
            open_rows.append(rows.slice(whole))
            missing = num_rows - open_rows[-1].num_rows
    if open_rows:
        yield BatchRun(_joined(open_rows), num_rows)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = [
        concatenated([batch.column(number) for batch in batches]) for number in range(len(batches[0].schema))
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)
