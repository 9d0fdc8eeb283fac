"""List pages: where each list ends among the items of the page, which lie in a column of their own.

    [[1, 2], null, [], [3, 4, 5]]     ends 2 8 2 5, where 6 is added for a null

The ends begin anew on every page: the items of a page come after those of all pages before it.
"""

from dataclasses import dataclass

from lance_core.encodings.pieces import Int64s, Picking
from lance_core.encodings.v2_0.encoding import PageBuffers
from lance_core.encodings.v2_0.ends import Ends, Extents, PickedExtents
from lance_core.encodings.v2_0.registry import parse_ends, unknown_name
from lance_core.encodings.v2_0.steps import Steps
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData
from lance_core.proto import encodings_v2_0_pb2 as proto


@dataclass(frozen=True, slots=True)
class ListPage:
    """The lists of one page."""

    ends: Ends
    num_items: int

    @classmethod
    def parse(
        cls, message: proto.ArrayEncoding, buffers: PageBuffers, offset_bits: int, num_rows: int
    ) -> "ListPage":
        """From the page's description.

        Raises:
            UnsupportedFeatureError: something other than lists, by name.
            CorruptData: a description that contradicts itself.
        """
        kind = message.WhichOneof("array_encoding")
        if kind != "list":
            raise UnsupportedFeatureError(f"encoding {kind or unknown_name(message)!r} in a page of lists")
        lists = message.list
        if num_rows and lists.null_offset_adjustment <= lists.num_items:
            raise CorruptData(
                f"{lists.num_items} items, and nulls marked by adding {lists.null_offset_adjustment}"
            )
        ends = parse_ends(lists.offsets, lists.null_offset_adjustment, offset_bits, buffers, num_rows)
        return cls(ends, lists.num_items)

    def read(self, start: int, end: int) -> Steps[Extents]:
        """Return the lists `[start, end)`; the items they cover are counted from the first of the page.

        Raises:
            CorruptData: the bytes contradict the description.
            OffsetOverflow: more items than offsets of the Arrow type can address.
        """
        numbers = yield from self.ends.read(start, end)
        return self.ends.split(numbers, start, end, self.num_items)

    @property
    def can_pick(self) -> bool:
        """Whether single lists are found without the others."""
        return self.ends.numbers.can_pick

    def pick(self, values: Int64s) -> Picking[PickedExtents]:
        """Return the lists of ascending numbers; only where `can_pick`. Errors are those of `read`."""
        return self.ends.pick(values, self.num_items)
