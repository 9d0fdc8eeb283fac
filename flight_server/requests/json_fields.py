"""JSON that others wrote, checked field by field: commands, action bodies and the payload of tickets.

A table maps each field to its checker; a checker takes the field's name and value and returns the value to
use, or raises InvalidInputError naming the field, what was expected and what was found.
"""

import base64
import binascii
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeVar

from flight_server.requests.names import shown
from lance_core.errors import InvalidInputError, UnsupportedFeatureError

MAXIMUM_JSON_BYTES = 1 << 20
MAXIMUM_DEPTH = 32

_LARGEST_INTEGER = (1 << 63) - 1

Checker = Callable[[str, Any], Any]
T = TypeVar("T")


def parse_object(data: bytes) -> dict[str, Any]:
    """Return one JSON object.

    Refused: more than 1 MiB, nesting deeper than 32, duplicate keys, NaN and infinities, text that is not
    UTF-8.
    """
    if len(data) > MAXIMUM_JSON_BYTES:
        raise InvalidInputError(f"JSON of {len(data)} bytes; at most {MAXIMUM_JSON_BYTES}")
    try:
        text = data.decode("utf-8")
        value = _decoder.decode(text)
    except InvalidInputError:  # from the hooks
        raise
    except RecursionError:
        raise InvalidInputError(f"JSON nested deeper than {MAXIMUM_DEPTH}") from None
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"JSON is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"not JSON: {error.msg} at character {error.pos}") from None
    except ValueError:  # an integer of thousands of digits
        raise InvalidInputError("JSON holds a number that is too long") from None
    if not isinstance(value, dict):
        raise InvalidInputError(f"expected a JSON object, found {_type_name(value)}")
    # Few brackets cannot nest deeply, and only an escape can be a lone surrogate in text that was UTF-8.
    if text.count("{") + text.count("[") >= MAXIMUM_DEPTH or "\\u" in text:
        _check_tree(value)
    return value


def check_fields(
    where: str, fields: Any, table: Mapping[str, Checker], required: tuple[str, ...]
) -> dict[str, Any]:
    """Return the checked values of the object `fields`; fields that are not in `table` are refused."""
    if not isinstance(fields, dict):
        raise _wrong(where, "an object", fields)
    for name in fields:
        if name not in table:
            raise InvalidInputError(f"{where}: unknown field {shown(name)}{_near(name, table)}")
    for name in required:
        if name not in fields:
            raise InvalidInputError(f"{where}: the field {name} is missing")
    return {name: table[name](f"{where}.{name}", value) for name, value in fields.items()}


def _near(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the known names that are similar to it."""
    # Late: verbs that read settings do without the core, unless there is an error.
    from lance_core.api.serving import did_you_mean, near_names

    return did_you_mean(name, near_names(name, known))


def string(field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(field, "a string", value)
    return value


def mapping(field: str, value: Any) -> Mapping[str, Any]:
    """Return an object, whose fields are checked where it is used."""
    if not isinstance(value, dict):
        raise _wrong(field, "an object", value)
    return value


def base64_bytes(field: str, value: Any) -> bytes:
    try:
        return base64.b64decode(string(field, value), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInputError(f"{field}: expected base64, found {shown(value)}") from None


def time(field: str, value: Any) -> datetime:
    """Return a time from ISO 8601; a time without a zone is in UTC."""
    try:
        moment = datetime.fromisoformat(string(field, value))
    except ValueError:
        raise InvalidInputError(f"{field}: expected an ISO 8601 time, found {shown(value)}") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def boolean(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(field, "true or false", value)
    return value


def number(field: str, value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong(field, "a number", value)
    try:
        finite = math.isfinite(as_float := float(value))
    except OverflowError:  # an integer of hundreds of digits
        finite = False
    if not finite:
        raise InvalidInputError(f"{field}: expected a number that a double can hold")
    return as_float


def integer(minimum: int = 0, maximum: int = _LARGEST_INTEGER) -> Callable[[str, Any], int]:
    """Return a check for integers of a range, written as a number or (for clients without 64-bit numbers) as
    a string.
    """

    def check(field: str, value: Any) -> int:
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}", value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise _wrong(field, "an integer", value)
        if not minimum <= value <= maximum:
            raise InvalidInputError(f"{field}: expected {minimum} to {maximum}, found {value}")
        return value

    return check


def integers(minimum: int = 0, maximum: int = _LARGEST_INTEGER) -> Callable[[str, Any], tuple[int, ...]]:
    """Return a check like `list_of(integer(minimum, maximum))` that is fast for thousands of plain
    numbers.
    """
    one_by_one = list_of(integer(minimum, maximum))

    def check(field: str, value: Any) -> tuple[int, ...]:
        are_plain = isinstance(value, list) and set(map(type, value)) == {int}
        if are_plain and min(value) >= minimum and max(value) <= maximum:
            return tuple(value)
        return one_by_one(field, value)

    return check


def list_of(item: Callable[[str, Any], T]) -> Callable[[str, Any], tuple[T, ...]]:
    def check(field: str, value: Any) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise _wrong(field, "a list", value)
        return tuple(item(f"{field}[{position}]", entry) for position, entry in enumerate(value))

    return check


def one_of(choices: tuple[str, ...]) -> Callable[[str, Any], str]:
    def check(field: str, value: Any) -> str:
        if value not in choices:
            raise InvalidInputError(
                f"{field}: expected one of {', '.join(choices)}, found {shown(str(value))}"
                f"{_near(str(value), choices)}"
            )
        return str(value)

    return check


def unsupported(field: str, value: Any) -> NoReturn:
    """Return a check that refuses a documented field which this release does not support."""
    raise UnsupportedFeatureError(f"{field} is not supported yet")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of `pairs`; a key that appears twice is refused."""
    result = dict(pairs)
    if len(result) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise InvalidInputError(f"key {shown(counts.most_common(1)[0][0])} appears twice")
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidInputError(f"{name} is not a JSON value")


_decoder = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=_refuse_constant)


def _check_tree(root: Any) -> None:
    """Refuse nesting deeper than `MAXIMUM_DEPTH` and strings that no encoding can carry (lone surrogates)."""
    level: list[Any] = [root]
    for _ in range(MAXIMUM_DEPTH):
        strings = [value for value in level if isinstance(value, str)]
        strings += [key for value in level if isinstance(value, dict) for key in value]
        try:
            "".join(strings).encode()
        except UnicodeEncodeError:
            raise InvalidInputError("a JSON string holds a lone surrogate") from None
        level = [
            child
            for value in level
            if isinstance(value, dict | list)
            for child in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise InvalidInputError(f"JSON nested deeper than {MAXIMUM_DEPTH}")


def _type_name(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "an integer"}
    return "null" if value is None else names.get(type(value), "a number")


def _wrong(field: str, expected: str, value: Any) -> InvalidInputError:
    return InvalidInputError(f"{field}: expected {expected}, found {_type_name(value)}")
