"""Base class of the array encodings of 2.0 pages, and the byte ranges of their buffers.

A page is described by a tree of encodings. Each node decodes ranges of its values from the results of the
nodes below it: a bitmap and values, ends and bytes, or indices and items.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.picking import Int64s, Picking
from lance_core.encodings.v2_0.range_requests import ByteRange, Steps
from lance_core.encodings.values import FixedValues, Values
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData
from lance_core.proto import encodings_v2_0_pb2 as proto


@dataclass(frozen=True, slots=True)
class Decoded:
    """Values, and a validity bitmap if some values are null. A bit is set if its value is not null."""

    values: Values
    validity: pa.Buffer | None = None

    def numbers(self, what: str) -> FixedValues:
        """Return the values, which have to be numbers without nulls.

        Raises:
            CorruptData: they are not. The message begins with `what`, their purpose.
        """
        if self.validity is not None or not isinstance(self.values, FixedValues):
            raise CorruptData(f"{what} that are no plain numbers")
        return self.values


class Encoding(ABC):
    """A node of the tree that describes a page."""

    name: ClassVar[str]

    @abstractmethod
    def read(self, start: int, end: int) -> Steps[Decoded]:
        """Decode the values `[start, end)`.

        Raises:
            CorruptData: the bytes contradict the description.
        """

    @property
    def can_pick(self) -> bool:
        """Whether single values can be decoded without reading all values."""
        return False

    def pick(self, values: Int64s) -> Picking[Decoded]:
        """Decode the values with these ascending numbers. Call it only if `can_pick`. Errors are those of
        `read`.
        """
        raise AssertionError(f"encoding {self.name!r} does not decode single values")

    def widened(self, dimension: int) -> "Encoding | None":
        """Return the encoding that decodes `dimension` values as one value; None if single values cannot be
        picked.
        """
        return None

    @property
    def kept_bytes(self) -> int:
        """Bytes of values that this encoding keeps for later reads."""
        return 0

    @property
    @abstractmethod
    def decoded_bytes(self) -> int:
        """Estimated bytes of all values when they are decoded."""


@dataclass(frozen=True, slots=True)
class PageBuffer:
    """A byte range of the file."""

    offset: int
    size: int

    def part(self, start: int, length: int) -> ByteRange:
        """Return the file range of `length` bytes of the buffer, from byte `start` of the buffer on.

        Raises:
            CorruptData: the buffer is shorter.
        """
        if start + length > self.size:
            raise CorruptData(f"bytes [{start}, {start + length}) of a buffer of {self.size}")
        return self.offset + start, length


@dataclass(frozen=True, slots=True)
class PageBuffers:
    """The byte ranges that the encodings of a page can refer to: buffers of the page, the column and the
    file.
    """

    page: Sequence[ByteRange]
    column: Sequence[ByteRange]
    file: Sequence[ByteRange]

    def find(self, buffer: proto.Buffer) -> PageBuffer:
        """Return the buffer that an encoding refers to.

        Raises:
            CorruptData: there is no such buffer.
            UnsupportedFeatureError: an unknown type of buffer.
        """
        places = {
            proto.Buffer.page: self.page,
            proto.Buffer.column: self.column,
            proto.Buffer.file: self.file,
        }
        buffers = places.get(buffer.buffer_type)
        if buffers is None:
            raise UnsupportedFeatureError(f"buffer type {buffer.buffer_type}")
        if buffer.buffer_index >= len(buffers):
            place = proto.Buffer.BufferType.Name(buffer.buffer_type)
            raise CorruptData(f"buffer {buffer.buffer_index} where the {place} has {len(buffers)}")
        return PageBuffer(*buffers[buffer.buffer_index])


def both_valid(one: pa.Buffer | None, other: pa.Buffer | None, num_values: int) -> pa.Buffer | None:
    """Return the bitmap of the values that are valid in both bitmaps. A missing bitmap means that all are
    valid.
    """
    if one is None or other is None:
        return one if other is None else other
    bits = [pa.Array.from_buffers(pa.bool_(), num_values, [None, bitmap]) for bitmap in (one, other)]
    return pc.and_(*bits).buffers()[1]
