"""Plain pages: values of one width without gaps. Fixed-size lists are stored as their items, booleans as
bits.

A list of booleans begins at the bit after the previous list, not at a byte. Nulls are not stored: a value is
read instead of each null. Source: docs/format.md, "0.1".
"""

import pyarrow as pa

from lance_core.encodings.v0_1.pages import Numbers, Pages, Run, join
from lance_core.encodings.values import fixed_bits
from lance_core.errors import UnsupportedFeatureError

_MOST_BITS = 1 << 40
"""Largest number of bits of one value. No real value is larger, and products of bits cannot overflow."""


class PlainReader:
    """Reader of a fixed-width type, or of fixed-size lists of such a type."""

    def __init__(self, pages: Pages, arrow_type: pa.DataType) -> None:
        self._pages = pages
        self._type = arrow_type
        self._item_type, self._dimension = _innermost(arrow_type)
        self.bits = fixed_bits(self._item_type) * self._dimension
        if self.bits > _MOST_BITS or not (self.bits or _has_no_width(arrow_type)):
            raise UnsupportedFeatureError(
                "type in a 0.1 file", file=pages.file.name, column=pages.column, found=arrow_type
            )
        pages.check_sizes(self.bits)

    @property
    def num_bytes(self) -> float:
        return float(self._pages.lengths.sum()) * self.bits / 8

    def page_bytes(self) -> Numbers:
        """Return the size of each page in the file, in bytes."""
        return (self._pages.lengths * self.bits + 7) // 8

    def read(self, run: Run) -> pa.Array:
        self._pages.check_run(run)
        begins, ends = run.starts * self.bits, (run.starts + run.counts) * self.bits
        first_bytes = begins // 8
        positions = self._pages.positions[run.batches] + first_bytes
        buffers = self._pages.read(run, positions, (ends + 7) // 8 - first_bytes)
        if len(buffers) == 1 or not ((begins % 8).any() or (ends[:-1] % 8).any()):
            items = self._items(join(buffers), run.num_items, int(begins[0]) % 8)
        else:
            items = pa.concat_arrays(
                self._items(buffer, count, shift)
                for buffer, count, shift in zip(
                    buffers, run.counts.tolist(), (begins % 8).tolist(), strict=True
                )
            )
        return _as_lists(items, self._type, run.num_items)

    def _items(self, data: pa.Buffer, num_values: int, shift: int) -> pa.Array:
        """Return the items of `num_values` values from bit `shift` of `data` on. Only items of one bit are
        shifted.
        """
        num_items = num_values * self._dimension
        return pa.Array.from_buffers(self._item_type, num_items, [None, data], offset=shift)


def _has_no_width(arrow_type: pa.DataType) -> bool:
    """Return whether values take no bytes: the type is a binary or a list of size zero."""
    if pa.types.is_fixed_size_list(arrow_type):
        return arrow_type.list_size == 0 or _has_no_width(arrow_type.value_type)
    return bool(pa.types.is_fixed_size_binary(arrow_type) and arrow_type.byte_width == 0)


def _innermost(arrow_type: pa.DataType) -> tuple[pa.DataType, int]:
    """Return the innermost item type of nested fixed-size lists, and the number of these items per value."""
    dimension = 1
    while pa.types.is_fixed_size_list(arrow_type):
        dimension *= arrow_type.list_size
        arrow_type = arrow_type.value_type
    return arrow_type, dimension


def _as_lists(items: pa.Array, arrow_type: pa.DataType, num_values: int) -> pa.Array:
    if not pa.types.is_fixed_size_list(arrow_type):
        return items
    inner = _as_lists(items, arrow_type.value_type, num_values * arrow_type.list_size)
    return pa.Array.from_buffers(arrow_type, num_values, [None], children=[inner])
