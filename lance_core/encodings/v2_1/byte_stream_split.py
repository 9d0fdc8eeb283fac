"""Byte stream split: byte 0 of all values of a chunk, then byte 1 of all values, and so on.

It does not compress. It makes the data easier to compress for the compressor around it.

float32 [a, b] with bytes a0 a1 a2 a3 and b0 b1 b2 b3:     a0 b0 a1 b1 a2 b2 a3 b3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.chunks import Chunks, even_counts, flat_chunk_values, flat_chunks
from lance_core.encodings.v2_1.encoding import DescribeInner, DirectValues, Encoding, ParseInner
from lance_core.encodings.v2_1.flat import flat_message
from lance_core.encodings.values import FixedValues, as_buffer
from lance_core.kernels import CorruptData, Counts, Stream
from lance_core.proto import encodings_v2_1_pb2 as proto


@dataclass(frozen=True, slots=True)
class ByteStreamSplit(Encoding):
    """Values of 32 or 64 bits, split into bytes. Mini-block chunks only."""

    name = "byte_stream_split"
    bits_per_value: int

    @classmethod
    def parse(cls, message: proto.ByteStreamSplit, parse_inner: ParseInner) -> ByteStreamSplit:
        """Make the encoding from its description. The inner encoding has to be flat."""
        bits = parse_inner(message.values).flat_bits
        if bits not in (32, 64):
            raise CorruptData("byte stream split of values that are not flat words of 32 or 64 bits")
        return cls(bits)

    @staticmethod
    def describe(message: proto.ByteStreamSplit, describe_inner: DescribeInner) -> str:
        return f"byte stream split({describe_inner(message.values)})"

    def decode_chunks(self, buffers: Sequence[Stream], counts: Counts) -> FixedValues:
        values = kernels.join_byte_streams(buffers[0], counts, self.bits_per_value // 8)
        return FixedValues(as_buffer(values), self.bits_per_value)

    def direct(self) -> DirectValues:
        return DirectValues(self.name, self.bits_per_value)


def byte_stream_split_message(bits: int) -> proto.CompressiveEncoding:
    """Return the description of values whose bytes are split into streams."""
    message = proto.ByteStreamSplit(values=flat_message(bits))
    return proto.CompressiveEncoding(byte_stream_split=message)


def chunk_byte_streams(data: pa.Buffer, bits: int, num_values: int) -> Chunks:
    """Split words of 32 or 64 bits into byte streams, in mini-block chunks."""
    width = bits // 8
    chunk_values = flat_chunk_values(bits)
    counts = even_counts(num_values, chunk_values)
    streams = kernels.split_byte_streams(data, width, chunk_values)
    return Chunks([flat_chunks(streams, width, counts)], Counts(counts.data), byte_stream_split_message(bits))
