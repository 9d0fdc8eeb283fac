"""Variable: strings and binaries as offsets and bytes. The offsets have the width of the column's Arrow type.

In a mini-block chunk, offsets count from the start of the buffer, so the first offset is the size of the
offsets:

    ['ab', '', 'cde']     10 12 12 15 (u32 each) | 'abcde' | pad to a multiple of the offset width

A block begins with the width of the offsets and the position of the bytes. Its offsets count from that
position:

    ['a', 'bb']           20 14 (u32 each) | 00 01 03 (u32 each) | 'abb'

In a full-zip entry the value is its bytes. Source: docs/format.md, "Variable".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.encoding import (
    DescribeInner,
    DirectValues,
    Encoding,
    ParseInner,
    describe_compression,
)
from lance_core.encodings.v2_1.flat import flat_message
from lance_core.encodings.values import VariableValues, as_buffer
from lance_core.kernels import CorruptData, Counts, Stream
from lance_core.proto import encodings_v2_1_pb2 as proto


@dataclass(frozen=True, slots=True)
class Variable(Encoding):
    """Values of variable length without compression."""

    name = "variable"
    offset_bits: int

    @classmethod
    def parse(cls, message: proto.Variable, parse_inner: ParseInner) -> Variable:
        """Make the encoding from its description. In 2.1 and 2.2 the offsets are flat and the bytes are not
        compressed.
        """
        if message.HasField("values"):
            raise CorruptData("a variable encoding with a compressed buffer")
        if message.offsets.WhichOneof("compression") != "flat":
            raise CorruptData(
                f"offsets encoded as {message.offsets.WhichOneof('compression')} instead of flat"
            )
        bits = message.offsets.flat.bits_per_value
        if bits not in (32, 64):
            raise CorruptData(f"offsets of {bits} bits")
        return cls(bits)

    @staticmethod
    def describe(message: proto.Variable, describe_inner: DescribeInner) -> str:
        compressed = f", {describe_compression(message.values)}" if message.HasField("values") else ""
        return f"variable({describe_inner(message.offsets)}{compressed})"

    @property
    def plain_offset_bits(self) -> int:
        return self.offset_bits

    def direct(self) -> DirectValues:
        return DirectValues(self.name, self.offset_bits, has_offsets=True)

    def decode_chunks(self, buffers: Sequence[Stream], counts: Counts) -> VariableValues:
        offsets, data = kernels.join_variable(buffers[0], counts, self.offset_bits)
        return VariableValues(as_buffer(offsets), as_buffer(data), self.offset_bits)

    def pick_chunks(self, buffers: Sequence[Stream], counts: Counts, picks: pa.Buffer) -> VariableValues:
        offsets, data = kernels.pick_variable(buffers[0], counts, picks, self.offset_bits)
        return VariableValues(as_buffer(offsets), as_buffer(data), self.offset_bits)

    def decode_blocks(self, blocks: Stream, counts: Counts) -> VariableValues:
        offsets, data = kernels.join_variable_blocks(blocks, counts, self.offset_bits)
        return VariableValues(as_buffer(offsets), as_buffer(data), self.offset_bits)

    def decode_payloads(self, payloads: VariableValues, num_values: int) -> VariableValues:
        return payloads


def variable_message(offset_bits: int) -> proto.CompressiveEncoding:
    """Return the description of offsets and bytes."""
    return proto.CompressiveEncoding(variable=proto.Variable(offsets=flat_message(offset_bits)))
