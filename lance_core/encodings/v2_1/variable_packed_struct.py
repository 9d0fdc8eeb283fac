"""Packed structs with members of variable length (2.2): the members of a row one after the other.

    {n: int32, s: string} {1, 'xy'}     01 00 00 00 | 02 00 00 00 'xy'

A row is the payload of a full-zip entry. A member of fixed width is stored as its bytes, a member of variable
width as its length and its bytes. Each member has its own encoding. The payload of a null struct is empty.
"""

from __future__ import annotations

from dataclasses import dataclass

from lance_core import kernels
from lance_core.encodings.v2_1.encoding import DescribeInner, Encoding, ParseInner
from lance_core.encodings.values import PackedValues, Values, VariableValues, as_buffer
from lance_core.kernels import CorruptData
from lance_core.proto import encodings_v2_1_pb2 as proto


@dataclass(frozen=True, slots=True)
class PackedField:
    """One member: `width` bytes, or a length of `length_bits` bits and as many bytes. The other is 0."""

    values: Encoding
    width: int
    length_bits: int


@dataclass(frozen=True, slots=True)
class VariablePackedStruct(Encoding):
    """Members of any width. Variable-width full-zip pages only."""

    name = "variable_packed_struct"
    fields: tuple[PackedField, ...]

    @classmethod
    def parse(cls, message: proto.VariablePackedStruct, parse_inner: ParseInner) -> VariablePackedStruct:
        """Make the encoding from its description, which lists the members in schema order."""
        fields = [_packed_field(field, parse_inner) for field in message.fields]
        for field in fields:
            if field.length_bits not in (0, 32, 64) or (field.width == 0) == (field.length_bits == 0):
                raise CorruptData(
                    f"a packed field of {field.width} bytes with a length of {field.length_bits} bits"
                )
            if field.width and field.values.row_bytes != field.width:
                raise CorruptData(f"a packed field of {field.width} bytes over {field.values.row_bytes}")
        return cls(tuple(fields))

    @staticmethod
    def describe(message: proto.VariablePackedStruct, describe_inner: DescribeInner) -> str:
        return f"packed struct({', '.join(describe_inner(field.value) for field in message.fields)})"

    def decode_payloads(self, payloads: VariableValues, num_values: int) -> PackedValues:
        columns = kernels.split_variable_rows(
            payloads.offsets,
            payloads.data,
            num_values,
            payloads.offset_bits,
            [(field.width, field.length_bits) for field in self.fields],
        )
        values: list[Values] = []
        for field, (first, second) in zip(self.fields, columns, strict=True):
            if field.width:
                values.append(field.values.decode_rows(as_buffer(first), num_values))
            else:
                column = VariableValues(as_buffer(first), as_buffer(second), field.length_bits)
                values.append(field.values.decode_payloads(column, num_values))
        return PackedValues(values)


def _packed_field(message: proto.VariablePackedStruct.FieldEncoding, parse_inner: ParseInner) -> PackedField:
    layout = message.WhichOneof("layout")
    if layout == "bits_per_value" and message.bits_per_value % 8 == 0:
        return PackedField(parse_inner(message.value), message.bits_per_value // 8, 0)
    if layout == "bits_per_length":
        return PackedField(parse_inner(message.value), 0, message.bits_per_length)
    raise CorruptData("a packed field without a width in bytes")
