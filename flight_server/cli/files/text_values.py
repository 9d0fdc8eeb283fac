"""Text of CSV cells and JSON strings as values, and which types keep what a text says.

Two rules: a declared type has to parse every text. An inferred type has to parse and keep every text, so that
nothing is lost that somebody may have meant (`007`, `+1`, `12E4`, 30 digits).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

_PREFIXES = (1 << 8, 1 << 16)
"""Numbers of first cells to try before all cells: most types that do not fit fail early."""

_SHOWN_CHARACTERS = 40


class Conversion(ABC):
    """Conversion of text to values of one type."""

    type: pa.DataType

    @abstractmethod
    def values(self, text: pa.Array) -> pa.Array:
        """Return the values of `text`, of the same length; nulls stay null.

        Raises:
            pa.ArrowInvalid: a text is no value of the type; `first_failure` finds it.
        """

    def first_failure(self, text: pa.Array) -> int | None:
        """Return the position of the first text that `values` refuses, or None."""
        for size in (*(size for size in _PREFIXES if size < len(text)), len(text)):
            failure = first_failure(size, lambda start, stop: self.values(text.slice(start, stop - start)))
            if failure is not None:
                return failure
        return None


def first_failure(size: int, attempt: Callable[[int, int], Any]) -> int | None:
    """Return the first of `size` positions that makes `attempt(start, stop)` raise `ArrowInvalid`, or None.

    Halves the range that fails, so that all attempts together take about as long as three of the whole.
    """
    start, stop = 0, size
    if not _fails(attempt, start, stop):
        return None
    while stop - start > 1:
        middle = (start + stop) // 2
        if _fails(attempt, start, middle):
            stop = middle
        else:
            start = middle
    return start


def _fails(attempt: Callable[[int, int], Any], start: int, stop: int) -> bool:
    try:
        attempt(start, stop)
    except pa.ArrowInvalid:
        return True
    return False


@dataclass(frozen=True)
class Declared(Conversion):
    """Conversion to a type that an option or the dataset gives. A text that is no such value is an error.

    Attributes:
        type: the type, none that is nested.
        decimal_point: of floats and decimals.
        keeps_integers: refuse integers that a float would round.
    """

    type: pa.DataType
    decimal_point: str = "."
    keeps_integers: bool = True

    def values(self, text: pa.Array) -> pa.Array:
        if types.is_dictionary(self.type):
            words = Declared(self.type.value_type, self.decimal_point, self.keeps_integers).values(text)
            return words.dictionary_encode().cast(self.type)
        if types.is_time(self.type):
            return _times(text, self.type)
        if types.is_duration(self.type):
            return pc.cast(pc.cast(text, pa.int64()), self.type)
        if types.is_decimal(self.type):
            return pc.cast(_pointed(text, self.decimal_point), self.type)
        if types.is_floating(self.type):
            return self._floats(_pointed(text, self.decimal_point))
        return pc.cast(text, self.type)

    def _floats(self, text: pa.Array) -> pa.Array:
        values = pc.cast(text, self.type)
        doubles = pc.cast(values, pa.float64())
        _require(pc.invert(pc.and_(pc.is_inf(doubles), pc.match_substring_regex(text, "[0-9]"))))
        if self.keeps_integers:
            is_integer = pc.match_substring_regex(text, "^-?[0-9]+$")
            _require(pc.or_(pc.invert(is_integer), _keeps_digits(text, doubles)))
        return values


@dataclass(frozen=True)
class Inferred(Conversion):
    """Conversion to an inferred type, of which every value can be written as the same text again.

    Attributes:
        type: the type.
        form: regular expression (RE2) of a whole text.
        decimal_point: of floats.
    """

    type: pa.DataType
    form: str
    decimal_point: str = "."

    def values(self, text: pa.Array) -> pa.Array:
        _require(pc.match_substring_regex(text, f"^(?:{self.form})$"))
        if not types.is_floating(self.type):
            return pc.cast(text, self.type)
        text = _pointed(text, self.decimal_point)
        values = pc.cast(text, self.type)
        _require(_keeps_digits(text, values))
        return values


def inferred_types(decimal_point: str = ".") -> tuple[Inferred, ...]:
    """Return the types that text may become by itself, the first that fits counts.

    A boolean has one spelling throughout. A float with an exponent has a decimal point or a sign in the
    exponent: `12E4` may be a code. Integers beyond 64 bits are no floats, even where a float is exact.
    """
    day = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
    minute = f"{day}[T ][0-9]{{2}}:[0-9]{{2}}"
    utc = "(?:Z|[+]00:00)"
    point = f"[{decimal_point}]"
    exponent = "[eE][+-]?[0-9]+"
    whole = "(?:0|[1-9][0-9]*)"
    integer = "(?:0|[1-9][0-9]{0,17})"
    number = f"-?(?:{integer}|{whole}[eE][+-][0-9]+|{whole}?{point}[0-9]+(?:{exponent})?)"
    return (
        *(Inferred(pa.bool_(), words) for words in ("true|false", "True|False", "TRUE|FALSE")),
        Inferred(pa.int64(), "0|-?[1-9][0-9]*"),
        Inferred(pa.date32(), day),
        *(
            Inferred(pa.timestamp(unit, zone), f"{minute}(?::[0-9]{{2}}(?:[.][0-9]{{1,{digits}}})?)?{end}")
            for zone, end in ((None, ""), ("UTC", utc))
            for unit, digits in (("us", 6), ("ns", 9))
        ),
        Inferred(pa.float64(), number, decimal_point),
    )


def shown_text(text: str) -> str:
    """Return a text in quotes, cut off where it is long, for messages."""
    cut = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
    return f"'{cut}'"


def _require(holds: pa.Array) -> None:
    if not pc.all(holds, min_count=0).as_py():
        raise pa.ArrowInvalid("a text is no value of the type, or would change")


def _pointed(text: pa.Array, decimal_point: str) -> pa.Array:
    """Return numbers with Arrow's decimal point. A point between thousands makes the text no number."""
    if decimal_point == ".":
        return text
    return pc.replace_substring(pc.replace_substring(text, ".", "_"), decimal_point, ".")


def _keeps_digits(text: pa.Array, values: pa.Array) -> pa.Array:
    """Return whether the shortest text of each double has the significant digits of the parsed text."""
    return pc.equal(_significant(text), _significant(pc.cast(values, pa.string())))


def _significant(text: pa.Array) -> pa.Array:
    digits = pc.replace_substring_regex(pc.replace_substring_regex(text, "[eE].*", ""), "[^0-9]", "")
    return pc.ascii_trim(digits, "0")


def _times(text: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return times of day. Arrow parses them as parts of timestamps only."""
    _require(pc.match_substring_regex(text, "^[0-9]{2}:"))
    moments = pc.binary_join_element_wise(pa.scalar("1970-01-01"), text, pa.scalar(" "))
    return pc.cast(pc.cast(moments, pa.timestamp(data_type.unit)), data_type)
