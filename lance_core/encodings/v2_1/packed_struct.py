"""Packed structs: all members of a row side by side in one column.

    {a: int32, b: uint8} [{1, 2}, {3, 4}]     01 00 00 00 02 | 03 00 00 00 04

Members have fixed widths and no nulls. Whether the struct is null is a definition level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance_core import kernels
from lance_core.encodings.v2_1.encoding import DescribeInner, Encoding, ParseInner
from lance_core.encodings.v2_1.flat import flat_message
from lance_core.encodings.values import FixedValues, PackedValues, as_buffer
from lance_core.kernels import CorruptData, Counts, Stream
from lance_core.proto import encodings_v2_1_pb2 as proto


@dataclass(frozen=True, slots=True)
class PackedStruct(Encoding):
    """Members of fixed width. Mini-block chunks only."""

    name = "packed_struct"
    field_bytes: tuple[int, ...]

    @classmethod
    def parse(cls, message: proto.PackedStruct, parse_inner: ParseInner) -> PackedStruct:
        """Make the encoding from its description. The rows have to be flat."""
        bits = list(message.bits_per_value)
        if any(width == 0 or width % 8 for width in bits):
            raise CorruptData(f"a packed struct of fields of {bits} bits")
        if not bits or parse_inner(message.values).flat_bits != sum(bits):
            raise CorruptData(f"a packed struct of {sum(bits)} bits over rows that are not flat and as wide")
        return cls(tuple(width // 8 for width in bits))

    @staticmethod
    def describe(message: proto.PackedStruct, describe_inner: DescribeInner) -> str:
        widths = "+".join(str(bits) for bits in message.bits_per_value)
        return f"packed struct({widths} bits, {describe_inner(message.values)})"

    def decode_chunks(self, buffers: Sequence[Stream], counts: Counts) -> PackedValues:
        rows = kernels.join_fixed(buffers[0], counts, sum(self.field_bytes))
        columns = kernels.split_rows(rows, counts.total, list(self.field_bytes))
        return PackedValues(
            [
                FixedValues(as_buffer(column), width * 8)
                for column, width in zip(columns, self.field_bytes, strict=True)
            ]
        )


def packed_struct_message(bits: Sequence[int]) -> proto.CompressiveEncoding:
    """Return the description of members of `bits` bits each, one after the other."""
    message = proto.PackedStruct(bits_per_value=bits, values=flat_message(sum(bits)))
    return proto.CompressiveEncoding(packed_struct=message)
