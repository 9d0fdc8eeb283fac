"""Cutting decoded rows into record batches of the size that was asked for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from lance_core.scan.options import ScanOptions
from lance_core.scan.sizes import Counts, bits_before, value_bits


class BatchCutter:
    """Cuts the windows of one stream."""

    def __init__(self, schema: pa.Schema, options: ScanOptions) -> None:
        self._schema = schema
        self._most_bytes = 2 * options.batch_bytes
        bits = [value_bits(field.type) for field in schema]
        self._even_bits = sum(width + 1 for width in bits if width is not None)
        self._uneven = [position for position, width in enumerate(bits) if width is None]

    def fit(self, columns: Sequence[list[pa.Array]], cuts: Counts) -> tuple[Counts, int]:
        """Where to cut a window so that no batch is too large, and the bytes of the window.

        Rows differ in size, and sizes were guessed: batches are halved until each is small or one row.

        Args:
            columns: The arrays of each column, in order.
            cuts: The rows where batches should begin and end, first and last included. Where two are equal,
                no batch is between them.
        """
        cuts = np.array(sorted(set(cuts.tolist())))
        while True:
            bits = self._bits_before(columns, cuts)
            large = (np.diff(bits) > 8 * self._most_bytes) & (np.diff(cuts) > 1)
            if not large.any():
                return cuts, int(bits[-1] - bits[0]) // 8
            middles = (cuts[:-1] + cuts[1:])[large] // 2
            cuts = np.sort(np.concatenate((cuts, middles)))

    def cut(self, columns: Sequence[list[pa.Array]], cuts: Counts) -> Iterator[pa.RecordBatch]:
        """The batches of a window between `cuts` that `fit` gave."""
        if all(len(arrays) == 1 for arrays in columns):
            rows = pa.RecordBatch.from_arrays([array for [array] in columns], schema=self._schema)
            yield from (rows.slice(start, end - start) for start, end in pairwise(cuts.tolist()))
            return
        takers = [_taker(arrays) for arrays in columns]
        for start, end in pairwise(cuts.tolist()):
            parts = [take(start, end) for take in takers]
            if all(isinstance(part, pa.Array) for part in parts):
                yield pa.RecordBatch.from_arrays(parts, schema=self._schema)
            else:
                yield from self._where_dictionaries_change(parts)

    def _bits_before(self, columns: Sequence[list[pa.Array]], rows: Counts) -> Counts:
        total = rows * self._even_bits
        for position in self._uneven:
            total = total + _bits_before(columns[position], rows)
        return total

    def _where_dictionaries_change(
        self, parts: Sequence[pa.Array | pa.ChunkedArray]
    ) -> Iterator[pa.RecordBatch]:
        """Batches of the rows of `parts`, each in one piece of every column."""
        chunked = [pa.chunked_array([part]) if isinstance(part, pa.Array) else part for part in parts]
        yield from pa.Table.from_arrays(chunked, schema=self._schema).to_batches()


def _taker(arrays: Sequence[pa.Array]) -> Callable[[int, int], pa.Array | pa.ChunkedArray]:
    """What cuts rows `[start, end)` out of arrays that follow one another.

    Most rows lie in one array and are a slice of it. The others are copied together, unless that cannot be:
    dictionaries of several pages may hold more values than the keys can count.
    """
    if len(arrays) == 1:
        (array,) = arrays
        return lambda start, end: array.slice(start, end - start)
    starts = [0, *accumulate(map(len, arrays))]

    def take(start: int, end: int) -> pa.Array | pa.ChunkedArray:
        first = bisect_right(starts, start) - 1
        last = bisect_left(starts, end)
        pieces = [
            array.slice(max(start - begin, 0), min(end - begin, len(array)) - max(start - begin, 0))
            for array, begin in zip(arrays[first:last], starts[first:last], strict=True)
        ]
        if len(pieces) == 1:
            return pieces[0]
        try:
            return pa.concat_arrays(pieces)
        except pa.ArrowInvalid:
            if not _holds_dictionary(pieces[0].type):
                raise
            return pa.chunked_array(pieces)

    return take


def _holds_dictionary(data_type: pa.DataType) -> bool:
    if pa.types.is_dictionary(data_type):
        return True
    return any(_holds_dictionary(data_type.field(i).type) for i in range(data_type.num_fields))


def _bits_before(arrays: Sequence[pa.Array], rows: Counts) -> Counts:
    """Bits of the values before each of `rows`, ascending, in arrays that follow one another."""
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
