"""Strings and binaries: the end of each value, and the bytes of all values.

    [null, "foo", "", null, "bar", null]     bytes "foobar", ends 7 3 3 10 6 13

The adjustment 7 is added to the end of a null. Source: docs/format.md, "2.0".
"""

from dataclasses import dataclass

from lance_core.encodings.picking import Int64s, Picking
from lance_core.encodings.v2_0.encoding import Decoded, Encoding
from lance_core.encodings.v2_0.end_offsets import Ends
from lance_core.encodings.v2_0.flat import Flat
from lance_core.encodings.v2_0.range_requests import Steps, together
from lance_core.encodings.values import VariableValues
from lance_core.kernels import CorruptData


@dataclass(frozen=True, slots=True)
class Binary(Encoding):
    """Values of any length."""

    name = "binary"
    ends: Ends
    bytes: Flat
    num_values: int

    @classmethod
    def parse(cls, ends: Ends, data: Encoding, num_values: int) -> "Binary":
        """Make the encoding of values with these ends. `data` is the encoding of the bytes."""
        if not isinstance(data, Flat) or data.bits != 8:
            raise CorruptData("strings over something that is no flat bytes")
        return cls(ends, data, num_values)

    def read(self, start: int, end: int) -> Steps[Decoded]:
        if self.bytes.scheme or end - start == self.num_values:
            # Either all bytes are needed, or they are compressed as a whole. So they are requested together
            # with the ends.
            numbers, data = yield from together([self.ends.read(start, end), self._all_bytes()])
            values = data.numbers("bytes of strings").data
            extents = self.ends.split(numbers, start, end, values.size)
            values = values.slice(extents.begin, extents.end - extents.begin)
        else:
            numbers = yield from self.ends.read(start, end)
            extents = self.ends.split(numbers, start, end, self.bytes.buffer.size)
            (values,) = yield [self.bytes.buffer.part(extents.begin, extents.end - extents.begin)]
        return Decoded(VariableValues(extents.offsets, values, self.ends.offset_bits), extents.validity)

    @property
    def can_pick(self) -> bool:
        return self.ends.numbers.can_pick and not self.bytes.scheme

    def pick(self, values: Int64s) -> Picking[Decoded]:
        buffer = self.bytes.buffer
        extents = yield from self.ends.pick(values, buffer.size)
        (data,) = yield [((buffer.offset + extents.begins).data, (extents.ends - extents.begins).data)]
        return Decoded(VariableValues(extents.offsets, data, self.ends.offset_bits), extents.validity)

    def _all_bytes(self) -> Steps[Decoded]:
        values = yield from self.bytes.read_all()
        return Decoded(values)

    @property
    def decoded_bytes(self) -> int:
        return self.num_values * self.ends.offset_bits // 8 + self.bytes.decoded_bytes
