"""Cutting of decoded rows into record batches within the byte limit of a scan."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from operator import sub

import numpy as np
import pyarrow as pa

from lance_core.encodings.values import concat_arrays
from lance_core.file.page_ranges import ReadBatches
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.read.columns import holds_dictionary
from lance_core.scan.read.value_sizes import Counts, bits_before, value_bits


@dataclass(frozen=True)
class BatchRun:
    """Consecutive batches whose rows lie in one Arrow array per column.

    Attributes:
        rows: The rows of all batches.
        batch_rows: Rows of each batch; the last batch may have fewer.
    """

    rows: pa.RecordBatch
    batch_rows: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        num_rows = self.rows.num_rows
        return (self.rows.slice(start, self.batch_rows) for start in range(0, num_rows, self.batch_rows))

    def sendable(self) -> pa.RecordBatch | pa.RecordBatchReader:
        """Return the batches in a form that Arrow divides without running Python."""
        if self.rows.num_rows <= self.batch_rows:
            return self.rows
        return pa.Table.from_batches([self.rows]).to_reader(max_chunksize=self.batch_rows)


class BatchCutter:
    """Cutter of the windows of one stream into batches."""

    def __init__(self, schema: pa.Schema, options: ScanOptions) -> None:
        self.schema = schema
        self._most_bytes = options.batch_bytes
        self._most_rows = options.batch_rows

    @cached_property
    def _widths(self) -> tuple[int, list[int]]:
        """Bits that one row has in the columns of one width, and the positions of the other columns."""
        bits = [value_bits(field.type) for field in self.schema]
        uneven = [position for position, width in enumerate(bits) if width is None]
        return sum(width + 1 for width in bits if width is not None), uneven

    def whole(self, found: ReadBatches, cuts: Counts) -> BatchRun | None:
        """Return all batches between `cuts` as one run; None if one is too large or their sizes differ."""
        num_rows, batch_rows = found.rows.num_rows, int(cuts[1])
        is_even = cuts.tolist() == [*range(0, num_rows, batch_rows), num_rows]
        return (
            BatchRun(found.rows, batch_rows)
            if is_even and found.largest_bits <= 8 * self._most_bytes
            else None
        )

    def fit(self, columns: Sequence[list[pa.Array]], cuts: Counts) -> tuple[Counts, int]:
        """Return the cuts between batches of which none is too large, and the bytes of all rows.

        The sizes of rows were estimates: batches are halved until each is small enough or has one row.

        Args:
            columns: The arrays of each column, in order.
            cuts: The rows where batches should begin and end, first and last included. Two equal cuts have no
                batch between them.
        """
        edges = sorted(set(cuts.tolist()))
        cuts = cuts if len(edges) == len(cuts) else np.array(edges)
        row_bits, uneven = self._widths
        if not uneven and max(map(sub, edges[1:], edges), default=0) * row_bits <= 8 * self._most_bytes:
            return cuts, (edges[-1] - edges[0]) * row_bits // 8
        while True:
            bits = self._bits_before(columns, cuts)
            large = (np.diff(bits) > 8 * self._most_bytes) & (np.diff(cuts) > 1)
            if not large.any():
                return cuts, int(bits[-1] - bits[0]) // 8
            middles = (cuts[:-1] + cuts[1:])[large] // 2
            cuts = np.sort(np.concatenate((cuts, middles)))

    def cut(self, columns: Sequence[list[pa.Array]], cuts: Counts) -> Iterator[BatchRun]:
        """Yield the batches between the `cuts` that `fit` returned."""
        takers = [_taker(arrays) for arrays in columns]
        edges = sorted({edge for arrays in columns for edge in accumulate(map(len, arrays[:-1]))})
        for start, end, batch_rows in _even(cuts.tolist(), edges):
            parts = [take(start, end) for take in takers]
            if all(isinstance(part, pa.Array) for part in parts):
                yield BatchRun(pa.RecordBatch.from_arrays(parts, schema=self.schema), batch_rows)
            else:
                for rows in self._where_dictionaries_change(parts):
                    yield BatchRun(rows, batch_rows)

    def cut_rows(self, rows: pa.RecordBatch) -> Iterator[BatchRun]:
        """Yield the batches of rows that are decoded already."""
        most_rows = self._most_rows or max(rows.num_rows, 1)
        if rows.get_total_buffer_size() <= self._most_bytes:  # no batch is too large
            yield BatchRun(rows, most_rows)
            return
        columns = [[column] for column in rows.columns]
        cuts, _ = self.fit(columns, np.array([*range(0, rows.num_rows, most_rows), rows.num_rows]))
        yield from self.cut(columns, cuts)

    def _bits_before(self, columns: Sequence[list[pa.Array]], rows: Counts) -> Counts:
        even_bits, uneven = self._widths
        total = rows * even_bits
        for position in uneven:
            total = total + _bits_before(columns[position], rows)
        return total

    def _where_dictionaries_change(
        self, parts: Sequence[pa.Array | pa.ChunkedArray]
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of the rows of `parts`, each with one chunk of every column."""
        chunked = [pa.chunked_array([part]) if isinstance(part, pa.Array) else part for part in parts]
        yield from pa.Table.from_arrays(chunked, schema=self.schema).to_batches()


def _even(cuts: Sequence[int], edges: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and batch size of the longest runs of equal batches; the last one may be shorter.

    A batch with an edge inside, where arrays have to be joined, is a run of its own.
    """
    if len(cuts) < 2:
        return
    start, batch_rows = cuts[0], cuts[1] - cuts[0]
    for begin, end in pairwise(cuts[1:]):
        is_even = (begin - start) % batch_rows == 0 and end - begin <= batch_rows
        if not is_even or bisect_right(edges, start) < bisect_left(edges, end):
            yield start, begin, batch_rows
            start, batch_rows = begin, end - begin
    yield start, cuts[-1], batch_rows


def _taker(arrays: Sequence[pa.Array]) -> Callable[[int, int], pa.Array | pa.ChunkedArray]:
    """Return a function that returns rows `[start, end)` of consecutive arrays.

    Most rows lie in one array, of which the function returns a slice. Rows of several arrays are copied into
    one, unless their dictionaries have more values together than the keys can count: then they stay chunks.
    """
    if len(arrays) == 1:
        (array,) = arrays
        return lambda start, end: array.slice(start, end - start)
    starts = [0, *accumulate(map(len, arrays))]

    def take(start: int, end: int) -> pa.Array | pa.ChunkedArray:
        first = bisect_right(starts, start) - 1
        last = bisect_left(starts, end)
        slices = [
            array.slice(max(start - begin, 0), min(end - begin, len(array)) - max(start - begin, 0))
            for array, begin in zip(arrays[first:last], starts[first:last], strict=True)
        ]
        if len(slices) == 1:
            return slices[0]
        try:
            return concat_arrays(slices)
        except pa.ArrowCapacityError:
            if not holds_dictionary(slices[0].type):
                raise
            return pa.chunked_array(slices)

    return take


def _bits_before(arrays: Sequence[pa.Array], rows: Counts) -> Counts:
    """Return for each of the ascending `rows` the size in bits of the values before it in all arrays."""
    if len(arrays) == 1:
        return bits_before(arrays[0], rows)
    bits = np.zeros_like(rows)
    start, before, done = 0, 0, 0
    for array in arrays:
        inside = int(rows.searchsorted(start + len(array), side="right"))
        found = bits_before(array, np.array([0, *(rows[done:inside] - start), len(array)]))
        bits[done:inside] = found[1:-1] - found[0] + before
        before += int(found[-1] - found[0])
        start += len(array)
        done = inside
    return bits
