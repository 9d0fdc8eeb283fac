"""Choice of the layout for a page of a leaf column.

The first that fits is used: no valid values, one value (2.2), packed structs of variable width, dictionaries,
the layout that the field asks for, mini-blocks for values below 256 bytes, full-zip for larger values.
Source: docs/format.md, "Writing pages".
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from lance_core.encodings.v2_1.chunks import Chunks
from lance_core.encodings.v2_1.encoders.constant import constant_page, null_page
from lance_core.encodings.v2_1.encoders.dictionary import (
    dictionary_page,
    encoded_column_page,
    without_null_items,
)
from lance_core.encodings.v2_1.encoders.encoded_page import EncodedPage, LeafColumn
from lance_core.encodings.v2_1.encoders.fixed_size_list import Bits, encode_vectors, vectors_of, zip_vectors
from lance_core.encodings.v2_1.encoders.fixed_width import encode_words
from lance_core.encodings.v2_1.encoders.fullzip import zip_fixed_page, zip_variable_page
from lance_core.encodings.v2_1.encoders.miniblock import mini_block_page
from lance_core.encodings.v2_1.encoders.packed_struct import (
    encode_packed,
    is_fixed,
    require_no_nulls,
    zip_packed,
)
from lance_core.encodings.v2_1.encoders.page_levels import Structure, structure_of
from lance_core.encodings.v2_1.encoders.shredding import LIST, NULL, Kind, LeafRows, Step
from lance_core.encodings.v2_1.encoders.variable_width import encode_text, text_of, zip_text
from lance_core.encodings.v2_1.flat import chunk_bits, flat_message
from lance_core.encodings.values import fixed_bits, offset_bits
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import ChunkOverflow
from lance_core.schema.arrow_values import numbers_of, scalar_of
from lance_core.storage.base import Bytes

FULL_ZIP_BYTES = 256
"""Least size of a value, in bytes, for which full-zip is chosen."""


def encode_pages(rows: LeafRows, column: LeafColumn) -> list[tuple[EncodedPage, LeafRows]]:
    """Encode rows as one page, or as several pages if their levels do not fit into chunks.

    Returns:
        Each page with its rows.

    Raises:
        UnsupportedFeatureError: values that the encoding of the column cannot hold.
    """
    if pa.types.is_dictionary(rows.values.type):
        rows = replace(rows, values=without_null_items(rows.values))
    structure = structure_of(rows, column.steps)
    try:
        return [(_encode(structure, rows.values, column), rows)]
    except ChunkOverflow:
        if rows.num_rows > 1:
            return [page for half in _halves(rows, column.steps) for page in encode_pages(half, column)]
        return [(_zipped(structure, rows.values, column), rows)]


def _encode(structure: Structure, values: pa.Array, column: LeafColumn) -> EncodedPage:
    arrow_type = values.type
    if pa.types.is_struct(arrow_type) and arrow_type.num_fields == 0:
        if structure.num_valid != structure.num_entries or not structure.is_flat:
            raise UnsupportedFeatureError(
                "nulls or lists of structs without members", column=column.field.name
            )
        return null_page(structure, column.is_2_2)
    if structure.num_valid == 0:
        return null_page(structure, column.is_2_2)
    if column.is_2_2 and (page := constant_page(structure, values, column.options)):
        return page
    if pa.types.is_struct(arrow_type):
        require_no_nulls(values, column.field.name)
        if is_fixed(arrow_type):
            return mini_block_page(structure, encode_packed(values), column.is_2_2)
        return zip_variable_page(structure, *zip_packed(values))
    if pa.types.is_dictionary(arrow_type):
        return encoded_column_page(structure, values, column)
    if page := dictionary_page(structure, values, column):
        return page
    asked = column.options.layout
    if asked == "fullzip" or (asked is None and _value_bytes(values) >= FULL_ZIP_BYTES):
        return _zipped(structure, values, column)
    chunks = _chunks(values, column)
    page = mini_block_page(structure, chunks, column.is_2_2)
    if chunks.bounds is None or values.null_count or not _is_number(arrow_type):
        return page
    return replace(page, bounds=chunks.bounds)


def _is_number(arrow_type: pa.DataType) -> bool:
    """Return whether values are ordered like their words. Floats and binaries are not."""
    return bool(pa.types.is_integer(arrow_type) or pa.types.is_temporal(arrow_type))


def _value_bytes(values: pa.Array) -> int:
    """Return the size of the largest value, in bytes."""
    if offset_bits(values.type):
        return text_of(values).longest
    if pa.types.is_fixed_size_list(values.type):
        return vectors_of(values).item_bytes
    return fixed_bits(values.type) // 8


def _chunks(values: pa.Array, column: LeafColumn) -> Chunks:
    arrow_type = values.type
    if offset_bits(arrow_type):
        return encode_text(text_of(values), column.options)
    if pa.types.is_fixed_size_list(arrow_type):
        return encode_vectors(vectors_of(values))
    data = values.buffers()[1]
    if pa.types.is_boolean(arrow_type):
        return chunk_bits(data, values.offset, len(values))
    bits = fixed_bits(arrow_type)
    width = bits // 8
    data = data.slice(values.offset * width, len(values) * width)
    is_signed = not pa.types.is_unsigned_integer(arrow_type)
    return encode_words(data, bits, len(values), column.options, is_signed=is_signed)


def _zipped(structure: Structure, values: pa.Array, column: LeafColumn) -> EncodedPage:
    arrow_type = values.type
    if offset_bits(arrow_type):
        return zip_variable_page(structure, *zip_text(text_of(values), column.options))
    if pa.types.is_fixed_size_list(arrow_type):
        vectors = vectors_of(values)
        if isinstance(vectors.items, Bits):  # readers accept only full-zip items of whole bytes
            try:
                return mini_block_page(structure, encode_vectors(vectors), column.is_2_2)
            except ChunkOverflow as error:
                raise UnsupportedFeatureError(
                    "list of booleans that is larger than a chunk",
                    column=column.field.name,
                    expected="2.2 files, whose chunks may be larger",
                    found=f"{arrow_type}, {error}",
                ) from None
        rows, row_bytes = zip_vectors(vectors)
        return zip_fixed_page(structure, rows, row_bytes, vectors.encoding)
    if pa.types.is_boolean(arrow_type):  # one byte per value
        flags = values.fill_null(scalar_of(False)) if values.null_count else values
        data = pa.py_buffer(numbers_of(flags).view(np.uint8))
        return zip_fixed_page(structure, data, 1, flat_message(8))
    width = fixed_bits(arrow_type) // 8
    data = values.buffers()[1].slice(values.offset * width, len(values) * width)
    return zip_fixed_page(structure, data, width, flat_message(8 * width))


def _halves(rows: LeafRows, steps: tuple[Step, ...]) -> list[LeafRows]:
    """Divide the rows into two halves."""
    middle = rows.num_rows // 2
    rep, def_ = _levels(rows.rep), _levels(rows.def_)
    if rep is None:
        slots = rows.num_entries // rows.num_rows
        entry = value = middle * slots
    else:
        entry = int(np.flatnonzero(rep == LIST)[middle])
        value = entry
        if def_ is not None:
            last_list = max(depth for depth, step in enumerate(steps) if step.kind is Kind.LIST)
            value = int((def_[:entry] < NULL - 2 * last_list).sum())
    return [
        LeafRows(rows.values.slice(0, value), middle, entry, _part(rep, 0, entry), _part(def_, 0, entry)),
        LeafRows(
            rows.values.slice(value),
            rows.num_rows - middle,
            rows.num_entries - entry,
            _part(rep, entry, rows.num_entries),
            _part(def_, entry, rows.num_entries),
        ),
    ]


def _levels(levels: Bytes | None) -> np.ndarray | None:
    return None if levels is None else np.frombuffer(levels, "<u2")


def _part(levels: np.ndarray | None, start: int, end: int) -> Bytes | None:
    return None if levels is None else levels[start:end].data
