"""Bit packing: values of 8, 16, 32 or 64 bits stored in fewer bits, in groups of 1024.

The values of a group are transposed, so that vector instructions unpack them: with T-bit words a group has
1024/T lanes, and word k of lane l is stored at k * lanes + l. Source: docs/format.md, "Bit packing".

Inline: one word with the bit width, then one group. A chunk has at most 1024 values; a shorter group is
padded with zeros.
Out of line (blocks only): the bit width is in the description; a width of 0 means that all values are 0. Full
groups are followed by a tail: either raw words or one padded group. The length of the block tells which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.chunks import Chunks, even_counts
from lance_core.encodings.v2_1.encoding import DescribeInner, DirectValues, Encoding, ParseInner
from lance_core.encodings.v2_1.flat import flat_message
from lance_core.encodings.v2_1.level_coding import LevelCoding
from lance_core.encodings.values import FixedValues, as_buffer
from lance_core.kernels import CorruptData, Counts, Stream
from lance_core.proto import encodings_v2_1_pb2 as proto

_WORDS = (8, 16, 32, 64)
_GROUP = 1024
"""Number of values in a group."""


@dataclass(frozen=True, slots=True)
class InlineBitpacking(Encoding):
    """Groups that begin with their bit width."""

    name = "inline_bitpacking"
    word_bits: int

    @classmethod
    def parse(cls, message: proto.InlineBitpacking, parse_inner: ParseInner) -> InlineBitpacking:
        """Make the encoding from its description."""
        if message.HasField("values"):
            raise CorruptData("inline bit packing with a compressed buffer")
        return cls(_word_bits(message.uncompressed_bits_per_value))

    @staticmethod
    def describe(message: proto.InlineBitpacking, describe_inner: DescribeInner) -> str:
        return f"inline bitpacking({message.uncompressed_bits_per_value})"

    def decode_chunks(self, buffers: Sequence[Stream], counts: Counts) -> FixedValues:
        return self.decode_blocks(buffers[0], counts)

    def decode_blocks(self, blocks: Stream, counts: Counts) -> FixedValues:
        return FixedValues(as_buffer(kernels.unpack_inline(blocks, counts, self.word_bits)), self.word_bits)

    def pick_chunks(self, buffers: Sequence[Stream], counts: Counts, picks: pa.Buffer) -> FixedValues:
        values = kernels.pick_inline(buffers[0], counts, picks, self.word_bits)
        return FixedValues(as_buffer(values), self.word_bits)

    def direct(self) -> DirectValues:
        return DirectValues(self.name, self.word_bits)

    def level_coding(self) -> LevelCoding | None:
        return LevelCoding("inline") if self.word_bits == 16 else None


@dataclass(frozen=True, slots=True)
class OutOfLineBitpacking(Encoding):
    """Blocks whose bit width is in the description."""

    name = "out_of_line_bitpacking"
    word_bits: int
    packed_bits: int

    @classmethod
    def parse(cls, message: proto.OutOfLineBitpacking, parse_inner: ParseInner) -> OutOfLineBitpacking:
        """Make the encoding from its description."""
        if message.values.WhichOneof("compression") != "flat":
            raise CorruptData("out-of-line bit packing over something that is not flat")
        word_bits = _word_bits(message.uncompressed_bits_per_value)
        packed_bits = message.values.flat.bits_per_value
        if packed_bits >= word_bits:
            raise CorruptData(f"values of {word_bits} bits packed in {packed_bits}")
        return cls(word_bits, packed_bits)

    @staticmethod
    def describe(message: proto.OutOfLineBitpacking, describe_inner: DescribeInner) -> str:
        return (
            f"out-of-line bitpacking({message.uncompressed_bits_per_value}, {describe_inner(message.values)})"
        )

    def decode_blocks(self, blocks: Stream, counts: Counts) -> FixedValues:
        values = kernels.unpack_out_of_line(blocks, counts, self.word_bits, self.packed_bits)
        return FixedValues(as_buffer(values), self.word_bits)

    def level_coding(self) -> LevelCoding | None:
        return LevelCoding("packed", self.packed_bits) if self.word_bits == 16 else None


def _word_bits(bits: int) -> int:
    if bits not in _WORDS:
        raise CorruptData(f"bit packing of values of {bits} bits")
    return bits


def inline_bitpacking_message(word_bits: int) -> proto.CompressiveEncoding:
    """Return the description of groups that begin with their bit width."""
    message = proto.InlineBitpacking(uncompressed_bits_per_value=word_bits)
    return proto.CompressiveEncoding(inline_bitpacking=message)


def out_of_line_bitpacking_message(word_bits: int, packed_bits: int) -> proto.CompressiveEncoding:
    """Return the description of groups whose bit width is in the description."""
    message = proto.OutOfLineBitpacking(
        uncompressed_bits_per_value=word_bits, values=flat_message(packed_bits)
    )
    return proto.CompressiveEncoding(out_of_line_bitpacking=message)


def chunk_packed(data: pa.Buffer, bits: int, num_values: int) -> Chunks:
    """Pack words into mini-block chunks of one group each."""
    counts = Counts(even_counts(num_values, _GROUP).data)
    return Chunks([kernels.pack_inline(data, bits)], counts, inline_bitpacking_message(bits))
