"""Values of leaf columns. Each function adds buffers to a page and returns the description of the values.

    fixed width        nullable{flat}
    fixed-size list    nullable{fixed_size_list{nullable{flat}}}
    strings            binary{ends, bytes}; dictionary{indices, binary} if few values differ
    dictionary         dictionary{indices, items}, where a null is an item

Source: docs/format.md, "2.0".
"""

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.v2_0.encoders.pages import (
    PageBuffers,
    all_nulls,
    bits_of,
    flat,
    no_nulls,
    some_nulls,
)
from lance_core.encodings.v2_1.encoders.field_options import LEVELS
from lance_core.encodings.v2_1.encoders.general import compress_block
from lance_core.encodings.values import fixed_bits, offset_bits
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.proto import encodings_v2_0_pb2 as proto
from lance_core.schema.arrow_values import numbers_of
from lance_core.storage.base import Bytes

COMPRESSION = "lance-encoding:compression"
COMPRESSION_LEVEL = "lance-encoding:compression-level"

_DICTIONARY_ROWS = 100
"""A page of fewer rows gets no dictionary: it would not pay."""
_DICTIONARY_ITEMS = 100
"""A page with this many distinct strings or more gets no dictionary, as in the reference. (255 would fit.)"""
_SAMPLE_ROWS = 1024
_INTEGER = re.compile("-?[0-9]+")


def encode_values(page: PageBuffers, array: pa.Array, metadata: Mapping[str, str]) -> proto.ArrayEncoding:
    """Add the values of a leaf column to a page, and return their description.

    Args:
        page: receives the buffers.
        array: values of a storage type.
        metadata: metadata of the field; it can ask for compression of strings.

    Raises:
        UnsupportedFeatureError: a type that 2.0 files cannot hold.
    """
    if pa.types.is_dictionary(array.type):
        return _dictionary(page, array)
    if pa.types.is_string(array.type):
        indices = _few_strings(array)
        if indices is not None:
            return _string_dictionary(page, indices)
    if offset_bits(array.type):
        return _binary(page, array, metadata)
    return _fixed(page, array)


def check_type(arrow_type: pa.DataType, column: str) -> None:
    """Refuse a leaf type that 2.0 files cannot hold.

    Raises:
        UnsupportedFeatureError: the type; the message names it.
    """
    item = arrow_type
    while pa.types.is_fixed_size_list(item):
        item = item.value_type
    if item is arrow_type and (pa.types.is_dictionary(item) or offset_bits(item)):
        return
    if not (fixed_bits(item) or pa.types.is_null(item)) or pa.types.is_dictionary(item):
        raise UnsupportedFeatureError("type in a 2.0 file", column=column, found=arrow_type)


def _fixed(page: PageBuffers, array: pa.Array) -> proto.ArrayEncoding:
    if array.null_count == len(array) and (len(array) or pa.types.is_null(array.type)):
        return all_nulls()
    validity = None
    if array.null_count:
        validity = flat(page, bits_of(array.buffers()[0], array.offset, len(array)), 1)
    if pa.types.is_fixed_size_list(array.type):
        dimension = array.type.list_size
        items = array.values.slice(array.offset * dimension, len(array) * dimension)
        lists = proto.FixedSizeList(dimension=dimension, items=_fixed(page, items))
        values = proto.ArrayEncoding(fixed_size_list=lists)
    else:
        bits = fixed_bits(array.type)
        values = flat(page, fixed_buffer(array, bits), bits)
    return no_nulls(values) if validity is None else some_nulls(validity, values)


def fixed_buffer(array: pa.Array, bits: int) -> Bytes:
    """Return the values of a fixed-width array, including those of nulls."""
    buffer = array.buffers()[1]
    if buffer is None:
        return b""
    if bits == 1:
        return bits_of(buffer, array.offset, len(array))
    width = bits // 8
    return buffer.slice(array.offset * width, len(array) * width)


