"""From the description of an encoding in a page to the class that decodes it. The only list of encodings."""

from collections.abc import Callable
from typing import Any

from lance_core.encodings.v2_1.bitpacking import InlineBitpacking, OutOfLineBitpacking
from lance_core.encodings.v2_1.byte_stream_split import ByteStreamSplit
from lance_core.encodings.v2_1.constant_values import Constant
from lance_core.encodings.v2_1.encoding import Encoding
from lance_core.encodings.v2_1.fixed_size_list import FixedSizeList
from lance_core.encodings.v2_1.flat import Flat
from lance_core.encodings.v2_1.fsst import Fsst
from lance_core.encodings.v2_1.general import General
from lance_core.encodings.v2_1.packed_struct import PackedStruct
from lance_core.encodings.v2_1.rle import Rle
from lance_core.encodings.v2_1.variable import Variable
from lance_core.encodings.v2_1.variable_packed_struct import PackedField, VariablePackedStruct
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData
from lance_core.proto import encodings_v2_1_pb2 as proto


def parse_encoding(message: proto.CompressiveEncoding) -> Encoding:
    """The encoding a page describes, with all encodings below it.

    Raises:
        UnsupportedFeatureError: an encoding that pages of 2.1 and 2.2 do not use, or an unknown one.
        CorruptData: a description that contradicts itself.
    """
    kind = message.WhichOneof("compression")
    if kind is None:
        raise UnsupportedFeatureError("encoding that is unknown or missing")
    parse = ENCODINGS.get(kind)
    if parse is None:
        raise UnsupportedFeatureError(f"encoding {kind!r} in a page")
    return parse(getattr(message, kind))


def _packed_fields(message: proto.VariablePackedStruct) -> list[PackedField]:
    fields = []
    for field in message.fields:
        layout = field.WhichOneof("layout")
        if layout == "bits_per_value" and field.bits_per_value % 8 == 0:
            fields.append(PackedField(parse_encoding(field.value), field.bits_per_value // 8, 0))
        elif layout == "bits_per_length":
            fields.append(PackedField(parse_encoding(field.value), 0, field.bits_per_length))
        else:
            raise CorruptData("a packed field without a width in bytes")
    return fields


ENCODINGS: dict[str, Callable[[Any], Encoding]] = {
    "flat": Flat.parse,
    "constant": Constant.parse,
    "variable": Variable.parse,
    "inline_bitpacking": InlineBitpacking.parse,
    "out_of_line_bitpacking": OutOfLineBitpacking.parse,
    "fsst": lambda m: Fsst.parse(m.symbol_table, parse_encoding(m.values)),
    "rle": lambda m: Rle.parse(parse_encoding(m.values), parse_encoding(m.run_lengths)),
    "byte_stream_split": lambda m: ByteStreamSplit.parse(parse_encoding(m.values)),
    "general": lambda m: General.parse(m.compression, parse_encoding(m.values)),
    "fixed_size_list": lambda m: FixedSizeList.parse(m, parse_encoding(m.values)),
    "packed_struct": lambda m: PackedStruct.parse(m, parse_encoding(m.values)),
    "variable_packed_struct": lambda m: VariablePackedStruct.parse(_packed_fields(m)),
}

UNSUPPORTED = {
    "dictionary": "dictionaries are a property of the mini-block layout; no release writes them here",
}
"""Encodings that are refused by name, and why."""
