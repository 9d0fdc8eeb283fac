"""Values inside JSON documents that conditions are about, and the indices that have them.

An index holds the values at one path in one type: that of the first value when it was built. Conditions on
another type convert the values differently, so the index does not answer them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_core.encodings.json_values import member_path
from lance_core.index.scalar.questions import OneOf, Question

_INT64 = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True)
class JsonValue:
    """Value inside JSON that a condition is about.

    Attributes:
        keys: Names of the members that lead to the value, one inside the other.
        type: Type of the value in the condition.
        is_text: Whether the condition is about the JSON text of the value.
    """

    keys: tuple[str, ...]
    type: pa.DataType
    is_text: bool = False

    def is_at(self, path: str) -> bool:
        """Return whether an index of the values at a path has these values."""
        return member_path(path) == self.keys


def question_about(value: JsonValue, question: Question, stored: pa.DataType) -> Question | None:
    """Return the question to an index with values of the type `stored`; None if it cannot answer.

    Args:
        value: The value.
        question: What the condition says about it.
        stored: Type of the values in the index.
    """
    if not value.is_text:
        return question if value.type == stored else None
    assert isinstance(question, OneOf)
    found: list[Any] = []
    for text in question.values.to_pylist():
        values = _stored_values(text, stored)
        if values is None:
            return None
        found += values
    return OneOf(pa.array(found, stored))


def _stored_values(text: str, stored: pa.DataType) -> list[Any] | None:
    """Return the values that an index may have for a JSON text; None if that is not known."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if value is None or isinstance(value, list | dict):
        return None
    if pa.types.is_string(stored):
        return [value] if isinstance(value, str) else [text]
    if pa.types.is_boolean(stored):
        return [value] if isinstance(value, bool) else None
    if isinstance(value, bool | str):
        return None
    if isinstance(value, int) and value not in _INT64:
        return None
    if pa.types.is_floating(stored):
        return [float(value)]
    return [value] if pa.types.is_integer(stored) and isinstance(value, int) else None
