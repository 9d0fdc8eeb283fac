"""Table of the encodings: turns the description of an encoding into the object that decodes it."""

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
from lance_core.encodings.v2_1.variable_packed_struct import VariablePackedStruct
from lance_core.errors import UnsupportedFeatureError
from lance_core.proto import encodings_v2_1_pb2 as proto

ENCODINGS: dict[str, type[Encoding]] = {
    encoding.name: encoding
    for encoding in (
        Flat,
        Constant,
        Variable,
        InlineBitpacking,
        OutOfLineBitpacking,
        Fsst,
        Rle,
        ByteStreamSplit,
        General,
        FixedSizeList,
        PackedStruct,
        VariablePackedStruct,
    )
}
"""Encodings by the field of `CompressiveEncoding` that describes them."""

UNSUPPORTED = {
    "dictionary": "dictionaries are a property of the mini-block layout; no release writes them here",
}
"""Encodings that are refused by name, and the reason."""


def parse_encoding(message: proto.CompressiveEncoding) -> Encoding:
    """Return the encoding that a page describes, with all encodings inside it.

    Raises:
        UnsupportedFeatureError: an encoding that pages of 2.1 and 2.2 do not use, or an unknown one.
        CorruptData: the description contradicts itself.
    """
    kind = message.WhichOneof("compression")
    if kind is None:
        raise UnsupportedFeatureError("unknown or missing encoding")
    encoding = ENCODINGS.get(kind)
    if encoding is None:
        raise UnsupportedFeatureError(f"encoding {kind!r} in a page")
    return encoding.parse(getattr(message, kind), parse_encoding)
