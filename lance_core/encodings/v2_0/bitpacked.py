"""Bit packing in two forms that releases read but never write into 2.0 files.

bitpacked                one number after the other, LSB first; the sign bit of signed numbers is extended
                         5 bits each [1, 2, 31, 17, 9]: the number 1 + 2*2^5 + 31*2^10 + ..., 4 bytes
bitpacked_for_non_neg    groups of 1024 numbers, transposed as in 2.1 pages; the last group is padded
"""

from dataclasses import dataclass

from lance_core import kernels
from lance_core.encodings.v2_0.encoding import Decoded, Encoding, PageBuffer
from lance_core.encodings.v2_0.range_requests import Steps
from lance_core.encodings.values import FixedValues, as_buffer
from lance_core.kernels import CorruptData, Counts, Stream

_WORDS = (8, 16, 32, 64)
_GROUP = 1024


@dataclass(frozen=True, slots=True)
class Bitpacked(Encoding):
    """A stream of numbers of `bits` bits each."""

    name = "bitpacked"
    bits: int
    word_bits: int
    signed: bool
    buffer: PageBuffer
    num_values: int

    def __post_init__(self) -> None:
        if self.word_bits not in _WORDS or not 0 < self.bits <= self.word_bits:
            raise CorruptData(f"values of {self.word_bits} bits packed in {self.bits}")
        if self.buffer.size * 8 < self.num_values * self.bits:
            raise CorruptData(f"{self.buffer.size} bytes for {self.num_values} values of {self.bits} bits")

    def read(self, start: int, end: int) -> Steps[Decoded]:
        first, last = start * self.bits // 8, (end * self.bits + 7) // 8
        (data,) = yield [self.buffer.part(first, last - first)]
        values = kernels.unpack_bit_stream(
            data, start * self.bits % 8, end - start, self.bits, self.word_bits, self.signed
        )
        return Decoded(FixedValues(as_buffer(values), self.word_bits))

    @property
    def decoded_bytes(self) -> int:
        return self.num_values * self.word_bits // 8


@dataclass(frozen=True, slots=True)
class BitpackedForNonNeg(Encoding):
    """Groups of numbers packed to `bits` bits each, fewer than `word_bits`."""

    name = "bitpacked_for_non_neg"
    bits: int
    word_bits: int
    buffer: PageBuffer
    num_values: int

    def __post_init__(self) -> None:
        if self.word_bits not in _WORDS or not 0 < self.bits < self.word_bits:
            raise CorruptData(f"values of {self.word_bits} bits packed in {self.bits}")
        if self.buffer.size < -(-self.num_values // _GROUP) * self._group_bytes:
            raise CorruptData(
                f"{self.buffer.size} bytes for {self.num_values} values in groups of {self._group_bytes}"
            )

    @property
    def _group_bytes(self) -> int:
        return _GROUP // 8 * self.bits

    def read(self, start: int, end: int) -> Steps[Decoded]:
        first, last = start // _GROUP, -(-end // _GROUP)
        num_bytes = (last - first) * self._group_bytes
        (data,) = yield [self.buffer.part(first * self._group_bytes, num_bytes)]
        num_values = (last - first) * _GROUP
        values = kernels.unpack_out_of_line(
            Stream(data, _int64(0), _int64(num_bytes)), Counts(_int64(num_values)), self.word_bits, self.bits
        )
        unpacked = FixedValues(as_buffer(values), self.word_bits)
        return Decoded(unpacked.slice(start - first * _GROUP, end - start))

    @property
    def decoded_bytes(self) -> int:
        return self.num_values * self.word_bits // 8


def _int64(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)
