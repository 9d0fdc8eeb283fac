"""Page layouts and encodings of 2.1 and 2.2 files in words, for people who inspect a file.

`mini-block: general(zstd, fsst(variable(flat(32))))` reads from the outside in: undo zstd, then FSST, then
split the strings at the 32-bit offsets. An encoding that this release does not know appears by its field
number.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from lance_core.encodings.description import LayoutDescription
from lance_core.encodings.v2_1.registry import ENCODINGS
from lance_core.errors import CorruptFileError
from lance_core.proto import encodings_v2_1_pb2 as pb


def describe_page_layout(encoding: bytes) -> LayoutDescription:
    """Return the description of a serialized `PageLayout`.

    Raises:
        CorruptFileError: the bytes are not such a message.
    """
    try:
        layout = pb.PageLayout.FromString(encoding)
    except DecodeError:
        raise CorruptFileError("the page layout is not valid protobuf") from None
    return _describe_layout(layout)


def describe_encoding(encoding: pb.CompressiveEncoding) -> str:
    """Describe a chain of encodings in words, outermost first."""
    kind = encoding.WhichOneof("compression")
    if kind is None:
        return _unknown(encoding)
    message = getattr(encoding, kind)
    if kind in ENCODINGS:
        return ENCODINGS[kind].describe(message, describe_encoding)
    inner = [
        describe_encoding(value) for _, value in message.ListFields() if isinstance(value, type(encoding))
    ]
    return f"{kind.replace('_', ' ')}({', '.join(inner)})"


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


def _unknown(message: Any) -> str:
    unknown = UnknownFieldSet(message)
    numbers = [str(unknown[position].field_number) for position in range(len(unknown))]
    return f"unknown({', '.join(f'field {number}' for number in numbers)})" if numbers else "none"
