"""Run length: the value of each run, and the length of the run in one byte.

    int32 [5 x 300, 6 x 2]     values 5 5 6 (i32 each)     lengths ff 2d 02

A mini-block chunk has values and lengths in two buffers. A block is `u64 size of the values | values |
lengths`. Source: docs/format.md, "Run length".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.chunks import MAX_CHUNK_VALUES, Chunks
from lance_core.encodings.v2_1.encoding import DescribeInner, DirectValues, Encoding, ParseInner
from lance_core.encodings.v2_1.flat import flat_message
from lance_core.encodings.v2_1.level_coding import LevelCoding
from lance_core.encodings.values import FixedValues, as_buffer
from lance_core.kernels import CorruptData, Counts, Stream
from lance_core.proto import encodings_v2_1_pb2 as proto


@dataclass(frozen=True, slots=True)
class Rle(Encoding):
    """Runs of fixed-width values."""

    name = "rle"
    bits_per_value: int

    @classmethod
    def parse(cls, message: proto.Rle, parse_inner: ParseInner) -> Rle:
        """Make the encoding from its description. Run values and run lengths are flat in 2.1 and 2.2."""
        bits = parse_inner(message.values).flat_bits
        if bits not in (8, 16, 32, 64):
            raise CorruptData("run-length encoding of values that are not flat words")
        if parse_inner(message.run_lengths).flat_bits != 8:
            raise CorruptData("run lengths that are not single bytes")
        return cls(bits)

    @staticmethod
    def describe(message: proto.Rle, describe_inner: DescribeInner) -> str:
        return f"rle({describe_inner(message.values)}, lengths {describe_inner(message.run_lengths)})"

    @property
    def num_buffers(self) -> int:
        return 2

    def decode_chunks(self, buffers: Sequence[Stream], counts: Counts) -> FixedValues:
        values, lengths = buffers
        return FixedValues(
            as_buffer(kernels.expand_runs(values, lengths, counts, self.bits_per_value)), self.bits_per_value
        )

    def direct(self) -> DirectValues:
        return DirectValues(self.name, self.bits_per_value)

    def level_coding(self) -> LevelCoding | None:
        return LevelCoding("runs") if self.bits_per_value == 16 else None

    def decode_blocks(self, blocks: Stream, counts: Counts) -> FixedValues:
        return self.decode_chunks(kernels.split_runs(blocks, counts), counts)


_RUN_CHUNK_BYTES = 16 << 10
"""Largest number of bytes of run values in a chunk. It keeps a chunk well below the limit of 2.1."""


def rle_message(word_bits: int) -> proto.CompressiveEncoding:
    """Return the description of runs of words, with run lengths of one byte."""
    message = proto.Rle(values=flat_message(word_bits), run_lengths=flat_message(8))
    return proto.CompressiveEncoding(rle=message)


def chunk_runs(data: pa.Buffer, bits: int) -> Chunks:
    """Encode words as runs, in mini-block chunks. No run continues in the next chunk."""
    counts, values, lengths = kernels.encode_runs(data, bits, MAX_CHUNK_VALUES, _RUN_CHUNK_BYTES)
    return Chunks([values, lengths], counts, rle_message(bits))
