"""Dictionary pages: mini-block pages whose values are indices into items that are stored once per page.

The items are a block of their own. In a plain column, the values are looked up; in an Arrow dictionary
column, the indices are kept. Every index must name an item, even the index of a null. Source: docs/format.md,
"Dictionary pages".
"""

import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.encoding import Encoding, one_block, one_count
from lance_core.encodings.values import (
    DictionaryValues,
    FixedValues,
    Values,
)
from lance_core.kernels import CorruptData

_MAX_ITEMS_PER_BYTE = 4096
"""Bound on the items per byte of their block. No encoding of distinct items holds more, so a larger count is
refused before memory is allocated for it.
"""


def decode_dictionary(
    encoding: Encoding, block: pa.Buffer, num_items: int, arrow_type: pa.DataType
) -> Values:
    """Return the items of a dictionary. A dictionary column gets one array that all its values share."""
    if num_items > _MAX_ITEMS_PER_BYTE * (block.size + 1):
        raise CorruptData(f"a dictionary of {num_items} items in {block.size} bytes")
    items = encoding.decode_blocks(one_block(block), one_count(num_items))
    if pa.types.is_dictionary(arrow_type):
        return _Shared(items.to_arrow(num_items, arrow_type.value_type, None), arrow_type.index_type)
    return items


def look_up(indices: Values, num_values: int, dictionary: Values, num_items: int) -> Values:
    """Return the values at the indices. A dictionary column gets the indices over the shared items."""
    if not isinstance(indices, FixedValues):
        raise CorruptData("dictionary indices that are no numbers")
    return dictionary.look_up(indices, num_values, num_items)


class _Shared:
    """The items of a dictionary column."""

    def __init__(self, array: pa.Array, index_type: pa.DataType) -> None:
        self.array = array
        self._index_type = index_type

    def slice(self, start: int, num_values: int) -> "_Shared":
        return _Shared(self.array.slice(start, num_values), self._index_type)

    def pick(self, picks: pa.Buffer, num_values: int) -> "_Shared":
        numbers = pa.Array.from_buffers(pa.int64(), picks.size // 8, [None, picks])
        return _Shared(self.array.take(numbers), self._index_type)

    def to_arrow(self, num_values: int, arrow_type: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
        return self.array

    @property
    def num_bytes(self) -> int:
        return 0

    def look_up(self, indices: FixedValues, num_indices: int, num_values: int) -> DictionaryValues:
        if indices.bits != self._index_type.bit_width:
            raise CorruptData(f"indices of {indices.bits} bits where the column has {self._index_type}")
        # Arrow reads the indices as numbers of the index type. If this type is signed, large indices are
        # negative.
        signed = pa.types.is_signed_integer(self._index_type)
        reachable = min(num_values, 1 << (indices.bits - signed))
        kernels.check_indices(indices.data, num_indices, indices.bits, reachable)
        return DictionaryValues(indices, self.array)
