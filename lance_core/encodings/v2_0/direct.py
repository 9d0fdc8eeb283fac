"""Descriptions of pages for the kernel that reads and decodes many columns in one call.

The kernel decodes flat values, strings, strings with a dictionary, and lists of these, uncompressed. If it
cannot decode a page, the decoders in Python run instead and raise the error that names the page.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lance_core.encodings.v2_0.binary import Binary
from lance_core.encodings.v2_0.dictionary import StringDictionary
from lance_core.encodings.v2_0.encoding import Encoding
from lance_core.encodings.v2_0.flat import Flat
from lance_core.encodings.v2_0.list import ListPage
from lance_core.encodings.v2_0.nullable import SomeNulls
from lance_core.encodings.values import VariableValues, fixed_bits, offset_bits
from lance_core.kernels import CorruptData, FlatPage


def direct_page(encoding: Encoding, arrow_type: pa.DataType, num_rows: int) -> FlatPage | None:
    """Return the description of a page of `num_rows` values of a type; None if the kernel cannot decode it.

    The items of a dictionary must have been read before.
    """
    try:
        if isinstance(encoding, Binary):
            return _text(encoding, arrow_type, num_rows)
        if isinstance(encoding, StringDictionary):
            return _strings(encoding, arrow_type, num_rows)
        return _fixed(encoding, arrow_type, num_rows)
    except CorruptData:
        return None


def direct_lists(
    lists: ListPage, num_rows: int, first_item: int, pages: list[FlatPage], starts: Sequence[int]
) -> FlatPage | None:
    """Return the description of a page of `num_rows` lists; None if the kernel cannot decode it.

    Args:
        lists: the page.
        num_rows: number of lists.
        first_item: number of the first item of the page in the column of the items.
        pages: pages of that column that have the items.
        starts: number of the first item of each of these pages, and of the item after the last.
    """
    ends = _plain(lists.ends.numbers, 64)
    if ends is None or not pages:
        return None
    try:
        adjustment, bits = lists.ends.null_adjustment, lists.ends.offset_bits
        of_items = pages, starts, first_item, lists.num_items, adjustment, bits
        return FlatPage(num_rows, 64, ends, None, None, None, of_items)
    except CorruptData:
        return None


def _fixed(encoding: Encoding, arrow_type: pa.DataType, num_rows: int) -> FlatPage | None:
    if pa.types.is_nested(arrow_type) or pa.types.is_dictionary(arrow_type) or offset_bits(arrow_type):
        return None
    validity = None
    if isinstance(encoding, SomeNulls):
        validity = _plain(encoding.validity, 1)
        if validity is None:
            return None
        encoding = encoding.values
    bits = fixed_bits(arrow_type)
    values = _plain(encoding, bits)
    return None if values is None else FlatPage(num_rows, bits, values, validity)


def _text(encoding: Binary, arrow_type: pa.DataType, num_rows: int) -> FlatPage | None:
    ends, data = _plain(encoding.ends.numbers, 64), _plain(encoding.bytes, 8)
    if ends is None or data is None or encoding.ends.offset_bits != offset_bits(arrow_type):
        return None
    text = data, encoding.ends.null_adjustment, encoding.ends.offset_bits
    return FlatPage(num_rows, 64, ends, None, text)


def _strings(encoding: StringDictionary, arrow_type: pa.DataType, num_rows: int) -> FlatPage | None:
    indices, items = encoding.indices, encoding.known_items
    if not isinstance(indices, Flat) or items is None or items.validity is not None:
        return None
    values, part = items.values, _plain(indices, indices.bits)
    if (
        part is None
        or not isinstance(values, VariableValues)
        or values.offset_bits != offset_bits(arrow_type)
    ):
        return None
    offsets = encoding.offsets_from_null(values)
    strings = offsets.data, values.data, len(offsets) - 1, values.offset_bits
    return FlatPage(num_rows, indices.bits, part, None, None, strings)


def _plain(encoding: Encoding, bits: int) -> tuple[int, int] | None:
    """Return the place in the file, and the size, of uncompressed values of a width; None for others."""
    if not isinstance(encoding, Flat) or encoding.scheme or encoding.bits != bits:
        return None
    return encoding.buffer.offset, encoding.buffer.size
