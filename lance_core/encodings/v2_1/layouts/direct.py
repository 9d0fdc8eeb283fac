"""Descriptions of mini-block pages for the kernel that reads and decodes many columns in one call.

The kernel decodes flat columns and lists of flat values, in the encodings of most pages. If it cannot decode
a page, the Python decoder runs instead and raises the error that names the page.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.encodings.v2_1.encoding import DirectValues, Encoding
from lance_core.encodings.v2_1.layouts.levels import Structure
from lance_core.encodings.v2_1.level_coding import LevelCoding
from lance_core.encodings.values import (
    FixedValues,
    Values,
    VariableValues,
    as_buffer,
    fixed_bits,
    offset_bits,
)
from lance_core.kernels import Block, MiniBlocks

_Int64s = npt.NDArray[np.int64]

DecodedRows = tuple[int, int, Block | None, Block, Block | None, Block | None, Block | None]
"""The result of `kernels.decode_rows` for one range of rows."""


class ChunkPlaces(NamedTuple):
    """Positions and contents of chunks. The last three fields have one entry more than there are chunks."""

    position: _Int64s
    """Position of each chunk in the file, in bytes."""
    length: _Int64s
    """Size of each chunk in bytes; 0 for a gap between two pages, which has no values."""
    first_value: _Int64s
    first_row: _Int64s
    ended_rows: _Int64s


class DirectCoding(NamedTuple):
    """Encoding of pages in the terms of the kernel. Pages with equal descriptions share one object."""

    structure: Structure
    large: bool
    values: DirectValues
    rep: tuple[str, int] | None
    def_: tuple[str, int] | None
    dictionary_bits: int
    """Bits of an offset of the dictionary items, or of an item of fixed width; 0 without a dictionary."""
    num_dictionary_items: int


def direct_coding(
    structure: Structure,
    large: bool,
    rep: LevelCoding | None,
    def_: LevelCoding | None,
    values: Encoding,
    num_dictionary_items: int | None,
    arrow_type: pa.DataType,
) -> DirectCoding | None:
    """Return the description of the encoding for the kernel, or None if the kernel cannot decode such pages.

    `num_dictionary_items` is None without a dictionary.
    """
    direct = values.direct()
    if direct is None or not structure.is_flat_or_list or any(c and c.compression for c in (rep, def_)):
        return None
    if pa.types.is_nested(arrow_type) or pa.types.is_dictionary(arrow_type):
        return None
    has_dictionary = num_dictionary_items is not None
    value_bits = offset_bits(arrow_type) or fixed_bits(arrow_type)
    if has_dictionary:
        fits = not direct.has_offsets and value_bits > 0 and value_bits % 8 == 0
    else:
        fits = direct.bits == value_bits and direct.has_offsets == (offset_bits(arrow_type) > 0)
    if not fits:
        return None
    return DirectCoding(
        structure=structure,
        large=large,
        values=direct,
        rep=None if rep is None else (rep.coding, rep.bits),
        def_=None if def_ is None else (def_.coding, def_.bits),
        dictionary_bits=value_bits if has_dictionary else 0,
        num_dictionary_items=num_dictionary_items or 0,
    )


def direct_pages(
    num_rows: int, places: ChunkPlaces, coding: DirectCoding, dictionary: Values | None
) -> MiniBlocks | None:
    """Return the description of pages for the kernel, or None if the kernel cannot decode them."""
    structure = coding.structure
    items = None
    if coding.dictionary_bits:
        items = _items(dictionary, coding)
        if items is None:
            return None
    pages = MiniBlocks(
        num_rows,
        places.position.data,
        places.length.data,
        places.first_value.data,
        coding.large,
        coding.values.compression,
        coding.values.name,
        coding.values.bits,
        coding.def_,
        structure.max_def,
        structure.has_null_items,
        coding.values.symbols,
        items,
    )
    if coding.rep is not None:
        levels = structure.list_levels(1)
        pages.set_lists(
            first_rows=places.first_row.data,
            ended_rows=places.ended_rows.data,
            rep=coding.rep,
            null=levels.null,
            empty=levels.empty,
            upper=levels.upper,
            shown=levels.shown,
            max_visible=structure.max_visible,
            depth_of=structure.depth_of,
            offset_bits=structure.nesting[1].offset_bits,
        )
    return pages


def _items(
    dictionary: Values | None, coding: DirectCoding
) -> tuple[pa.Buffer | None, pa.Buffer, int, int] | None:
    """Return the items of a dictionary for the kernel; None if they have another form than the column."""
    count, bits = coding.num_dictionary_items, coding.dictionary_bits
    if isinstance(dictionary, VariableValues) and dictionary.offset_bits == bits:
        return dictionary.offsets, dictionary.data, count, bits
    size = count * bits // 8
    if isinstance(dictionary, FixedValues) and dictionary.bits == bits and dictionary.data.size >= size:
        return None, dictionary.data.slice(0, size), count, bits
    return None


def direct_array(rows: DecodedRows, leaf_type: pa.DataType, list_type: pa.DataType | None) -> pa.Array:
    """Return the array that the kernel decoded: of `leaf_type`, or of `list_type` around it."""
    first, num_values, validity, values, data, list_offsets, list_validity = rows
    buffers = [None if validity is None else as_buffer(validity), as_buffer(values)]
    if data is not None:
        buffers.append(as_buffer(data))
    if list_offsets is None or list_type is None:
        return pa.Array.from_buffers(leaf_type, num_values, buffers, offset=first)
    # The validity begins with the first wanted item, but the values begin with the first item of the chunk.
    held: Values = FixedValues(buffers[1], fixed_bits(leaf_type))
    if data is not None:
        held = VariableValues(buffers[1], buffers[2], offset_bits(leaf_type))
    items = held.slice(first, num_values).to_arrow(num_values, leaf_type, buffers[0])
    offsets = as_buffer(list_offsets)
    around = [None if list_validity is None else as_buffer(list_validity), offsets]
    num_lists = offsets.size * 8 // (64 if pa.types.is_large_list(list_type) else 32) - 1
    return pa.Array.from_buffers(list_type, num_lists, around, children=[items])
