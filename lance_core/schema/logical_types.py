"""Logical types: the strings that name types in the format, and their Arrow types.

They are the values of `Field.logical_type`. Types with child fields ("struct", "list", ...) are in
`arrow_types.py`. Source: docs/format.md, "Logical types".
"""

from functools import lru_cache

import pyarrow as pa

from lance_core.errors import UnsupportedFeatureError

JSON = "json"
"""Binary JSON in a large_binary column. Users see the extension type arrow.json."""

ARROW_JSON = "arrow.json"
"""Extension name of JSON text."""

LANCE_JSON = "lance.json"
"""Extension name of binary JSON in the metadata of the field."""

BFLOAT16 = "lance.bfloat16"
"""Item type of a fixed-size list: two bytes with this extension name."""

FIXED_SIZE_LIST = "fixed_size_list"

_PLAIN = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "uint8": pa.uint8(),
    "int16": pa.int16(),
    "uint16": pa.uint16(),
    "int32": pa.int32(),
    "uint32": pa.uint32(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.utf8(),
    "large_string": pa.large_utf8(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "blob": pa.large_binary(),
    JSON: pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    "time32:s": pa.time32("s"),
    "time32:ms": pa.time32("ms"),
    "time64:us": pa.time64("us"),
    "time64:ns": pa.time64("ns"),
    "duration:s": pa.duration("s"),
    "duration:ms": pa.duration("ms"),
    "duration:us": pa.duration("us"),
    "duration:ns": pa.duration("ns"),
}

_NAMES = {plain: name for name, plain in _PLAIN.items() if name not in ("blob", JSON)}

_MAX_LENGTH = 256
"""Largest length of a logical type, in characters. Real types are shorter; longer strings would nest lists
too deeply.
"""


@lru_cache(maxsize=1024)
def leaf_type(logical_type: str) -> pa.DataType:
    """Return the Arrow storage type of a logical type without child fields.

    Raises:
        UnsupportedFeatureError: an unknown string.
    """
    if plain := _PLAIN.get(logical_type):
        return plain
    try:
        if len(logical_type) > _MAX_LENGTH:
            raise ValueError("too long")
        return _parse(logical_type)
    except (ValueError, TypeError, LookupError, OverflowError, pa.ArrowException):
        raise UnsupportedFeatureError("logical type", found=repr(logical_type)) from None


def logical_type(arrow_type: pa.DataType) -> str:
    """Return the logical type of an Arrow storage type without child fields: the reverse of `leaf_type`.

    Raises:
        UnsupportedFeatureError: the format has no string for the type.
    """
    if plain := _NAMES.get(arrow_type):
        return plain
    types = pa.types
    if types.is_timestamp(arrow_type):
        return f"timestamp:{arrow_type.unit}:{arrow_type.tz or '-'}"
    if types.is_decimal128(arrow_type) or types.is_decimal256(arrow_type):
        return f"decimal:{arrow_type.bit_width}:{arrow_type.precision}:{arrow_type.scale}"
    if types.is_fixed_size_binary(arrow_type):
        return f"fixed_size_binary:{arrow_type.byte_width}"
    if types.is_dictionary(arrow_type):
        value = logical_type(arrow_type.value_type)
        if ":" not in value and value != "null":  # readers split the string at the colons
            return f"dict:{value}:{logical_type(arrow_type.index_type)}:false"
    raise UnsupportedFeatureError("type", found=arrow_type)


def list_size(logical_type: str) -> int:
    """Return the number of items per value of a fixed-size list, after the last colon. Errors: see
    `leaf_type`.
    """
    try:
        return _size(logical_type.rpartition(":")[2])
    except ValueError:
        raise UnsupportedFeatureError("logical type", found=repr(logical_type)) from None


def _parse(logical_type: str) -> pa.DataType:
    kind, _, rest = logical_type.partition(":")
    match kind:
        case "timestamp":
            unit, _, zone = rest.partition(":")  # the zone may contain colons: "+02:00"
            if not zone:
                raise ValueError("no time zone")
            return pa.timestamp(unit, None if zone == "-" else zone)
        case "decimal":
            bits, precision, scale = rest.split(":")
            return {"128": pa.decimal128, "256": pa.decimal256}[bits](int(precision), int(scale))
        case "fixed_size_binary":
            return pa.binary(_size(rest))
        case "fixed_size_list":
            item, _, _ = rest.rpartition(":")  # the item may contain colons
            return pa.list_(_item(item), list_size(logical_type))
        case "dict":
            value, index, ordered = rest.split(":")
            if ordered not in ("false", "true"):
                raise ValueError("not a flag")
            return pa.dictionary(leaf_type(index), leaf_type(value), ordered == "true")
    raise ValueError("unknown kind")


def _item(logical_type: str) -> pa.Field:
    """Return the item of a fixed-size list. The format stores neither its name nor its nullability."""
    if logical_type == BFLOAT16:
        metadata = {"ARROW:extension:name": BFLOAT16, "ARROW:extension:metadata": ""}
        return pa.field("item", pa.binary(2), metadata=metadata)
    return pa.field("item", leaf_type(logical_type))


def _size(text: str) -> int:
    size = int(text)
    if not 0 <= size < 1 << 31:
        raise ValueError("size out of range")
    return size
