"""End offsets of strings or lists, counted from the beginning of their page, 64 bits each.

A null is marked by an adjustment that is added to its end. The adjustment is greater than every end:

    lists [[1, 2], null, [], [3, 4, 5]]     5 items, adjustment 6: 2 8 2 5

Source: docs/format.md, "2.0".
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.picking import Int64s, Picking
from lance_core.encodings.v2_0.encoding import Decoded, Encoding
from lance_core.encodings.v2_0.range_requests import Steps
from lance_core.encodings.values import as_buffer
from lance_core.kernels import CorruptData, OffsetOverflow

_INT32_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Extents:
    """Consecutive values of any length. They cover the bytes or items `[begin, end)` of the page."""

    offsets: pa.Buffer
    """Arrow offsets, relative to `begin`. There is one more than there are values."""
    validity: pa.Buffer | None
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class PickedExtents:
    """Single values of any length. Each value has its own begin and end in the page."""

    offsets: pa.Buffer
    validity: pa.Buffer | None
    begins: Int64s
    ends: Int64s


@dataclass(frozen=True, slots=True)
class Ends:
    """The end offsets of the values of a page."""

    numbers: Encoding
    null_adjustment: int
    offset_bits: int
    """Bits of an offset of the Arrow type."""

    def read(self, start: int, end: int) -> Steps[Decoded]:
        """Read the stored numbers of the values `[start, end)`, and of the value before `start` if there is
        one.
        """
        return self.numbers.read(max(start - 1, 0), end)

    def split(self, numbers: Decoded, start: int, end: int, limit: int) -> Extents:
        """Split the stored numbers of the values `[start, end)` into Arrow offsets and validity.

        Args:
            numbers: result of `read` for the same range.
            start: first value.
            end: value after the last one.
            limit: number of bytes or items in the page.

        Raises:
            CorruptData: ends decrease or exceed the limit.
            OffsetOverflow: the values are longer than offsets of the Arrow type can address.
        """
        values = numbers.numbers("ends of values")
        if values.bits != 64:
            raise CorruptData(f"ends of values in {values.bits} bits")
        offsets, validity, num_nulls, first, last = kernels.split_null_ends(
            values.data, end - start, start > 0, self.null_adjustment, limit, self.offset_bits
        )
        return Extents(as_buffer(offsets), as_buffer(validity) if num_nulls else None, first, last)

    def pick(self, values: Int64s, limit: int) -> Picking[PickedExtents]:
        """Return the begins and ends of the values with these ascending numbers. Errors: see `split`."""
        pairs = np.repeat(values, 2)
        pairs[0::2] = np.maximum(values - 1, 0)
        numbers = yield from self.numbers.pick(pairs)
        decoded = numbers.numbers("ends of values")
        if decoded.bits != 64:
            raise CorruptData(f"ends of values in {decoded.bits} bits")
        stored = np.frombuffer(decoded.data, "<u8", len(pairs))
        is_null = stored >= self.null_adjustment
        ends = np.where(is_null, stored - np.uint64(self.null_adjustment), stored)
        begins, ends = ends[0::2], ends[1::2]
        begins[values == 0] = 0
        if (begins > ends).any() or (ends > limit).any():
            raise CorruptData(f"ends of values decrease or exceed {limit}")
        offsets = np.zeros(len(values) + 1, np.int64)
        np.cumsum(ends - begins, out=offsets[1:], dtype=np.int64)
        if self.offset_bits == 32:
            if offsets[-1] > _INT32_MAX:
                raise OffsetOverflow("more bytes or items than 32-bit offsets can address")
            offsets = offsets.astype(np.int32)
        null = is_null[1::2]
        validity = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
        return PickedExtents(pa.py_buffer(offsets), validity, begins.astype(np.int64), ends.astype(np.int64))
