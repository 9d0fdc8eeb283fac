"""Fields of serialized messages: the kernel refuses the numbers that the protobuf library refuses."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError

from lance_core.kernels import CorruptData, field_totals
from lance_core.proto import file2_pb2


@pytest.mark.parametrize("number", [0, 1, (1 << 29) - 1, 1 << 29, 1 << 40])
def test_numbers_of_fields(number: int) -> None:
    """T22: field 0, and numbers of more than 29 bits."""
    tag = number << 3
    message = b"\x01"
    while tag:
        message = message[:-1] + bytes([tag & 0x7F | (0x80 if tag >> 7 else 0)]) + message[-1:]
        tag >>= 7
    if number == 0:
        message = b"\x00\x01"
    if 0 < number < 1 << 29:
        file2_pb2.ColumnMetadata.FromString(message)
        assert field_totals(message, (number,)) == (1, 1)
        return
    with pytest.raises(DecodeError):
        file2_pb2.ColumnMetadata.FromString(message)
    with pytest.raises(CorruptData):
        field_totals(message, (5,))
