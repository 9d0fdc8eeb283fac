"""Fixed-size binary: strings or binaries that all have the same length, so that no ends are stored."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lance_core.encodings.v2_0.encoding import Decoded, Encoding
from lance_core.encodings.v2_0.flat import Flat
from lance_core.encodings.v2_0.range_requests import Steps
from lance_core.encodings.values import FixedValues, VariableValues
from lance_core.kernels import CorruptData, OffsetOverflow

_MAX_32_BIT_OFFSET = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class FixedSizeBinary(Encoding):
    """Values of `byte_width` bytes. The column has a fixed-size type, or a type with offsets."""

    name = "fixed_size_binary"
    bytes: Flat
    byte_width: int
    num_values: int
    offset_bits: int
    """Bits of an offset of the Arrow type; 0 if the type has no offsets."""

    @classmethod
    def parse(cls, data: Encoding, byte_width: int, num_values: int, offset_bits: int) -> "FixedSizeBinary":
        """Make the encoding. The bytes have to be flat, with 8 or `8 * byte_width` bits per stored value."""
        if not isinstance(data, Flat) or data.bits not in (8, 8 * byte_width):
            raise CorruptData(f"values of {byte_width} bytes over something that is no flat bytes")
        if not data.scheme and data.buffer.size < byte_width * num_values:
            raise CorruptData(f"{data.buffer.size} bytes for {num_values} values of {byte_width}")
        return cls(replace(data, bits=8), byte_width, num_values, offset_bits)

    def read(self, start: int, end: int) -> Steps[Decoded]:
        width = self.byte_width
        decoded = yield from self.bytes.read(start * width, end * width)
        data = decoded.numbers("bytes of values").data
        if not self.offset_bits:
            return Decoded(FixedValues(data, width * 8))
        if self.offset_bits == 32 and (end - start) * width > _MAX_32_BIT_OFFSET:
            raise OffsetOverflow("more bytes than 32-bit offsets can address")
        if data.size < (end - start) * width:
            raise CorruptData(f"{data.size} bytes for {end - start} values of {width}")
        offsets = np.arange(end - start + 1, dtype=f"<i{self.offset_bits // 8}") * width
        return Decoded(VariableValues(pa.py_buffer(offsets), data, self.offset_bits))

    @property
    def decoded_bytes(self) -> int:
        return self.num_values * (self.byte_width + self.offset_bits // 8)
