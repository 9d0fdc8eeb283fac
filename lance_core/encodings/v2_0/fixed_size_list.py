"""Fixed-size lists: the items of all lists, one list after the other.

fsl<int32, 2> [[1, null], [3, 4]]     items 1 _ 3 4 with the bitmap 0d
"""

from dataclasses import dataclass

from lance_core.encodings.picking import Int64s, Picking
from lance_core.encodings.v2_0.encoding import Decoded, Encoding
from lance_core.encodings.v2_0.range_requests import Steps
from lance_core.encodings.values import FixedValues, ListValues


@dataclass(frozen=True, slots=True)
class FixedSizeList(Encoding):
    """`dimension` items per value. The enclosing encoding has the validity of the lists."""

    name = "fixed_size_list"
    dimension: int
    items: Encoding

    def read(self, start: int, end: int) -> Steps[Decoded]:
        items = yield from self.items.read(start * self.dimension, end * self.dimension)
        return Decoded(ListValues(items.values, self.dimension, items.validity))

    @property
    def can_pick(self) -> bool:
        return self.items.widened(self.dimension) is not None

    def pick(self, values: Int64s) -> Picking[Decoded]:
        lists = self.items.widened(self.dimension)
        assert lists is not None
        picked = yield from lists.pick(values)
        wide = picked.numbers("lists")
        items = FixedValues(wide.data, wide.bits // self.dimension)
        return Decoded(ListValues(items, self.dimension, None))

    @property
    def decoded_bytes(self) -> int:
        return self.items.decoded_bytes
