"""Packed structs: the members of each row side by side, in schema order, without padding.

    {x: uint64, y: int16} [{1, 2}, {3, -4}]     01 00*7 02 00 | 03 00*7 fc ff

Members have fixed widths of whole bytes. Neither the members nor the struct can be null.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_0.encoding import Decoded, Encoding, PageBuffer, PageBuffers
from lance_core.encodings.v2_0.range_requests import Steps
from lance_core.encodings.values import (
    FixedValues,
    ListValues,
    PackedValues,
    Values,
    as_buffer,
    fixed_bits,
)
from lance_core.kernels import CorruptData
from lance_core.proto import encodings_v2_0_pb2 as proto


@dataclass(frozen=True, slots=True)
class PackedStruct(Encoding):
    """Rows of members of fixed width."""

    name = "packed_struct"
    types: tuple[pa.DataType, ...]
    widths: tuple[int, ...]
    buffer: PageBuffer
    num_values: int

    @classmethod
    def parse(
        cls, message: proto.PackedStruct, buffers: PageBuffers, arrow_type: pa.DataType, num_values: int
    ) -> "PackedStruct":
        """Make the encoding from its description. The widths of the members come from the Arrow type."""
        types, widths = members(message, arrow_type)
        buffer = buffers.find(message.buffer)
        if buffer.size < num_values * sum(widths):
            raise CorruptData(f"{buffer.size} bytes for {num_values} rows of {sum(widths)}")
        return cls(types, widths, buffer, num_values)

    def read(self, start: int, end: int) -> Steps[Decoded]:
        row = sum(self.widths)
        (rows,) = yield [self.buffer.part(start * row, (end - start) * row)]
        return Decoded(split(rows, end - start, self.types, self.widths))

    @property
    def decoded_bytes(self) -> int:
        return self.num_values * sum(self.widths)


def members(
    message: proto.PackedStruct, arrow_type: pa.DataType
) -> tuple[tuple[pa.DataType, ...], tuple[int, ...]]:
    """Return the types and the widths in bytes of the members. Raises CorruptData if they do not fit."""
    if not pa.types.is_struct(arrow_type) or arrow_type.num_fields != len(message.inner):
        raise CorruptData(f"a packed struct of {len(message.inner)} fields in a column of type {arrow_type}")
    types = tuple(field.type for field in arrow_type)
    return types, tuple(_width(child) for child in types)


def split(rows: pa.Buffer, num_rows: int, types: Sequence[pa.DataType], widths: Sequence[int]) -> Values:
    """Return the members of rows that stand side by side."""
    columns = kernels.split_rows(rows, num_rows, list(widths))
    return PackedValues([_values(as_buffer(data), each) for data, each in zip(columns, types, strict=True)])


def _width(arrow_type: pa.DataType) -> int:
    """Return the size in bytes of a member of a packed struct."""
    if pa.types.is_fixed_size_list(arrow_type):
        return int(arrow_type.list_size) * _width(arrow_type.value_type)
    bits = fixed_bits(arrow_type)
    if bits == 0 or bits % 8 or pa.types.is_dictionary(arrow_type):
        raise CorruptData(f"a field of type {arrow_type} in a packed struct")
    return bits // 8


def _values(data: pa.Buffer, arrow_type: pa.DataType) -> Values:
    if pa.types.is_fixed_size_list(arrow_type):
        return ListValues(_values(data, arrow_type.value_type), arrow_type.list_size, None)
    return FixedValues(data, fixed_bits(arrow_type))
