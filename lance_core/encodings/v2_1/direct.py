"""Mini-block pages whose rows one call of a kernel reads and decodes, for many columns at once.

This covers flat columns and lists of them in the encodings that fill most pages. It says nothing about what
is wrong with a page: where the kernel gives nothing, the page is read the long way, which does.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.encodings.v2_1.bitpacking import InlineBitpacking
from lance_core.encodings.v2_1.byte_stream_split import ByteStreamSplit
from lance_core.encodings.v2_1.encoding import Encoding
from lance_core.encodings.v2_1.flat import Flat
from lance_core.encodings.v2_1.fsst import Fsst
from lance_core.encodings.v2_1.general import General
from lance_core.encodings.v2_1.levels import LevelCoding, Structure
from lance_core.encodings.v2_1.page import LeafType
from lance_core.encodings.v2_1.rle import Rle
from lance_core.encodings.v2_1.variable import Variable
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
"""As `kernels.decode_rows` gives them."""

TakenRows = tuple[Block | None, Block, Block | None]
"""As `kernels.take_rows` gives them."""


class ChunkPlaces(NamedTuple):
    """Where chunks lie and what they hold; the last four have one entry more than there are chunks."""

    position: _Int64s
    """In the file."""
    length: _Int64s
    """0 for what lies between two pages, and is no chunk."""
    first_value: _Int64s
    first_row: _Int64s
    ended_rows: _Int64s


def direct_pages(
    num_rows: int,
    places: ChunkPlaces,
    structure: Structure,
    rep: LevelCoding | None,
    def_: LevelCoding | None,
    values: Encoding,
    dictionary: Values | None,
    num_items: int,
    leaf: LeafType,
    large: bool,
) -> MiniBlocks | None:
    """What the kernel needs to know of pages; `None` where it does not know how to decode them."""
    compression = "none"
    if isinstance(values, General):
        compression, values = values.compression, values.values
    coding = _coding(values, dictionary, leaf.arrow_type)
    if coding is None or not structure.is_flat_or_list or any(c and c.compression for c in (rep, def_)):
        return None
    name, bits = coding
    items = None
    if isinstance(dictionary, VariableValues):
        items = dictionary.offsets, dictionary.data, num_items, dictionary.offset_bits
    pages = MiniBlocks(
        num_rows=num_rows,
        positions=places.position.data,
        lengths=places.length.data,
        first_values=places.first_value.data,
        large=large,
        compression=compression,
        coding=name,
        bits=bits,
        def_=None if def_ is None else (def_.coding, def_.bits),
        max_def=structure.max_def,
        has_nulls=structure.has_null_items,
        symbols=values.table if isinstance(values, Fsst) else None,
        items=items,
    )
    if rep is not None:
        levels = structure.list_levels(1)
        pages.set_lists(
            first_rows=places.first_row.data,
            ended_rows=places.ended_rows.data,
            rep=(rep.coding, rep.bits),
            null=levels.null,
            empty=levels.empty,
            upper=levels.upper,
            shown=levels.shown,
            max_visible=structure.max_visible,
            depth_of=structure.depth_of,
            offset_bits=structure.nesting[1].offset_bits,
        )
    return pages


def _coding(values: Encoding, dictionary: Values | None, arrow_type: pa.DataType) -> tuple[str, int] | None:
    """The name and the width of the values, where they are of `arrow_type` once decoded."""
    if pa.types.is_nested(arrow_type) or pa.types.is_dictionary(arrow_type):
        return None
    if isinstance(values, (Variable, Fsst)):
        fits = dictionary is None and values.offset_bits == offset_bits(arrow_type)
        return (values.name, values.offset_bits) if fits else None
    if isinstance(values, (Flat, InlineBitpacking, ByteStreamSplit, Rle)):
        bits = values.word_bits if isinstance(values, InlineBitpacking) else values.bits_per_value
        if dictionary is None:
            fits = bits == fixed_bits(arrow_type)
        else:
            fits = isinstance(dictionary, VariableValues) and dictionary.offset_bits == offset_bits(
                arrow_type
            )
        return (values.name, bits) if fits else None
    return None


def direct_array(rows: DecodedRows, leaf_type: pa.DataType, list_type: pa.DataType | None) -> pa.Array:
    """The array of what the kernel gave: of `leaf_type`, or of `list_type` around it."""
    first, num_values, validity, values, data, list_offsets, list_validity = rows
    buffers = [None if validity is None else as_buffer(validity), as_buffer(values)]
    if data is not None:
        buffers.append(as_buffer(data))
    if list_offsets is None or list_type is None:
        return pa.Array.from_buffers(leaf_type, num_values, buffers, offset=first)
    # The validity of items begins with the first that is wanted, their values with those of the chunk.
    held: Values = FixedValues(buffers[1], fixed_bits(leaf_type))
    if data is not None:
        held = VariableValues(buffers[1], buffers[2], offset_bits(leaf_type))
    items = held.slice(first, num_values).to_arrow(num_values, leaf_type, buffers[0])
    offsets = as_buffer(list_offsets)
    around = [None if list_validity is None else as_buffer(list_validity), offsets]
    num_lists = offsets.size * 8 // (64 if pa.types.is_large_list(list_type) else 32) - 1
    return pa.Array.from_buffers(list_type, num_lists, around, children=[items])


def taken_array(rows: TakenRows, num_rows: int, arrow_type: pa.DataType) -> pa.Array:
    """The array of what the kernel took."""
    validity, values, data = rows
    buffers = [None if validity is None else as_buffer(validity), as_buffer(values)]
    if data is not None:
        buffers.append(as_buffer(data))
    return pa.Array.from_buffers(arrow_type, num_rows, buffers)
