"""Fixed-size lists of primitives: the items flattened, with a bitmap where items can be null.

Nested lists nest their descriptions, outermost first, and end in `Flat`. The bitmap of a list covers its
items; whether the list itself is null is a definition level.

    fsl<int32, 2> [[1, null], [3, 4]]     mini-block: buffer 0 = bitmap 0d, buffer 1 = 1 _ 3 4 (i32 each)
                                          full-zip row: bitmap 01 | 1 _ (i32 each)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.constant_values import Constant
from lance_core.encodings.v2_1.encoding import Encoding
from lance_core.encodings.v2_1.flat import Flat
from lance_core.encodings.values import FixedValues, ListValues, NoValues, Values, as_buffer
from lance_core.kernels import CorruptData, Counts, Stream
from lance_core.proto import encodings_v2_1_pb2 as proto

_MAX_ITEMS = (1 << 31) - 1
"""What Arrow can address in one list."""


@dataclass(frozen=True, slots=True)
class FixedSizeList(Encoding):
    """`dimension` items per value."""

    name = "fixed_size_list"
    dimension: int
    values: "FixedSizeList | Flat | Constant"
    has_validity: bool

    @classmethod
    def parse(cls, message: proto.FixedSizeList, values: Encoding) -> "FixedSizeList":
        """From the page's description and the encoding of the items."""
        if not isinstance(values, FixedSizeList | Flat | Constant):
            raise CorruptData(f"fixed-size lists over {values.name!r}")
        inner = values.num_items if isinstance(values, FixedSizeList) else 1
        if not 0 < message.items_per_value * inner <= _MAX_ITEMS:
            raise CorruptData(f"fixed-size lists of {message.items_per_value} times {inner} items")
        return cls(message.items_per_value, values, message.has_validity)

    @property
    def num_items(self) -> int:
        """Innermost items of a value."""
        return self.dimension * (self.values.num_items if isinstance(self.values, FixedSizeList) else 1)

    @property
    def num_buffers(self) -> int:
        return self.has_validity + self.values.num_buffers

    def decode_chunks(self, buffers: Sequence[Stream], counts: Counts) -> ListValues:
        items = counts.scaled(self.dimension)
        validity = as_buffer(kernels.join_bits(buffers[0], items)) if self.has_validity else None
        values = self.values.decode_chunks(buffers[self.has_validity :], items)
        return ListValues(values, self.dimension, validity)

    @property
    def row_bytes(self) -> int:
        return sum(self._row_widths(1))

    def decode_rows(self, rows: pa.Buffer, num_rows: int) -> ListValues:
        widths = self._row_widths(1)
        parts = [rows]
        if len(widths) > 1:
            parts = [as_buffer(block) for block in kernels.split_rows(rows, num_rows, widths)]
        return self._assemble(parts, num_rows, 1)

    def _row_widths(self, outer: int) -> list[int]:
        """Bytes of the bitmaps, outermost first, and of the items, in a row with `outer` of these lists."""
        items = outer * self.dimension
        widths = [(items + 7) // 8] if self.has_validity else []
        if isinstance(self.values, FixedSizeList):
            return widths + self.values._row_widths(items)
        if isinstance(self.values, Constant):
            return widths
        return [*widths, (items * self.values.bits_per_value + 7) // 8]

    def _assemble(self, parts: list[pa.Buffer], num_rows: int, outer: int) -> ListValues:
        items = outer * self.dimension
        validity = None
        if self.has_validity:
            validity = as_buffer(kernels.join_row_bits(parts[0], num_rows, items))
            parts = parts[1:]
        values: Values
        if isinstance(self.values, FixedSizeList):
            values = self.values._assemble(parts, num_rows, items)
        elif isinstance(self.values, Constant):
            values = NoValues()
        elif self.values.bits_per_value == 1:
            values = FixedValues(as_buffer(kernels.join_row_bits(parts[0], num_rows, items)), 1)
        else:
            values = FixedValues(parts[0], self.values.bits_per_value)
        return ListValues(values, self.dimension, validity)
