"""Array encodings of 2.0 files in words, for people who inspect a file.

`binary(ends flat(64), bytes flat(8, zstd))` reads from the outside in: strings whose ends are 64-bit numbers
and whose bytes are compressed. An encoding that this release does not read appears by its name or field
number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.message import DecodeError

from lance_core.encodings.description import LayoutDescription
from lance_core.encodings.v2_0.registry import unknown_name
from lance_core.errors import CorruptFileError
from lance_core.proto import encodings_v2_0_pb2 as pb


def describe_page(encoding: bytes) -> LayoutDescription:
    """Return the description of a serialized `ArrayEncoding`.

    Raises:
        CorruptFileError: the bytes are not such a message.
    """
    try:
        message = pb.ArrayEncoding.FromString(encoding)
    except DecodeError:
        raise CorruptFileError("the page encoding is not valid protobuf") from None
    return LayoutDescription("array", {"values": describe_encoding(message)}, ())


def describe_encoding(encoding: pb.ArrayEncoding) -> str:
    """Describe a tree of encodings in words, outermost first."""
    kind = encoding.WhichOneof("array_encoding")
    if kind is None:
        return f"unknown({unknown_name(encoding)})"
    return _ENCODINGS[kind](getattr(encoding, kind))


def _flat(flat: pb.Flat) -> str:
    compression = flat.compression
    level = f" {compression.level}" if compression.HasField("level") else ""
    scheme = f", {compression.scheme}{level}" if compression.scheme else ""
    return f"flat({flat.bits_per_value}{scheme})"


def _nullable(nullable: pb.Nullable) -> str:
    match nullable.WhichOneof("nullability"):
        case "no_nulls":
            return describe_encoding(nullable.no_nulls.values)
        case "some_nulls":
            return f"some nulls({describe_encoding(nullable.some_nulls.values)})"
        case "all_nulls":
            return "all nulls"
    return f"unknown({unknown_name(nullable)})"


def _binary(binary: pb.Binary) -> str:
    return f"binary(ends {describe_encoding(binary.indices)}, bytes {describe_encoding(binary.bytes)})"


def _dictionary(dictionary: pb.Dictionary) -> str:
    items = f"{dictionary.num_dictionary_items} items {describe_encoding(dictionary.items)}"
    return f"dictionary({describe_encoding(dictionary.indices)}, {items})"


_ENCODINGS: Mapping[str, Callable[[Any], str]] = {
    "flat": _flat,
    "nullable": _nullable,
    "fixed_size_list": lambda fixed: f"list of {fixed.dimension}({describe_encoding(fixed.items)})",
    "list": lambda lists: f"lists(ends {describe_encoding(lists.offsets)}, {lists.num_items} items)",
    "struct": lambda _: "struct",
    "binary": _binary,
    "dictionary": _dictionary,
    "fsst": lambda fsst: f"fsst({describe_encoding(fsst.binary)})",
    "packed_struct": lambda struct: f"packed struct({', '.join(map(describe_encoding, struct.inner))})",
    "bitpacked": lambda packed: (
        f"bitpacked({packed.compressed_bits_per_value} of {packed.uncompressed_bits_per_value})"
    ),
    "fixed_size_binary": lambda fixed: (
        f"fixed-size binary({fixed.byte_width}, {describe_encoding(fixed.bytes)})"
    ),
    "bitpacked_for_non_neg": lambda packed: (
        f"bitpacked for non-neg({packed.compressed_bits_per_value} of {packed.uncompressed_bits_per_value})"
    ),
}
