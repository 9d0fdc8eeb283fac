"""Types and literals of Substrait messages as Arrow's."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError
from google.protobuf.wrappers_pb2 import BytesValue, StringValue, UInt64Value

from lance_core.errors import InvalidInputError
from lance_core.proto import substrait_pb2 as messages

_TYPES = {
    "bool": pa.bool_(),
    "i8": pa.int8(),
    "i16": pa.int16(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "fp32": pa.float32(),
    "fp64": pa.float64(),
    "string": pa.string(),
    "fixed_char": pa.string(),
    "varchar": pa.string(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us"),
    "timestamp_tz": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "time": pa.time64("us"),
}
# Types that Arrow's writer declares as extensions, with the message that holds a literal of each.
_EXTENSION_TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "u8": (pa.uint8(), UInt64Value),
    "u16": (pa.uint16(), UInt64Value),
    "u32": (pa.uint32(), UInt64Value),
    "u64": (pa.uint64(), UInt64Value),
    "large_string": (pa.large_string(), StringValue),
    "large_binary": (pa.large_binary(), BytesValue),
    "null": (pa.null(), BytesValue),
}
_LITERALS = {"boolean": "bool", "fixed_binary": "binary"}
_UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}


def arrow_type(given: messages.Type, extensions: Mapping[int, str]) -> pa.DataType:
    """Return the Arrow type; `extensions` are the names of the types that a message declares, by their
    anchors.
    """
    kind = given.WhichOneof("kind")
    if kind in _TYPES:
        return _TYPES[kind]
    if kind == "decimal":
        return _decimal_type(given.decimal.precision, given.decimal.scale)
    if kind == "fixed_binary" and given.fixed_binary.length > 0:
        return pa.binary(given.fixed_binary.length)
    if kind in ("precision_timestamp", "precision_timestamp_tz"):
        return _timestamp(getattr(given, kind).precision, kind)
    if kind == "precision_time":
        return _time(given.precision_time.precision)
    if kind == "user_defined":
        return _extension(given.user_defined.type_reference, extensions)[0]
    if kind == "list":
        return pa.list_(arrow_type(given.list.type, extensions))
    raise InvalidInputError(f"the Substrait type {kind or 'without a kind'} is not supported")


def arrow_scalar(given: messages.Literal, extensions: Mapping[int, str]) -> pa.Scalar:
    """Return the constant of a literal."""
    kind = given.WhichOneof("literal_type")
    if kind == "null":
        return pa.scalar(None, arrow_type(given.null, extensions))
    if kind == "decimal":
        return _decimal(given.decimal)
    if kind == "var_char":
        return pa.scalar(given.var_char.value)
    if kind == "user_defined":
        return _extension_scalar(given.user_defined, extensions)
    try:
        if kind in ("precision_timestamp", "precision_timestamp_tz"):
            moment = getattr(given, kind)
            return pa.scalar(moment.value, _timestamp(moment.precision, kind))
        if kind == "precision_time":
            return pa.scalar(given.precision_time.value, _time(given.precision_time.precision))
        data_type = _TYPES.get(_LITERALS.get(kind, kind))
        if data_type is not None:
            return pa.scalar(getattr(given, kind), data_type)
    except (pa.ArrowInvalid, OverflowError, ValueError) as error:
        raise InvalidInputError(f"a Substrait literal of type {kind} is out of range: {error}") from None
    raise InvalidInputError(f"a Substrait literal of type {kind} is not supported")


def _timestamp(precision: int, kind: str) -> pa.DataType:
    if precision not in _UNITS:
        raise InvalidInputError(f"a timestamp of {precision} digits is not supported, only of 0, 3, 6 or 9")
    return pa.timestamp(_UNITS[precision], "UTC" if kind.endswith("_tz") else None)


def _time(precision: int) -> pa.DataType:
    if precision not in _UNITS:
        raise InvalidInputError(f"a time of {precision} digits is not supported, only of 0, 3, 6 or 9")
    unit = _UNITS[precision]
    return pa.time32(unit) if precision < 6 else pa.time64(unit)


def _decimal_type(precision: int, scale: int) -> pa.DataType:
    if not 1 <= precision <= 38 or not 0 <= scale <= precision:
        raise InvalidInputError(f"decimal({precision}, {scale}) is not a type")
    return pa.decimal128(precision, scale)


def _decimal(given: messages.Literal.Decimal) -> pa.Scalar:
    data_type = _decimal_type(given.precision, given.scale)
    number = int.from_bytes(given.value, "little", signed=True)
    if len(given.value) > 16 or abs(number) >= 10**given.precision:
        raise InvalidInputError(f"a Substrait literal does not fit decimal({given.precision}, {given.scale})")
    sign, digits = int(number < 0), tuple(int(digit) for digit in str(abs(number)))
    return pa.scalar(Decimal((sign, digits, -given.scale)), data_type)


def _extension(anchor: int, extensions: Mapping[int, str]) -> tuple[pa.DataType, Any]:
    name = extensions.get(anchor, "")
    if name not in _EXTENSION_TYPES:
        raise InvalidInputError(f"the Substrait type {name or anchor!r} is not supported")
    return _EXTENSION_TYPES[name]


def _extension_scalar(given: messages.Literal.UserDefined, extensions: Mapping[int, str]) -> pa.Scalar:
    data_type, wrapper = _extension(given.type_reference, extensions)
    message = wrapper()
    try:
        message.ParseFromString(given.value.value)
        return pa.scalar(message.value, data_type)
    except (DecodeError, pa.ArrowInvalid, OverflowError) as error:
        raise InvalidInputError(f"a Substrait literal of type {data_type} is damaged: {error}") from None
