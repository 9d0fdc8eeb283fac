"""Base class of the compressive encodings of 2.1 and 2.2 pages.

An encoding has different bytes in each of three places: in the chunks of a mini-block page, as a block of its
own (levels, dictionary items), and as the value of a full-zip entry. Each class implements the places where
the format allows the encoding. For the other places the methods of this base class refuse the encoding.
Source: docs/format.md, "Encodings".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from lance_core.encodings.v2_1.level_coding import LevelCoding
from lance_core.encodings.values import Values, VariableValues
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData, Counts, Stream, SymbolTable
from lance_core.proto import encodings_v2_1_pb2 as proto

MAX_VALUES = 1 << 48
"""Limit on counts from a file. Larger counts are wrong, and would overflow the arithmetic on sizes."""


class DirectValues(NamedTuple):
    """Description of an encoding of values for the kernels that read and decode whole mini-block pages."""

    name: str
    """Name of the encoding in the kernels."""
    bits: int
    """Bits of a value, or of an offset if `has_offsets`."""
    has_offsets: bool = False
    compression: str = "none"
    """Name of the compressor around the values."""
    symbols: SymbolTable | None = None


class Encoding(ABC):
    """One node of the chain of encodings that a page names for its values."""

    name: ClassVar[str]
    """Field of the protobuf message `CompressiveEncoding` that describes the encoding."""
    expansion: ClassVar[int] = 1
    """Guess of the number of decoded bytes per stored byte. Scans use it to choose the size of their windows.
    """
    is_list_item: ClassVar[bool] = False
    """Whether the values may be the items of fixed-size lists."""

    @classmethod
    @abstractmethod
    def parse(cls, message: Any, parse_inner: ParseInner) -> Encoding:
        """Make the encoding from its description. `parse_inner` parses the descriptions inside it.

        Raises:
            CorruptData: the description contradicts itself.
            UnsupportedFeatureError: no release writes such a description.
        """

    @staticmethod
    @abstractmethod
    def describe(message: Any, describe_inner: DescribeInner) -> str:
        """Describe the encoding in words. `describe_inner` describes the encodings inside it."""

    @property
    def num_buffers(self) -> int:
        """Number of value buffers per mini-block chunk."""
        return 1

    def decode_chunks(self, buffers: Sequence[Stream], counts: Counts) -> Values:
        """Decode consecutive mini-block chunks. There is one stream per value buffer."""
        raise self._not_here("mini-block chunks")

    def pick_chunks(self, buffers: Sequence[Stream], counts: Counts, picks: pa.Buffer) -> Values:
        """Decode the values whose numbers are in `picks` (int64, ascending), counted over all chunks."""
        return self.decode_chunks(buffers, counts).pick(picks, counts.total)

    def direct(self) -> DirectValues | None:
        """Return how the kernels decode mini-block chunks of these values; None if they cannot."""
        return None

    @property
    def flat_bits(self) -> int:
        """Bits of a value, if values are stored as they are; else 0."""
        return 0

    @property
    def plain_offset_bits(self) -> int:
        """Bits of an offset, if values are stored as offsets and plain bytes; else 0."""
        return 0

    def decode_blocks(self, blocks: Stream, counts: Counts) -> Values:
        """Decode independent blocks with `counts` values each."""
        raise self._not_here("a block")

    def level_coding(self) -> LevelCoding | None:
        """Return how the kernels decode levels (u16) in this encoding; None if levels never use it."""
        return None

    @property
    def has_plain_rows(self) -> bool:
        """Whether the bytes of full-zip rows are the values as Arrow has them."""
        return False

    @property
    def row_bytes(self) -> int:
        """Width of the value of a fixed-width full-zip entry, in bytes."""
        raise self._not_here("fixed-width full-zip entries")

    def decode_rows(self, rows: pa.Buffer, num_rows: int) -> Values:
        """Decode the values of fixed-width full-zip entries, `row_bytes` each."""
        raise self._not_here("fixed-width full-zip entries")

    def decode_payloads(self, payloads: VariableValues, num_values: int) -> Values:
        """Decode the values of variable-width full-zip entries. The payload of a null entry is empty."""
        raise self._not_here("variable-width full-zip entries")

    @property
    def items_per_value(self) -> int:
        """Number of innermost items per value; 1 unless values are lists."""
        return 1

    def row_widths(self, num_values: int) -> list[int]:
        """Return the bytes of each part of a full-zip row with `num_values` of these values.

        The parts are the bitmaps of the items, outermost first, and then the items.
        """
        raise self._not_here("items of fixed-width full-zip entries")

    def decode_row_parts(self, parts: Sequence[pa.Buffer], num_rows: int, num_values: int) -> Values:
        """Decode the parts of `num_rows` full-zip rows. `row_widths(num_values)` returns the widths of the
        parts.
        """
        raise self._not_here("items of fixed-width full-zip entries")

    def _not_here(self, place: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(f"encoding {self.name!r} in {place}")


ParseInner = Callable[[proto.CompressiveEncoding], Encoding]
DescribeInner = Callable[[proto.CompressiveEncoding], str]


def describe_compression(compression: proto.BufferCompression) -> str:
    """Return the name of a compressor, and its level if the description has one."""
    known = proto.CompressionScheme.DESCRIPTOR.values_by_number.get(compression.scheme)
    name = (
        known.name.removeprefix("COMPRESSION_ALGORITHM_").lower()
        if known
        else f"unknown scheme {compression.scheme}"
    )
    return f"{name} {compression.level}" if compression.HasField("level") else name


def one_block(block: pa.Buffer) -> Stream:
    """Return a stream of one block."""
    return Stream(block, _int64(0), _int64(block.size))


def one_count(num_values: int) -> Counts:
    """Return the counts of a stream of one block with `num_values` values."""
    if num_values > MAX_VALUES:
        raise CorruptData(f"{num_values} values in one block")
    return Counts(_int64(num_values))


def _int64(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)
