"""Table of the array encodings: turns the description of a page into the objects that decode it."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from lance_core.encodings.v2_0.binary import Binary
from lance_core.encodings.v2_0.bitpacked import Bitpacked, BitpackedForNonNeg
from lance_core.encodings.v2_0.dictionary import DictionaryColumn, StringDictionary
from lance_core.encodings.v2_0.encoding import Encoding, PageBuffers
from lance_core.encodings.v2_0.end_offsets import Ends
from lance_core.encodings.v2_0.fixed_size_binary import FixedSizeBinary
from lance_core.encodings.v2_0.fixed_size_list import FixedSizeList
from lance_core.encodings.v2_0.flat import Flat
from lance_core.encodings.v2_0.fsst import Fsst
from lance_core.encodings.v2_0.nullable import AllNulls, SomeNulls
from lance_core.encodings.v2_0.packed_struct import PackedStruct
from lance_core.encodings.values import fixed_bits, offset_bits
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData
from lance_core.proto import encodings_v2_0_pb2 as proto

ARRAY_ENCODING = "lance.encodings.ArrayEncoding"
COLUMN_ENCODING = "lance.encodings.ColumnEncoding"

_MAX_VALUES = 1 << 48

_UNRELEASED = {
    13: "constant",
    14: "inline_bitpacking",
    15: "out_of_line_bitpacking",
    16: "variable",
    17: "packed_struct_fixed_width_mini_block",
    18: "block",
    19: "rle",
    20: "general_mini_block",
    21: "byte_stream_split",
}
"""Field numbers that were used while 2.1 was developed. No release wrote them into a page."""


def parse_page(encoding_type: str, encoding: bytes) -> proto.ArrayEncoding:
    """Parse the description of a page.

    Raises:
        UnsupportedFeatureError: the description is of another kind; the message names it.
        CorruptData: the description cannot be parsed.
    """
    if encoding_type != ARRAY_ENCODING:
        raise UnsupportedFeatureError(f"page description {encoding_type!r}")
    try:
        return proto.ArrayEncoding.FromString(encoding)
    except DecodeError:
        raise CorruptData("the page's description cannot be parsed") from None


def parse_encoding(
    message: proto.ArrayEncoding, buffers: PageBuffers, arrow_type: pa.DataType, num_values: int
) -> Encoding:
    """Return the encoding of `num_values` values of a type, with all encodings below it. Reads no file.

    Raises:
        UnsupportedFeatureError: an encoding that holds no values, or an unknown one; the message names it.
        CorruptData: the description contradicts itself, the type or the buffers.
    """
    kind = message.WhichOneof("array_encoding")
    parse = _ENCODINGS.get(kind or "")
    if parse is None:
        raise UnsupportedFeatureError(f"encoding {kind or unknown_name(message)!r} in a page of values")
    if num_values > _MAX_VALUES:
        raise CorruptData(f"{num_values} values")
    return parse(getattr(message, kind), buffers, arrow_type, num_values)


def parse_ends(
    message: proto.ArrayEncoding,
    null_adjustment: int,
    offset_bits: int,
    buffers: PageBuffers,
    num_values: int,
) -> Ends:
    """Return the end offsets of strings or lists. Errors are those of `parse_encoding`."""
    return Ends(parse_encoding(message, buffers, pa.uint64(), num_values), null_adjustment, offset_bits)


def unknown_name(message: Any) -> str:
    """Name the encoding that a description sets in a field which our protobuf classes do not know.

    The name is for error messages: that of a known release, else "field 99", or "none" without such a field.
    """
    unknown = UnknownFieldSet(message)
    numbers = [unknown[position].field_number for position in range(len(unknown))]
    return ", ".join(_UNRELEASED.get(number, f"field {number}") for number in numbers) or "none"


def _nullable(
    message: proto.Nullable, buffers: PageBuffers, arrow_type: pa.DataType, num_values: int
) -> Encoding:
    match message.WhichOneof("nullability"):
        case "no_nulls":
            return parse_encoding(message.no_nulls.values, buffers, arrow_type, num_values)
        case "some_nulls":
            return SomeNulls(
                parse_encoding(message.some_nulls.validity, buffers, pa.bool_(), num_values),
                parse_encoding(message.some_nulls.values, buffers, arrow_type, num_values),
            )
        case "all_nulls":
            return AllNulls(num_values, fixed_bits(arrow_type))
    raise UnsupportedFeatureError(f"nullability {unknown_name(message)!r}")


def _fixed_size_list(
    message: proto.FixedSizeList, buffers: PageBuffers, arrow_type: pa.DataType, num_values: int
) -> Encoding:
    if not pa.types.is_fixed_size_list(arrow_type) or arrow_type.list_size != message.dimension:
        raise CorruptData(f"lists of {message.dimension} items in a column of type {arrow_type}")
    num_items = num_values * message.dimension
    return FixedSizeList(
        message.dimension, parse_encoding(message.items, buffers, arrow_type.value_type, num_items)
    )


def _binary(
    message: proto.Binary, buffers: PageBuffers, arrow_type: pa.DataType, num_values: int
) -> Encoding:
    bits = _text_offset_bits(arrow_type)
    ends = parse_ends(message.indices, message.null_adjustment, bits, buffers, num_values)
    # The number of bytes (here 0) is unknown until the ends are read.
    return Binary.parse(ends, parse_encoding(message.bytes, buffers, pa.uint8(), 0), num_values)


def _dictionary(
    message: proto.Dictionary, buffers: PageBuffers, arrow_type: pa.DataType, num_values: int
) -> Encoding:
    num_items = message.num_dictionary_items
    if pa.types.is_dictionary(arrow_type):
        indices = parse_encoding(message.indices, buffers, arrow_type.index_type, num_values)
        items = parse_encoding(message.items, buffers, arrow_type.value_type, num_items)
        return DictionaryColumn(indices, items, num_items, num_values, arrow_type)
    _text_offset_bits(arrow_type)
    indices = parse_encoding(message.indices, buffers, pa.uint8(), num_values)
    items = parse_encoding(message.items, buffers, arrow_type, num_items)
    return StringDictionary(indices, items, num_items, num_values)


def _text_offset_bits(arrow_type: pa.DataType) -> int:
    if bits := offset_bits(arrow_type):
        return bits
    raise CorruptData(f"strings in a column of type {arrow_type}")


_Parse = Callable[[Any, PageBuffers, pa.DataType, int], Encoding]

_ENCODINGS: dict[str, _Parse] = {
    "flat": lambda m, buffers, _, num_values: Flat.parse(m, buffers, num_values),
    "nullable": _nullable,
    "fixed_size_list": _fixed_size_list,
    "binary": _binary,
    "dictionary": _dictionary,
    "fsst": lambda m, buffers, arrow_type, num_values: Fsst.parse(
        parse_encoding(m.binary, buffers, arrow_type, num_values), m.symbol_table
    ),
    "packed_struct": PackedStruct.parse,
    "bitpacked": lambda m, buffers, _, num_values: Bitpacked(
        m.compressed_bits_per_value,
        m.uncompressed_bits_per_value,
        m.signed,
        buffers.find(m.buffer),
        num_values,
    ),
    "fixed_size_binary": lambda m, buffers, arrow_type, num_values: FixedSizeBinary.parse(
        parse_encoding(m.bytes, buffers, pa.uint8(), 0), m.byte_width, num_values, offset_bits(arrow_type)
    ),
    "bitpacked_for_non_neg": lambda m, buffers, _, num_values: BitpackedForNonNeg(
        m.compressed_bits_per_value, m.uncompressed_bits_per_value, buffers.find(m.buffer), num_values
    ),
}
