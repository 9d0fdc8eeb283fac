"""Pages in the making: a description and the buffers it names by their numbers."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from lance_core import kernels
from lance_core.proto import encodings_v2_0_pb2 as proto
from lance_core.storage.base import Bytes

Placement = Callable[[Bytes], int]
"""Writes bytes to the file outside the pages and returns their position."""


@dataclass
class PageBuffers:
    """The buffers of one page, in the order of their numbers."""

    buffers: list[Bytes] = field(default_factory=list)

    def add(self, data: Bytes) -> proto.Buffer:
        """Keep a buffer, and how descriptions refer to it."""
        self.buffers.append(data)
        return proto.Buffer(buffer_index=len(self.buffers) - 1)


@dataclass(frozen=True)
class EncodedPage:
    """One page of one column."""

    num_items: int
    encoding: proto.ArrayEncoding
    buffers: tuple[Bytes, ...] = ()
    values: pa.Array | None = None
    """The values in it, one per row; None where they are not those of rows, or no values of the column."""


def flat(page: PageBuffers, data: Bytes, bits: int) -> proto.ArrayEncoding:
    """Values of `bits` bits as they are."""
    return proto.ArrayEncoding(flat=proto.Flat(bits_per_value=bits, buffer=page.add(data)))


def no_nulls(values: proto.ArrayEncoding) -> proto.ArrayEncoding:
    """Values that are all there."""
    return proto.ArrayEncoding(nullable=proto.Nullable(no_nulls=proto.Nullable.NoNull(values=values)))


def all_nulls() -> proto.ArrayEncoding:
    """Nothing but nulls, which need no buffer."""
    return proto.ArrayEncoding(nullable=proto.Nullable(all_nulls=proto.Nullable.AllNull()))


def some_nulls(validity: proto.ArrayEncoding, values: proto.ArrayEncoding) -> proto.ArrayEncoding:
    """Values of which a bitmap tells those that are there."""
    nullable = proto.Nullable.SomeNull(validity=validity, values=values)
    return proto.ArrayEncoding(nullable=proto.Nullable(some_nulls=nullable))


def bits_of(bitmap: pa.Buffer, start: int, num_bits: int) -> Bytes:
    """Return the bits `[start, start + num_bits)` from the first bit of a byte on, with zeros behind the
    last.
    """
    return kernels.copy_bits(bitmap, start, num_bits)
