"""Names of Arrow types as `arrow_cast` takes them: `Int32`, `Timestamp(ns)`, `FixedSizeList(2, Float32)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lance_core.errors import InvalidInputError

_PLAIN: Mapping[str, pa.DataType] = {
    "Null": pa.null(),
    "Boolean": pa.bool_(),
    **{f"Int{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)},
    **{f"Float{bits}": getattr(pa, f"float{bits}")() for bits in (16, 32, 64)},
    "Utf8": pa.string(),
    "LargeUtf8": pa.large_string(),
    "Binary": pa.binary(),
    "LargeBinary": pa.large_binary(),
    "Date32": pa.date32(),
    "Date64": pa.date64(),
}
_UNITS = {"Second": "s", "Millisecond": "ms", "Microsecond": "us", "Nanosecond": "ns"}
_UNITS |= {unit: unit for unit in _UNITS.values()}
_NESTED: Mapping[str, Callable[..., pa.DataType]] = {
    "FixedSizeBinary": pa.binary,
    "Time32": pa.time32,
    "Time64": pa.time64,
    "Timestamp": pa.timestamp,
    "Duration": pa.duration,
    "Decimal128": lambda precision, scale: pa.decimal128(precision, scale),
    "Decimal256": lambda precision, scale: pa.decimal256(precision, scale),
    "List": pa.list_,
    "LargeList": pa.large_list,
    "FixedSizeList": lambda size, values: pa.list_(values, size),
    "Dictionary": pa.dictionary,
}
_TOKEN = re.compile(r'\s*(?:(\w+)|("[^"]*")|([(),])|$)')
_DEEPEST = 20
"""Levels of brackets above which a name is refused, so that parsing cannot exhaust the stack."""


def arrow_type(name: str) -> pa.DataType:
    """Return the type with this name.

    Raises:
        InvalidInputError: There is no such type, or it is not supported.
    """
    try:
        tokens = _tokens(name)
        found = _argument(tokens, 0)
        if tokens or not isinstance(found, pa.DataType):
            raise ValueError
    except (ValueError, TypeError, IndexError, pa.ArrowException):
        wanted = "a name such as Int32, Timestamp(ns) or FixedSizeList(2, Float32)"
        raise InvalidInputError("type of arrow_cast", expected=wanted, found=name) from None
    return found


def _tokens(name: str) -> list[str]:
    """Return words, texts in quotes, brackets and commas of a name, the last one first."""
    tokens: list[str] = []
    place = 0
    while place < len(name.rstrip()):
        match = _TOKEN.match(name, place)
        if match is None:
            raise ValueError
        tokens.append(next(part for part in match.groups() if part))
        place = match.end()
    return tokens[::-1]


def _argument(tokens: list[str], level: int) -> Any:
    """Read a type, a number, a unit or a time zone off the tokens."""
    word = tokens.pop()
    if word.isdecimal():
        return int(word)
    if word in _UNITS:
        return _UNITS[word]
    if word == "None":
        return None
    if word == "Some":
        return _zone(tokens)
    if word in _PLAIN:
        return _PLAIN[word]
    return _NESTED[word](*_arguments(tokens, level + 1)) if word in _NESTED else _fail()


def _arguments(tokens: list[str], level: int) -> Sequence[Any]:
    if level > _DEEPEST or tokens.pop() != "(":
        _fail()
    found = [_argument(tokens, level)]
    while (token := tokens.pop()) == ",":
        found.append(_argument(tokens, level))
    if token != ")":
        _fail()
    return found


def _zone(tokens: list[str]) -> str:
    opening, zone, closing = tokens.pop(), tokens.pop(), tokens.pop()
    if (opening, closing) != ("(", ")") or not zone.startswith('"'):
        _fail()
    return zone.strip('"')


def _fail() -> Any:
    raise ValueError
