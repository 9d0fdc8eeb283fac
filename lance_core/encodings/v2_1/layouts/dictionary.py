"""Dictionary pages: mini-block pages whose values are indices into items that are stored once per page.

The items are a block of their own. In a plain column, the values are looked up; in an Arrow dictionary
column, the indices are kept. Every index must name an item, even the index of a null. Source: docs/format.md,
"Dictionary pages".
"""

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.file_pages import FilePages
from lance_core.encodings.picking import Int64s
from lance_core.encodings.v2_1.encoding import Encoding, one_block, one_count
from lance_core.encodings.values import (
    DictionaryValues,
    FixedValues,
    Values,
)
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData, Counts, Stream

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


def decode_dictionaries(encoding: Encoding, pages: FilePages, arrow_type: pa.DataType) -> Values:
    """Return the items of the dictionaries of several pages, one dictionary behind the other.

    Raises:
        UnsupportedFeatureError: a dictionary column, each of whose arrays has a dictionary of its own.
    """
    if pa.types.is_dictionary(arrow_type):
        raise UnsupportedFeatureError("dictionaries of several pages in one array")
    blocks = pages.buffers(2)
    if (pages.num_dictionary_items > _MAX_ITEMS_PER_BYTE * (blocks[:, 1] + 1)).any():
        raise CorruptData("a dictionary of more items than its bytes can hold")
    counts = np.ascontiguousarray(pages.num_dictionary_items)
    offsets, lengths = blocks.T.copy()
    items = encoding.decode_blocks(Stream(pages.data, offsets.data, lengths.data), Counts(counts.data))
    return _ItemsOfPages(items, counts, pages.num_items)


class _ItemsOfPages:
    """The items of several pages. Each page has indices into its own items."""

    def __init__(self, items: Values, items_per_page: Int64s, values_per_page: Int64s) -> None:
        self._items = items
        self._items_per_page = items_per_page
        self._values_per_page = values_per_page

    def slice(self, start: int, num_values: int) -> Values:
        return self._items.slice(start, num_values)

    def pick(self, picks: pa.Buffer, num_values: int) -> Values:
        return self._items.pick(picks, num_values)

    def to_arrow(self, num_values: int, arrow_type: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
        return self._items.to_arrow(num_values, arrow_type, validity)

    @property
    def num_bytes(self) -> int:
        return self._items.num_bytes

    def look_up(self, indices: FixedValues, num_indices: int, num_values: int) -> Values:
        kernels.check_indices(indices.data, num_indices, indices.bits, num_values)
        numbers = np.frombuffer(indices.data, f"<u{indices.bits // 8}", num_indices)
        if (numbers >= np.repeat(self._items_per_page, self._values_per_page)).any():
            raise CorruptData("an index that names no item of its page")
        firsts = np.cumsum(self._items_per_page) - self._items_per_page
        among_all = numbers.astype(np.int64) + np.repeat(firsts, self._values_per_page)
        return self._items.look_up(FixedValues(pa.py_buffer(among_all), 64), num_indices, num_values)


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
