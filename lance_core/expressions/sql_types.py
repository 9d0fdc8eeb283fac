"""Types and intervals in SQL text."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lance_core.errors import InvalidInputError

_Type = exp.DataType.Type
_TYPES: dict[Any, pa.DataType] = {
    _Type.BOOLEAN: pa.bool_(),
    _Type.TINYINT: pa.int8(),
    _Type.SMALLINT: pa.int16(),
    _Type.INT: pa.int32(),
    _Type.BIGINT: pa.int64(),
    _Type.UTINYINT: pa.uint8(),
    _Type.USMALLINT: pa.uint16(),
    _Type.UINT: pa.uint32(),
    _Type.UBIGINT: pa.uint64(),
    _Type.FLOAT: pa.float32(),
    _Type.DOUBLE: pa.float64(),
    _Type.TEXT: pa.string(),
    _Type.VARCHAR: pa.string(),
    _Type.BINARY: pa.binary(),
    _Type.VARBINARY: pa.binary(),
    _Type.DATE: pa.date32(),
    _Type.TIME: pa.time64("us"),
}
_TIMESTAMPS = {_Type.TIMESTAMP, _Type.DATETIME, _Type.TIMESTAMPNTZ}
_UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}
_INTERVALS = {
    "year": (12, 0, 0),
    "quarter": (3, 0, 0),
    "month": (1, 0, 0),
    "week": (0, 7, 0),
    "day": (0, 1, 0),
    "hour": (0, 0, 3_600_000_000_000),
    "minute": (0, 0, 60_000_000_000),
    "second": (0, 0, 1_000_000_000),
    "millisecond": (0, 0, 1_000_000),
    "microsecond": (0, 0, 1_000),
    "nanosecond": (0, 0, 1),
}
_STEP = re.compile(r"\s*([+-]?\d+)\s*([a-z]+)\s*", re.IGNORECASE)


def sql_type(given: exp.DataType) -> pa.DataType:
    """Return the Arrow type of a type in a CAST.

    Raises:
        InvalidInputError: the type is not supported, or its parameters are invalid.
    """
    parameters = [_parameter(parameter) for parameter in given.expressions]
    if given.this in _TIMESTAMPS and len(parameters) <= 1:
        precision = parameters[0] if parameters else 6
        if precision in _UNITS:
            return pa.timestamp(_UNITS[precision])
    elif given.this == _Type.DECIMAL and len(parameters) == 2:
        precision, scale = parameters
        if 1 <= precision <= 76 and 0 <= scale <= precision:
            return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    elif given.this in _TYPES and not parameters:
        return _TYPES[given.this]
    raise InvalidInputError(
        f"the type {given.sql()!r} is not supported; there are boolean, tinyint, smallint, int and bigint"
        " with or without unsigned, float, double, decimal(precision, scale), string, binary, date, time and"
        " timestamp(0, 3, 6 or 9)"
    )


def _parameter(given: Any) -> int:
    text = given.name
    return int(text) if text.isdecimal() and len(text) < 4 else -1


def parse_interval(text: str) -> pa.MonthDayNano:
    """Return the interval of a text such as `1 day`, `2 months 3 days` or `-90 minutes`.

    Raises:
        InvalidInputError: the text is not an interval, or the interval is too long.
    """
    total = [0, 0, 0]
    position = 0
    while position < len(text.strip()) or position == 0:
        step = _STEP.match(text, position)
        factors = _INTERVALS.get(step[2].lower().removesuffix("s")) if step else None
        if step is None or factors is None:
            raise InvalidInputError(f"{text.strip()!r} is not an interval such as '2 months 3 hours'")
        total = [count + int(step[1]) * factor for count, factor in zip(total, factors, strict=True)]
        position = step.end()
    if any(abs(count) >= 2**31 for count in total[:2]) or abs(total[2]) >= 2**63:
        raise InvalidInputError(f"the interval {text.strip()!r} is too long")
    return pa.MonthDayNano(total)
