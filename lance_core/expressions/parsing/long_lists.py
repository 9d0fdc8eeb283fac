"""Lists of constants in SQL, read without the parser, which takes longer than the search for the values.

A list of four or more numbers or texts after IN is replaced by one text that stands for it. The reader of the
parsed expression puts the values back. If anything about the text is unusual, it is parsed as it is.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from lance_core.expressions.coercion import is_string, value_type
from lance_core.expressions.parsing.shapes import UNUSUAL
from lance_core.schema.arrow_values import array_of, array_of_texts

_LEAST_VALUES = 4
_MARK = "\ue000"
"""Private character around the number of a list. A text that has it is not changed."""
_UNUSUAL = re.compile(rf"{UNUSUAL}|{_MARK}")
_NUMBER, _TEXT = r"-?\d{1,18}", r"'[^']*'"
_LIST = re.compile(
    "|".join(
        rf"\bIN\s*\(\s*((?:{value}\s*,\s*){{{_LEAST_VALUES - 1},}}{value})\s*\)" for value in (_NUMBER, _TEXT)
    ),
    re.IGNORECASE,
)


class UnfitList(Exception):  # noqa: N818  no error: the text is parsed as it is
    """A list does not fit the operand before it."""


def without_lists(text: str, most_values: int) -> tuple[str, list[pa.Array]]:
    """Return a text without its long lists, and the lists as arrays of int64 or string.

    Lists of more than `most_values` stay in the text.
    """
    lists: list[pa.Array] = []
    if len(text) < 2 * _LEAST_VALUES or _UNUSUAL.search(text):
        return text, lists
    parts, end = [], 0
    for found in _LIST.finditer(text):
        between = text[end : found.start()]
        if between.count("'") % 2:  # the list is inside a text
            return text, []
        numbers, texts = found.groups()
        if numbers is not None:
            values = array_of(np.array(list(map(int, numbers.split(","))), np.int64))
        elif "''" in texts:  # a quote inside a text, or an empty text
            return text, []
        else:
            values = array_of_texts(re.split(r"'\s*,\s*'", texts[1:-1]), pa.string())
        if len(values) > most_values:
            return text, []
        parts.append(f"{between}IN ('{_MARK}{len(lists)}{_MARK}')")
        lists.append(values)
        end = found.end()
    if text.count("'", end) % 2:
        return text, []
    return "".join(parts) + text[end:], lists


def list_number(text: str) -> int | None:
    """Return the number of the list that a text of `without_lists` stands for; None for other texts."""
    return int(text.strip(_MARK)) if text.startswith(_MARK) and text.strip(_MARK).isdigit() else None


def fitted(values: pa.Array, operand: pa.DataType) -> pa.Array:
    """Return the values of a list in the type of the column before it.

    Raises:
        UnfitList: The column has another kind of values, or a value is out of its range.
    """
    kind = value_type(operand)
    fits = types.is_integer(kind) if types.is_integer(values.type) else is_string(kind)
    if not fits:
        raise UnfitList
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise UnfitList from None
