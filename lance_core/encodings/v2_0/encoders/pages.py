"""Pages that are being encoded: a description, and the buffers that it refers to by number."""

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
        """Add a buffer, and return the reference to it for descriptions."""
        self.buffers.append(data)
        return proto.Buffer(buffer_index=len(self.buffers) - 1)


@dataclass(frozen=True)
class EncodedPage:
    """One page of one column."""

    num_items: int
    encoding: proto.ArrayEncoding
    buffers: tuple[Bytes, ...] = ()
    values: pa.Array | None = None
    """The values of the page, one per row. None for pages of list items, and for pages without values of the
    column.
    """


def flat(page: PageBuffers, data: Bytes, bits: int) -> proto.ArrayEncoding:
    """Add plain values of `bits` bits to the page, and return their description."""
    return proto.ArrayEncoding(flat=proto.Flat(bits_per_value=bits, buffer=page.add(data)))


def no_nulls(values: proto.ArrayEncoding) -> proto.ArrayEncoding:
    """Return the description of values without nulls."""
    return proto.ArrayEncoding(nullable=proto.Nullable(no_nulls=proto.Nullable.NoNull(values=values)))


def all_nulls() -> proto.ArrayEncoding:
    """Return the description of nulls only, which need no buffer."""
    return proto.ArrayEncoding(nullable=proto.Nullable(all_nulls=proto.Nullable.AllNull()))


def some_nulls(validity: proto.ArrayEncoding, values: proto.ArrayEncoding) -> proto.ArrayEncoding:
    """Return the description of values with a validity bitmap."""
    nullable = proto.Nullable.SomeNull(validity=validity, values=values)
    return proto.ArrayEncoding(nullable=proto.Nullable(some_nulls=nullable))


def bits_of(bitmap: pa.Buffer, start: int, num_bits: int) -> Bytes:
    """Return a copy of the bits `[start, start + num_bits)`, beginning at bit 0 and padded with zeros to a
    byte.
    """
    return kernels.copy_bits(bitmap, start, num_bits)
