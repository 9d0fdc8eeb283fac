"""Cutting decoded rows into record batches of the size that was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from lance_core.scan.cuts import cut_rows
from lance_core.scan.options import ScanOptions
from lance_core.scan.sizes import Counts, bytes_before, value_bits

# Slices that begin at a byte of every validity bitmap are sent without shifting bits.
_MULTIPLE = 64


class BatchCutter:
    """Cuts the windows of one stream."""

    def __init__(self, schema: pa.Schema, options: ScanOptions) -> None:
        self._schema = schema
        self._options = options
        self._is_uneven = any(value_bits(field.type) is None for field in schema)

    def cut(self, columns: Sequence[list[pa.Array]], sizes: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The batches of a window, given as the arrays of each column and their bytes."""
        widest = list(accumulate(map(len, columns[sizes.index(max(sizes))])))
        num_rows = widest[-1] if widest else 0
        if num_rows == 0:
            return
        pieces = cut_rows(
            widest,
            0,
            num_rows,
            rows_per_piece=max(1, self._options.batch_bytes * num_rows // max(1, sum(sizes))),
            most_rows=self._options.batch_rows,
            multiple=_MULTIPLE,
        )
        cuts = np.array([0, *(end for _, end in pieces)])
        if self._is_uneven:
            cuts = self._halve_large(cuts, columns)
        rows = self._rows(columns)
        for start, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            batch = rows.slice(start, end - start)
            if isinstance(batch, pa.Table):
                # Arrays that end inside the batch are joined; the others stay slices.
                batch = batch.combine_chunks().to_batches()[0]
            yield batch

    def _halve_large(self, cuts: Counts, columns: Sequence[list[pa.Array]]) -> Counts:
        """Rows differ in size: halve batches until each is small enough, or a single row."""
        while True:
            sizes = np.diff(sum(_bytes_before(arrays, cuts) for arrays in columns))
            large = (sizes > 2 * self._options.batch_bytes) & (np.diff(cuts) > 1)
            if not large.any():
                return cuts
            middles = (cuts[:-1] + cuts[1:])[large] // 2
            cuts = np.sort(np.concatenate((cuts, middles)))

    def _rows(self, columns: Sequence[list[pa.Array]]) -> pa.RecordBatch | pa.Table:
        if all(len(arrays) == 1 for arrays in columns):
            return pa.RecordBatch.from_arrays([array for [array] in columns], schema=self._schema)
        chunked = [pa.chunked_array(arrays) for arrays in columns]
        return pa.Table.from_arrays(chunked, schema=self._schema)


def _bytes_before(arrays: Sequence[pa.Array], rows: Counts) -> Counts:
    """Bytes of the values before each of `rows` in arrays that follow one another."""
    total = np.zeros_like(rows)
    start = 0
    for array in arrays:
        total += bytes_before(array, np.clip(rows - start, 0, len(array)))
        start += len(array)
    return total
