"""Fixed-size lists of primitives: the flattened items, and a bitmap if items can be null.

Nested lists nest their descriptions, outermost first, and end in `Flat`. The bitmap of a list is the validity
of its items. Whether the list itself is null is a definition level.

    fsl<int32, 2> [[1, null], [3, 4]]     mini-block: buffer 0 = bitmap 0d, buffer 1 = 1 _ 3 4 (i32 each)
                                          full-zip row: bitmap 01 | 1 _ (i32 each)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.encoding import DescribeInner, Encoding, ParseInner
from lance_core.encodings.values import ListValues, as_buffer
from lance_core.kernels import CorruptData, Counts, Stream
from lance_core.proto import encodings_v2_1_pb2 as proto

_MAX_ITEMS = (1 << 31) - 1
"""Largest number of items that one Arrow list array can address."""


@dataclass(frozen=True, slots=True)
class FixedSizeList(Encoding):
    """`dimension` items per value."""

    name = "fixed_size_list"
    is_list_item = True
    dimension: int
    values: Encoding
    has_validity: bool

    @classmethod
    def parse(cls, message: proto.FixedSizeList, parse_inner: ParseInner) -> FixedSizeList:
        """Parse the description of a page; `parse_inner` parses the description of the items.

        Raises:
            CorruptData: The items cannot be items of lists, or a list has too many of them.
        """
        values = parse_inner(message.values)
        if not values.is_list_item:
            raise CorruptData(f"fixed-size lists over {values.name!r}")
        inner = values.items_per_value
        if not 0 < message.items_per_value * inner <= _MAX_ITEMS:
            raise CorruptData(f"fixed-size lists of {message.items_per_value} times {inner} items")
        return cls(message.items_per_value, values, message.has_validity)

    @staticmethod
    def describe(message: proto.FixedSizeList, describe_inner: DescribeInner) -> str:
        validity = ", with nulls" if message.has_validity else ""
        return f"list of {message.items_per_value}({describe_inner(message.values)}{validity})"

    @property
    def items_per_value(self) -> int:
        return self.dimension * self.values.items_per_value

    @property
    def num_buffers(self) -> int:
        return self.has_validity + self.values.num_buffers

    def decode_chunks(self, buffers: Sequence[Stream], counts: Counts) -> ListValues:
        items = counts.scaled(self.dimension)
        validity = as_buffer(kernels.join_bits(buffers[0], items)) if self.has_validity else None
        values = self.values.decode_chunks(buffers[self.has_validity :], items)
        return ListValues(values, self.dimension, validity)

    @property
    def has_plain_rows(self) -> bool:
        return not self.has_validity and self.values.has_plain_rows

    @property
    def row_bytes(self) -> int:
        return sum(self.row_widths(1))

    def decode_rows(self, rows: pa.Buffer, num_rows: int) -> ListValues:
        widths = self.row_widths(1)
        parts = [rows]
        if len(widths) > 1:
            parts = [as_buffer(block) for block in kernels.split_rows(rows, num_rows, widths)]
        return self.decode_row_parts(parts, num_rows, 1)

    def row_widths(self, num_values: int) -> list[int]:
        num_items = num_values * self.dimension
        bitmap = [(num_items + 7) // 8] if self.has_validity else []
        return bitmap + self.values.row_widths(num_items)

    def decode_row_parts(self, parts: Sequence[pa.Buffer], num_rows: int, num_values: int) -> ListValues:
        num_items = num_values * self.dimension
        validity = None
        if self.has_validity:
            validity = as_buffer(kernels.join_row_bits(parts[0], num_rows, num_items))
        items = self.values.decode_row_parts(parts[self.has_validity :], num_rows, num_items)
        return ListValues(items, self.dimension, validity)


def fixed_size_list_message(
    dimension: int, values: proto.CompressiveEncoding, *, has_validity: bool
) -> proto.CompressiveEncoding:
    """Return the description of lists of `dimension` items, with or without a bitmap of the items."""
    message = proto.FixedSizeList(items_per_value=dimension, values=values, has_validity=has_validity)
    return proto.CompressiveEncoding(fixed_size_list=message)
