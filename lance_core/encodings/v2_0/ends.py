"""Ends: where strings or lists end, counted from the beginning of their page, in 64 bits each.

A null is marked by a constant that is added to its end and is larger than any end:

    lists [[1, 2], null, [], [3, 4, 5]]     5 items, added 6: 2 8 2 5
"""

from dataclasses import dataclass

import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_0.encoding import Decoded, Encoding
from lance_core.encodings.v2_0.steps import Steps
from lance_core.encodings.values import as_buffer
from lance_core.kernels import CorruptData


@dataclass(frozen=True, slots=True)
class Extents:
    """Values of any length: what they cover, and where each lies in that."""

    offsets: pa.Buffer
    """Arrow offsets that begin at 0, one more than values."""
    validity: pa.Buffer | None
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of the values of a page."""

    numbers: Encoding
    null_adjustment: int
    offset_bits: int
    """Of the Arrow type."""

    def read(self, start: int, end: int) -> Steps[Decoded]:
        """The numbers of the values `[start, end)` and, but for the first value, of the one before."""
        return self.numbers.read(max(start - 1, 0), end)

    def split(self, numbers: Decoded, start: int, end: int, limit: int) -> Extents:
        """What the numbers that `read` gave stand for; there are `limit` bytes or items.

        Raises:
            CorruptData: ends that decrease or are above the limit.
            OffsetOverflow: the values cover more than offsets of the Arrow type can address.
        """
        values = numbers.numbers("ends of values")
        if values.bits != 64:
            raise CorruptData(f"ends of values in {values.bits} bits")
        offsets, validity, num_nulls, first, last = kernels.split_null_ends(
            values.data, end - start, start > 0, self.null_adjustment, limit, self.offset_bits
        )
        return Extents(as_buffer(offsets), as_buffer(validity) if num_nulls else None, first, last)
