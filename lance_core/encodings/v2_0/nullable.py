"""Nullability: which values are null. Pages of one column may differ in it.

no_nulls      values only
some_nulls    a bitmap, set for valid values, and values; those of nulls are undefined
all_nulls     nothing is stored
"""

from dataclasses import dataclass

from lance_core.encodings.picking import Int64s, Picking
from lance_core.encodings.v2_0.encoding import Decoded, Encoding, both_valid
from lance_core.encodings.v2_0.range_requests import Steps, nothing, together
from lance_core.encodings.values import NoValues
from lance_core.kernels import CorruptData


@dataclass(frozen=True, slots=True)
class SomeNulls(Encoding):
    """Values and a validity bitmap. A value that is null in its own encoding stays null."""

    name = "some nulls"
    validity: Encoding
    values: Encoding

    def read(self, start: int, end: int) -> Steps[Decoded]:
        validity, decoded = yield from together(
            [self.validity.read(start, end), self.values.read(start, end)]
        )
        bitmap = validity.numbers("validity bits")
        if bitmap.bits != 1:
            raise CorruptData(f"validity in values of {bitmap.bits} bits")
        return Decoded(decoded.values, both_valid(bitmap.data, decoded.validity, end - start))

    @property
    def can_pick(self) -> bool:
        return self.validity.can_pick and self.values.can_pick

    def pick(self, values: Int64s) -> Picking[Decoded]:
        validity = yield from self.validity.pick(values)
        decoded = yield from self.values.pick(values)
        bitmap = validity.numbers("validity bits")
        if bitmap.bits != 1:
            raise CorruptData(f"validity in values of {bitmap.bits} bits")
        return Decoded(decoded.values, both_valid(bitmap.data, decoded.validity, len(values)))

    @property
    def decoded_bytes(self) -> int:
        return self.validity.decoded_bytes + self.values.decoded_bytes


@dataclass(frozen=True, slots=True)
class AllNulls(Encoding):
    """A page of nulls only."""

    name = "all nulls"
    num_values: int
    value_bits: int

    def read(self, start: int, end: int) -> Steps[Decoded]:
        return nothing(Decoded(NoValues()))

    @property
    def decoded_bytes(self) -> int:
        return self.num_values * self.value_bits // 8
