"""Flat: plain values of `bits_per_value` bits each. Values of one bit are a bitmap.

    int16 [1, 2]          01 00 02 00
    bool [true, false]    01

Uncompressed values become the buffer of an Arrow array without a copy. A compressed buffer is one block for
the whole page.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.picking import Int64s, Picking
from lance_core.encodings.v2_0.decompressed_buffer import Inflated
from lance_core.encodings.v2_0.encoding import Decoded, Encoding, PageBuffer, PageBuffers
from lance_core.encodings.v2_0.range_requests import Steps
from lance_core.encodings.values import FixedValues, as_buffer, slice_bits
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData, Counts, Stream
from lance_core.proto import encodings_v2_0_pb2 as proto

_SCHEMES = ("zstd", "lz4")
"""Names of the compression schemes, as the kernels spell them."""
_MAX_BITS = 1 << 34
_ALIGNMENT = 8
_COMPRESSED_FACTOR = 4
"""Guess of the ratio between a decompressed and a compressed buffer."""


@dataclass(frozen=True, slots=True)
class Flat(Encoding):
    """Values of one width."""

    name = "flat"
    bits: int
    buffer: PageBuffer
    scheme: str
    _inflated: Inflated = field(default_factory=Inflated, init=False, compare=False, repr=False)

    @classmethod
    def parse(cls, message: proto.Flat, buffers: PageBuffers, num_values: int) -> "Flat":
        """Make the encoding from its description. The buffer may hold more than `num_values` values."""
        bits = message.bits_per_value
        scheme = scheme_of(message)
        buffer = buffers.find(message.buffer)
        if not scheme and buffer.size * 8 < num_values * bits:
            raise CorruptData(f"a buffer of {buffer.size} bytes for {num_values} values of {bits} bits")
        return cls(bits, buffer, scheme)

    def read(self, start: int, end: int) -> Steps[Decoded]:
        if self.scheme:
            values = yield from self.read_all()
            if values.data.size * 8 < end * self.bits:
                raise CorruptData(f"{values.data.size} bytes for {end} values of {self.bits} bits or more")
            return Decoded(values.slice(start, end - start))
        first, last = start * self.bits // 8, (end * self.bits + 7) // 8
        (data,) = yield [self.buffer.part(first, last - first)]
        if self.bits == 1:
            return Decoded(FixedValues(slice_bits(data, start % 8, end - start), 1))
        return Decoded(FixedValues(_aligned(data, self.bits // 8), self.bits))

    @property
    def can_pick(self) -> bool:
        return not self.scheme

    def pick(self, values: Int64s) -> Picking[Decoded]:
        if self.bits == 1:
            (data,) = yield [((self.buffer.offset + values // 8).data, np.ones(len(values), np.int64).data)]
            bits = (np.frombuffer(data, np.uint8) >> (values % 8).astype(np.uint8)) & 1
            return Decoded(FixedValues(pa.py_buffer(np.packbits(bits, bitorder="little")), 1))
        width = self.bits // 8
        (data,) = yield [((self.buffer.offset + values * width).data, np.full(len(values), width).data)]
        return Decoded(FixedValues(data, self.bits))

    def widened(self, dimension: int) -> "Flat | None":
        return replace(self, bits=self.bits * dimension) if self.can_pick and self.bits > 1 else None

    def read_all(self) -> Steps[FixedValues]:
        """Return all values of the buffer, decompressed."""
        inflated = self._inflated.get()
        if inflated is None:
            (data,) = yield [self.buffer.part(0, self.buffer.size)]
            if not self.scheme:
                return FixedValues(data, self.bits)
            inflated = self._inflated.make(lambda: self._inflate(data))
        return FixedValues(pa.py_buffer(inflated), self.bits)

    def _inflate(self, data: pa.Buffer) -> pa.Buffer:
        offsets = np.array([0, data.size], np.int64)
        return as_buffer(kernels.inflate_values(offsets.data, data, 1, 64, self.scheme)[1])

    @property
    def decoded_bytes(self) -> int:
        return self.buffer.size * (_COMPRESSED_FACTOR if self.scheme else 1)


def scheme_of(message: proto.Flat) -> str:
    """Return the compression scheme of values; "" if they are not compressed.

    Raises:
        CorruptData: values of a width that flat values do not have.
        UnsupportedFeatureError: a scheme that is not supported.
    """
    bits = message.bits_per_value
    if bits != 1 and (bits == 0 or bits % 8 != 0 or bits > _MAX_BITS):
        raise CorruptData(f"flat values of {bits} bits")
    scheme: str = message.compression.scheme
    scheme = "" if scheme == "none" else scheme
    if scheme and (scheme not in _SCHEMES or bits == 1):
        raise UnsupportedFeatureError(f"values of {bits} bits compressed with {scheme!r}")
    return scheme


def _aligned(data: pa.Buffer, width: int) -> pa.Buffer:
    """Return the bytes at an aligned address, copied if necessary. Some readers of Arrow require alignment.

    Data is unaligned only if its range was read together with other ranges.
    """
    if width == 1 or data.address % _ALIGNMENT == 0 or data.size == 0:
        return data
    size = data.size.to_bytes(8, "little")
    return as_buffer(kernels.join_fixed(Stream(data, bytes(8), size), Counts(size), 1))
