"""Flat: plain values of `bits_per_value` bits each.

    int16 [1, 2]          01 00 02 00
    bool [true, false]    01                 a bitmap, LSB first, that begins at a byte in every chunk

In a full-zip entry a bool takes a whole byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.chunks import (
    MAX_CHUNK_VALUES,
    Chunks,
    even_counts,
    even_stream,
    flat_chunk_values,
    flat_chunks,
)
from lance_core.encodings.v2_1.encoding import (
    DescribeInner,
    DirectValues,
    Encoding,
    ParseInner,
    describe_compression,
)
from lance_core.encodings.v2_1.level_coding import LevelCoding
from lance_core.encodings.values import FixedValues, as_buffer
from lance_core.kernels import CorruptData, Counts, Stream
from lance_core.proto import encodings_v2_1_pb2 as proto


@dataclass(frozen=True, slots=True)
class Flat(Encoding):
    """Uncompressed values of one width."""

    name = "flat"
    is_list_item = True
    bits_per_value: int

    @classmethod
    def parse(cls, message: proto.Flat, parse_inner: ParseInner) -> Flat:
        """Make the encoding from its description. Compressed flat buffers do not exist in 2.1 and 2.2."""
        bits = message.bits_per_value
        if message.HasField("data"):
            raise CorruptData("a flat encoding with a compressed buffer")
        if bits != 1 and (bits == 0 or bits % 8 != 0 or bits > 1 << 32):
            raise CorruptData(f"flat values of {bits} bits")
        return cls(bits)

    @staticmethod
    def describe(message: proto.Flat, describe_inner: DescribeInner) -> str:
        compressed = f", {describe_compression(message.data)}" if message.HasField("data") else ""
        return f"flat({message.bits_per_value}{compressed})"

    @property
    def flat_bits(self) -> int:
        return self.bits_per_value

    def direct(self) -> DirectValues:
        return DirectValues(self.name, self.bits_per_value)

    def level_coding(self) -> LevelCoding | None:
        return LevelCoding("flat") if self.bits_per_value == 16 else None

    def decode_chunks(self, buffers: Sequence[Stream], counts: Counts) -> FixedValues:
        return self.decode_blocks(buffers[0], counts)

    def decode_blocks(self, blocks: Stream, counts: Counts) -> FixedValues:
        if self.bits_per_value == 1:
            return FixedValues(as_buffer(kernels.join_bits(blocks, counts)), 1)
        width = self.bits_per_value // 8
        return FixedValues(as_buffer(kernels.join_fixed(blocks, counts, width)), self.bits_per_value)

    def pick_chunks(self, buffers: Sequence[Stream], counts: Counts, picks: pa.Buffer) -> FixedValues:
        if self.bits_per_value == 1:
            return FixedValues(as_buffer(kernels.pick_bits(buffers[0], counts, picks)), 1)
        values = kernels.pick_fixed(buffers[0], counts, picks, self.bits_per_value // 8)
        return FixedValues(as_buffer(values), self.bits_per_value)

    @property
    def has_plain_rows(self) -> bool:
        return self.bits_per_value % 8 == 0

    @property
    def row_bytes(self) -> int:
        return (self.bits_per_value + 7) // 8

    def decode_rows(self, rows: pa.Buffer, num_rows: int) -> FixedValues:
        return FixedValues(rows, self.row_bytes * 8)

    def row_widths(self, num_values: int) -> list[int]:
        return [(num_values * self.bits_per_value + 7) // 8]

    def decode_row_parts(self, parts: Sequence[pa.Buffer], num_rows: int, num_values: int) -> FixedValues:
        if self.bits_per_value == 1:
            return FixedValues(as_buffer(kernels.join_row_bits(parts[0], num_rows, num_values)), 1)
        return FixedValues(parts[0], self.bits_per_value)


def flat_message(bits: int) -> proto.CompressiveEncoding:
    """Return the description of values of `bits` bits each."""
    return proto.CompressiveEncoding(flat=proto.Flat(bits_per_value=bits))


def chunk_flat(data: pa.Buffer, bits: int, num_values: int) -> Chunks:
    """Divide values of `bits` bits (8 or more) into mini-block chunks, without a copy."""
    counts = even_counts(num_values, flat_chunk_values(bits))
    return Chunks([flat_chunks(data, bits // 8, counts)], Counts(counts.data), flat_message(bits))


def chunk_bits(bits: pa.Buffer, offset: int, num_values: int) -> Chunks:
    """Divide a bitmap, from bit `offset` on, into mini-block chunks."""
    counts = even_counts(num_values, MAX_CHUNK_VALUES)
    if offset % 8:
        bits, offset = as_buffer(kernels.cut_bits(bits, offset, Counts(np.array([num_values]).data))), 0
    stream = even_stream(bits.slice(offset // 8), (counts + 7) // 8)
    return Chunks([stream], Counts(counts.data), flat_message(1))
