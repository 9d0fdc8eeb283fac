"""List pages: the end of each list among the items of the page. The items have a column of their own.

    [[1, 2], null, [], [3, 4, 5]]     ends 2 8 2 5; the adjustment 6 is added to the end of a null

Ends count from 0 in every page: the items of a page follow the items of all previous pages.
"""

from dataclasses import dataclass

from lance_core.encodings.picking import Int64s, Picking
from lance_core.encodings.v2_0.encoding import PageBuffers
from lance_core.encodings.v2_0.end_offsets import Ends, Extents, PickedExtents
from lance_core.encodings.v2_0.range_requests import Steps
from lance_core.encodings.v2_0.registry import parse_ends, unknown_name
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
        """Make the lists of a page from its description.

        Raises:
            UnsupportedFeatureError: the page does not hold lists; the message names its encoding.
            CorruptData: the description contradicts itself.
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
        """Return the lists `[start, end)`. Their items are counted from the first item of the page.

        Raises:
            CorruptData: the bytes contradict the description.
            OffsetOverflow: more items than offsets of the Arrow type can address.
        """
        numbers = yield from self.ends.read(start, end)
        return self.ends.split(numbers, start, end, self.num_items)

    @property
    def can_pick(self) -> bool:
        """Whether single lists can be found without reading all ends."""
        return self.ends.numbers.can_pick

    def pick(self, values: Int64s) -> Picking[PickedExtents]:
        """Return the lists with these ascending numbers. Call it only if `can_pick`. Errors are those of
        `read`.
        """
        return self.ends.pick(values, self.num_items)
