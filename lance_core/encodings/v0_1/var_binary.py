"""Var-binary pages: strings and binaries, found through 64-bit positions in the file.

A page is an array of positions, one more than there are values. The bytes of its values are contiguous,
anywhere in the file. An empty value of a nullable field is null: the format cannot tell it from an empty
string. Source: docs/format.md, "0.1".
"""

from functools import cached_property

import numpy as np
import pyarrow as pa

from lance_core.encodings.v0_1.offsets import read_extents
from lance_core.encodings.v0_1.pages import Numbers, Pages, Run, join
from lance_core.encodings.values import offset_bits

_POSITION_BITS = 64
_DESCRIPTOR_BYTES = 16
_SAMPLED_PAGES = 4
"""Number of pages whose offsets are read to estimate the mean length of values."""


class VarBinaryReader:
    """Reader of a string or binary type."""

    def __init__(self, pages: Pages, arrow_type: pa.DataType, *, nullable: bool) -> None:
        self._pages = pages
        self._type = arrow_type
        self._nullable = nullable
        pages.check_sizes(_POSITION_BITS, extra_items=1)

    @cached_property
    def num_bytes(self) -> float:
        lengths = self._pages.lengths
        batches = np.unique(np.linspace(0, len(lengths) - 1, _SAMPLED_PAGES).astype(np.int64))
        sampled, num_bytes = 0, 0
        for batch in batches[lengths[batches] > 0].tolist():
            run = Run(batch, np.zeros(1, np.int64), lengths[batch : batch + 1])
            num_bytes += int(read_extents(self._pages, run, _POSITION_BITS).lengths.sum())
            sampled += run.num_items
        mean = num_bytes / sampled if sampled else 0.0
        return float(lengths.sum()) * (mean + offset_bits(self._type) / 8)

    def page_bytes(self) -> Numbers:
        """Return the bytes of each page in the file, including the bytes of its values. Reads all offsets."""
        lengths = self._pages.lengths
        extents = read_extents(self._pages, Run(0, np.zeros_like(lengths), lengths), _POSITION_BITS)
        return (lengths + 1) * (_POSITION_BITS // 8) + extents.lasts - extents.firsts

    def read(self, run: Run) -> pa.Array:
        extents = read_extents(self._pages, run, _POSITION_BITS)
        sizes = extents.lasts - extents.firsts
        self._pages.check_ranges(run, extents.firsts, sizes)
        offsets = extents.arrow_offsets(offset_bits(self._type))
        data = join(self._pages.read(run, extents.firsts, sizes))
        validity = None
        if self._nullable and not extents.lengths.all():
            validity = pa.py_buffer(np.packbits(extents.lengths != 0, bitorder="little"))
        return pa.Array.from_buffers(self._type, run.num_items, [validity, offsets, data])


class BlobReader:
    """Reader of blob descriptors: structs of the position and size of each value. An empty value is null."""

    def __init__(self, pages: Pages, arrow_type: pa.DataType) -> None:
        self._pages = pages
        self._type = arrow_type
        pages.check_sizes(_POSITION_BITS, extra_items=1)

    @property
    def num_bytes(self) -> float:
        return float(self._pages.lengths.sum()) * _DESCRIPTOR_BYTES

    def read(self, run: Run) -> pa.Array:
        extents = read_extents(self._pages, run, _POSITION_BITS)
        self._pages.check_ranges(run, extents.firsts, extents.lasts - extents.firsts)
        numbers = [pa.array(column.astype(np.uint64)) for column in (extents.starts, extents.lengths)]
        is_null = pa.array(extents.lengths == 0)
        return pa.StructArray.from_arrays(numbers, fields=list(self._type), mask=is_null)