def _binary(page: PageBuffers, array: pa.Array, metadata: Mapping[str, str]) -> proto.ArrayEncoding:
    """Add the ends and the bytes of strings or binaries to a page, and return the description.

    A null is marked by an adjustment that is added to its end. The adjustment is greater than every end.
    """
    _, offsets, data = array.buffers()
    dtype = np.dtype(f"<i{offset_bits(array.type) // 8}")
    bounds = np.frombuffer(offsets, dtype)[array.offset : array.offset + len(array) + 1]
    first, last = (int(bounds[0]), int(bounds[-1])) if len(bounds) else (0, 0)
    adjustment = last - first + 1
    ends = (bounds[1:] - bounds[:1]).astype("<u8")
    if array.null_count:
        ends += null_flags(array) * np.uint64(adjustment)
    indices = no_nulls(flat(page, ends.data, 64))
    values = b"" if data is None else data.slice(first, last - first)
    return proto.ArrayEncoding(
        binary=proto.Binary(indices=indices, bytes=_bytes(page, values, metadata), null_adjustment=adjustment)
    )


def _bytes(page: PageBuffers, data: Bytes, metadata: Mapping[str, str]) -> proto.ArrayEncoding:
    """Add the bytes of strings to a page, compressed if the metadata of the field asks for it."""
    scheme = metadata.get(COMPRESSION, "").lower()
    if scheme not in ("zstd", "lz4") or not memoryview(data).nbytes:
        return flat(page, data, 8)
    text = metadata.get(COMPRESSION_LEVEL, "")
    level = int(text) if scheme == "zstd" and _INTEGER.fullmatch(text) else None
    if level is not None:
        level = min(max(level, LEVELS[0]), LEVELS[-1])
    compression = proto.Compression(scheme=scheme, level=level)
    packed = compress_block(data, scheme, level)
    return proto.ArrayEncoding(
        flat=proto.Flat(bits_per_value=8, buffer=page.add(packed), compression=compression)
    )


def _few_strings(array: pa.StringArray) -> pa.DictionaryArray | None:
    """Return the strings as a dictionary array if the page has few distinct strings, else None."""
    if len(array) < _DICTIONARY_ROWS or array.null_count == len(array):
        return None
    sample = array.slice(len(array) // 2, _SAMPLE_ROWS)
    if pc.count_distinct(sample).as_py() >= _DICTIONARY_ITEMS:
        return None
    encoded = array.dictionary_encode()
    return encoded if len(encoded.dictionary) < _DICTIONARY_ITEMS else None


def _string_dictionary(page: PageBuffers, encoded: pa.DictionaryArray) -> proto.ArrayEncoding:
    """Describe strings by their indices and items. Index 0 is null, index j is item j - 1."""
    indices = pc.add(encoded.indices, 1).fill_null(0).cast(pa.uint8())
    return proto.ArrayEncoding(
        dictionary=proto.Dictionary(
            indices=no_nulls(flat(page, fixed_buffer(indices, 8), 8)),
            items=_binary(page, encoded.dictionary, {}),
            num_dictionary_items=len(encoded.dictionary),
        )
    )


def _dictionary(page: PageBuffers, array: pa.DictionaryArray) -> proto.ArrayEncoding:
    """Describe a dictionary column. Index j is item j; a null row points at an item that is null."""
    items, indices = array.dictionary, array.indices
    if pa.types.is_dictionary(items.type):
        raise UnsupportedFeatureError("dictionary of dictionaries in a 2.0 file")
    if indices.null_count:
        if indices.null_count == len(indices):
            items = items.slice(0, 0)
        items = pa.concat_arrays([items, pa.nulls(1, items.type)])
        try:
            null = pa.scalar(len(items) - 1, indices.type)
        except (pa.ArrowInvalid, OverflowError):
            raise InvalidInputError(
                "dictionary has no free index for null", expected=indices.type, found=len(items)
            ) from None
        indices = indices.fill_null(null)
    bits = fixed_bits(indices.type)
    return proto.ArrayEncoding(
        dictionary=proto.Dictionary(
            indices=no_nulls(flat(page, fixed_buffer(indices, bits), bits)),
            items=_binary(page, items, {}) if offset_bits(items.type) else _fixed(page, items),
            num_dictionary_items=len(items),
        )
    )


def null_flags(array: pa.Array) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    """Return 1 for each null of the array, else 0."""
    return numbers_of(array.is_null()).astype(np.uint64)
