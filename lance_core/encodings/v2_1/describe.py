"""Page layouts and encodings of 2.1 and 2.2 files in words, for people who look into a file.

`mini-block: general(zstd, fsst(variable(flat(32))))` reads from the outside in: undo zstd, then FSST, then
cut the strings at the 32-bit offsets. What this release does not know is named by its field number, never
left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from lance_core.encodings.description import LayoutDescription
from lance_core.errors import CorruptFileError
from lance_core.proto import encodings_v2_1_pb2 as pb


def describe_page_layout(encoding: bytes) -> LayoutDescription:
    """The description of a serialised `PageLayout`; raises CorruptFileError when it is none."""
    try:
        layout = pb.PageLayout.FromString(encoding)
    except DecodeError:
        raise CorruptFileError("the page layout is not valid protobuf") from None
    return _describe_layout(layout)


def describe_encoding(encoding: pb.CompressiveEncoding) -> str:
    """The chain of one encoding, outermost first."""
    kind = encoding.WhichOneof("compression")
    if kind is None:
        return _unknown(encoding)
    return _ENCODINGS[kind](getattr(encoding, kind))


def _describe_layout(layout: pb.PageLayout) -> LayoutDescription:
    kind = layout.WhichOneof("layout")
    if kind is None:
        return LayoutDescription(_unknown(layout), {}, ())
    if kind == "blob_layout":
        inner = _describe_layout(layout.blob_layout.inner_layout)
        return LayoutDescription("blob", {"descriptors": str(inner)}, _layers(layout.blob_layout.layers))
    details: Any = getattr(layout, kind)
    streams = {
        name: describe_encoding(getattr(details, field))
        for name, field in _STREAMS
        if field in details.DESCRIPTOR.fields_by_name and details.HasField(field)
    }
    if kind == "constant_layout":
        value = f"inline({len(details.inline_value)} bytes)" if details.HasField("inline_value") else ""
        streams = {"values": value, **streams} if value else streams
    if kind == "full_zip_layout":
        widths = {"repetition": details.bits_rep, "definition": details.bits_def}
        streams |= {name: f"{bits} bits" for name, bits in widths.items() if bits}
    return LayoutDescription(_LAYOUTS[kind], streams, _layers(details.layers))


_LAYOUTS = {"mini_block_layout": "mini-block", "full_zip_layout": "full-zip", "constant_layout": "constant"}
_STREAMS = (
    ("values", "value_compression"),
    ("dictionary", "dictionary"),
    ("repetition", "rep_compression"),
    ("definition", "def_compression"),
)


def _layers(layers: Any) -> tuple[str, ...]:
    return tuple(_layer(layer) for layer in layers)


def _layer(layer: int) -> str:
    known = pb.RepDefLayer.DESCRIPTOR.values_by_number.get(layer)
    return known.name.removeprefix("REPDEF_").lower().replace("_", " ") if known else f"unknown layer {layer}"


def _scheme(compression: pb.BufferCompression) -> str:
    known = pb.CompressionScheme.DESCRIPTOR.values_by_number.get(compression.scheme)
    name = (
        known.name.removeprefix("COMPRESSION_ALGORITHM_").lower()
        if known
        else f"unknown scheme {compression.scheme}"
    )
    return f"{name} {compression.level}" if compression.HasField("level") else name


def _flat(flat: pb.Flat) -> str:
    compressed = f", {_scheme(flat.data)}" if flat.HasField("data") else ""
    return f"flat({flat.bits_per_value}{compressed})"


def _variable(variable: pb.Variable) -> str:
    compressed = f", {_scheme(variable.values)}" if variable.HasField("values") else ""
    return f"variable({describe_encoding(variable.offsets)}{compressed})"


def _packed_struct(struct: pb.PackedStruct) -> str:
    widths = "+".join(str(bits) for bits in struct.bits_per_value)
    return f"packed struct({widths} bits, {describe_encoding(struct.values)})"


def _variable_packed_struct(struct: pb.VariablePackedStruct) -> str:
    return f"packed struct({', '.join(describe_encoding(field.value) for field in struct.fields)})"


def _fixed_size_list(fixed: pb.FixedSizeList) -> str:
    validity = ", with nulls" if fixed.has_validity else ""
    return f"list of {fixed.items_per_value}({describe_encoding(fixed.values)}{validity})"


_ENCODINGS: Mapping[str, Callable[[Any], str]] = {
    "flat": _flat,
    "variable": _variable,
    "constant": lambda constant: (
        f"constant({len(constant.value)} bytes)" if constant.HasField("value") else "constant"
    ),
    "out_of_line_bitpacking": lambda packed: (
        f"out-of-line bitpacking({packed.uncompressed_bits_per_value}, {describe_encoding(packed.values)})"
    ),
    "inline_bitpacking": lambda packed: f"inline bitpacking({packed.uncompressed_bits_per_value})",
    "fsst": lambda fsst: f"fsst({describe_encoding(fsst.values)})",
    "dictionary": lambda dictionary: (
        f"dictionary({describe_encoding(dictionary.indices)}, items {describe_encoding(dictionary.items)})"
    ),
    "rle": lambda rle: f"rle({describe_encoding(rle.values)}, lengths {describe_encoding(rle.run_lengths)})",
    "byte_stream_split": lambda split: f"byte stream split({describe_encoding(split.values)})",
    "general": lambda general: (
        f"general({_scheme(general.compression)}, {describe_encoding(general.values)})"
    ),
    "fixed_size_list": _fixed_size_list,
    "packed_struct": _packed_struct,
    "variable_packed_struct": _variable_packed_struct,
}


def _unknown(message: Any) -> str:
    unknown = UnknownFieldSet(message)
    numbers = [str(unknown[position].field_number) for position in range(len(unknown))]
    return f"unknown({', '.join(f'field {number}' for number in numbers)})" if numbers else "none"
