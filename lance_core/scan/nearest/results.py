"""Results of a search: the columns of the rows that were found, filtered, sorted and cut."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_core.encodings.values import take_values
from lance_core.expressions.tree import Expression
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.search_projection import Output, Score, SearchProjection, Taken
from lance_core.scan.run.batch_cutter import BatchCutter, BatchRun
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.sorting import sorted_places
from lance_core.scan.take.keys import Keys
from lance_core.scan.take.row_taker import join_batches
from lance_core.scan.take.taker_cache import taker_of
from lance_core.schema.arrow_values import array_of, numbers_of
from lance_core.table.snapshot import Snapshot

_READ_BYTES = 8 << 20


@dataclass(frozen=True)
class FoundRows:
    """Rows that a search found, in the order of the result.

    Attributes:
        addresses: Live row addresses.
        scores: The values of the columns that the search makes, by name.
    """

    addresses: Keys
    scores: dict[str, pa.Array]


def result_runs(
    snapshot: Snapshot,
    options: ScanOptions,
    projection: SearchProjection,
    found: FoundRows,
    budget: MemoryBudget,
    files: DataFiles,
) -> Generator[BatchRun, None, None]:
    """Yield the result of a search, sized by `options`: with its columns, filtered, sorted, and cut by limit
    and offset.

    Raises:
        LanceError: Something cannot be read, or an expression has no value.
    """
    skip, left = options.offset or 0, options.limit
    cutter = BatchCutter(projection.schema, options)
    with budget.require(0) as reservation:
        for batch, keys in _in_order(_filtered(snapshot, projection, found, files), projection, options):
            del keys
            start = min(skip, batch.num_rows)
            skip -= start
            length = batch.num_rows - start if left is None else min(left, batch.num_rows - start)
            left = None if left is None else left - length
            if length:
                reservation.resize(batch.get_total_buffer_size())
                yield from cutter.cut_rows(batch.slice(start, length))
            if left == 0:
                return


_Batch = tuple[pa.RecordBatch, list[pa.Array]]
"""Rows of the result, and the values of the columns that they are sorted by."""


def _filtered(
    snapshot: Snapshot, projection: SearchProjection, found: FoundRows, files: DataFiles
) -> Iterator[_Batch]:
    taker = taker_of(snapshot, projection.taken, files)
    start = 0
    for taken in taker.batches(found.addresses, _READ_BYTES):
        scores = {name: array.slice(start, taken.num_rows) for name, array in found.scores.items()}
        start += taken.num_rows
        rows = _Rows(taken, scores, projection)
        if projection.after is not None:
            rows = rows.passing(projection.after)
        columns = [rows.column(output) for output in projection.outputs]
        if columns:
            batch = pa.RecordBatch.from_arrays(columns, schema=projection.schema)
        else:
            empty = pa.StructArray.from_buffers(pa.struct([]), rows.num_rows, [None])
            batch = pa.RecordBatch.from_struct_array(empty).replace_schema_metadata(
                projection.schema.metadata
            )
        yield batch, [rows.column(output) for output in projection.order]


class _Rows:
    """Taken rows with their scores."""

    def __init__(
        self, taken: pa.RecordBatch, scores: dict[str, pa.Array], projection: SearchProjection
    ) -> None:
        self._taken = taken
        self._scores = scores
        self._projection = projection
        self.num_rows = taken.num_rows

    def column(self, output: Output) -> pa.Array:
        if isinstance(output, Taken):
            return self._taken.column(output.number)
        if isinstance(output, Score):
            return self._scores[output.name]
        from lance_core.expressions.evaluate import evaluate  # late: most searches compute nothing

        return evaluate(output, self._named())

    def passing(self, condition: Expression) -> _Rows:
        """Return the rows that meet a condition."""
        from lance_core.expressions.evaluate import passing  # late, as above

        chosen = array_of(np.flatnonzero(numbers_of(passing(condition, self._named()))))
        columns = [take_values(array, chosen) for array in self._taken.columns]
        if columns:
            taken = pa.RecordBatch.from_arrays(columns, schema=self._taken.schema)
        else:
            taken = pa.RecordBatch.from_struct_array(
                pa.StructArray.from_buffers(pa.struct([]), len(chosen), [None])
            )
        scores = {name: array.take(chosen) for name, array in self._scores.items()}
        return _Rows(taken, scores, self._projection)

    def _named(self) -> pa.RecordBatch:
        """Return the columns that expressions name."""
        named = {name: self._taken.column(number) for name, number in self._projection.inputs.items()}
        return pa.RecordBatch.from_pydict({**named, **self._scores})


def _in_order(
    batches: Iterator[_Batch], projection: SearchProjection, options: ScanOptions
) -> Iterator[_Batch]:
    """Yield the rows in the order that the options ask for, which needs all of them in memory."""
    if not options.order_by:
        yield from batches
        return
    parts = list(batches)
    if not parts:
        return
    keys = [pa.chunked_array([part[number] for _, part in parts]) for number in range(len(options.order_by))]
    places = sorted_places(keys, options.order_by)
    rows: Sequence[pa.RecordBatch] = [batch for batch, _ in parts]
    if not projection.outputs:
        yield from parts
        return
    joined = join_batches(rows, projection.schema)
    columns = [take_values(array, places) for array in joined.columns]
    yield pa.RecordBatch.from_arrays(columns, schema=projection.schema), []
