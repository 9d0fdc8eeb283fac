"""Cutting decoded rows into record batches of the size that was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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

    def num_bytes(self, columns: Sequence[list[pa.Array]]) -> int:
        """Bytes of a window, given as the arrays of each column."""
        num_rows = sum(map(len, columns[0]))
        first, last = self._bits_before(columns, np.array([0, num_rows]))
        return int(last - first) // 8

    def cut(self, columns: Sequence[list[pa.Array]], cuts: Counts) -> Iterator[pa.RecordBatch]:
        """The batches of a window.

        Args:
            columns: The arrays of each column, in order.
            cuts: The rows where batches should begin and end, first and last included. Where two are equal,
                no batch is between them; what is too large is divided.
        """
        cuts = self._halve_large(np.unique(cuts), columns)
        rows = self._rows(columns)
        for start, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            batch = rows.slice(start, end - start)
            if isinstance(batch, pa.Table):
                yield from _joined(batch)
            else:
                yield batch

    def _halve_large(self, cuts: Counts, columns: Sequence[list[pa.Array]]) -> Counts:
        """Rows differ in size, and sizes were guessed: halve batches until each is small or one row."""
        while True:
            sizes = np.diff(self._bits_before(columns, cuts))
            large = (sizes > 8 * self._most_bytes) & (np.diff(cuts) > 1)
            if not large.any():
                return cuts
            middles = (cuts[:-1] + cuts[1:])[large] // 2
            cuts = np.sort(np.concatenate((cuts, middles)))

    def _bits_before(self, columns: Sequence[list[pa.Array]], rows: Counts) -> Counts:
        total = rows * self._even_bits
        for position in self._uneven:
            total = total + _bits_before(columns[position], rows)
        return total

    def _rows(self, columns: Sequence[list[pa.Array]]) -> pa.RecordBatch | pa.Table:
        if all(len(arrays) == 1 for arrays in columns):
            return pa.RecordBatch.from_arrays([array for [array] in columns], schema=self._schema)
        chunked = [pa.chunked_array(arrays) for arrays in columns]
        return pa.Table.from_arrays(chunked, schema=self._schema)


def _joined(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """One batch, with the arrays joined that end inside it; the others stay slices.

    Dictionaries of several pages may hold more values than the keys can count; then a batch ends where they
    change.
    """
    try:
        rows = rows.combine_chunks()
    except pa.ArrowInvalid:
        if not any(_holds_dictionary(field.type) for field in rows.schema):
            raise
    yield from rows.to_batches()


def _holds_dictionary(data_type: pa.DataType) -> bool:
    if pa.types.is_dictionary(data_type):
        return True
    return any(_holds_dictionary(data_type.field(i).type) for i in range(data_type.num_fields))


def _bits_before(arrays: Sequence[pa.Array], rows: Counts) -> Counts:
    """Bits of the values before each of `rows` in arrays that follow one another."""
    total = np.zeros_like(rows)
    start = 0
    for array in arrays:
        total += bits_before(array, np.clip(rows - start, 0, len(array)))
        start += len(array)
    return total
