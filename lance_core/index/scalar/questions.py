"""Questions to scalar indices: conditions on one column, in the form in which indices answer them.

Semantics are those of `lance_core.expressions`: a null meets no condition but `IsNull`, NaN equals NaN and is
greater than every number, and -0.0 equals 0.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa


@dataclass(frozen=True, eq=False)
class OneOf:
    """Condition `column IN (values)`. The values have the type of the column, and none is null."""

    values: pa.Array


@dataclass(frozen=True)
class Between:
    """Condition that a value lies between two bounds of its type; None is no bound. No bound is null."""

    low: pa.Scalar | None = None
    high: pa.Scalar | None = None
    with_low: bool = True
    """Whether the lower bound meets the condition."""
    with_high: bool = True
    """Whether the upper bound meets the condition."""


@dataclass(frozen=True)
class IsNull:
    """Condition `column IS NULL`."""


@dataclass(frozen=True)
class StartsWith:
    """Condition that the bytes of a text or binary value start with `prefix`."""

    prefix: bytes


@dataclass(frozen=True)
class HasTexts:
    """Condition that a text contains each of some texts. It stands for conditions that may demand more."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class HasWords:
    """Condition that a text contains each of some words: runs of letters and numbers, in the same case."""

    words: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class HasLabels:
    """Condition that a list has some labels as elements.

    Attributes:
        labels: Values of the type of the elements, none of them null.
        every: Whether a list needs all labels; otherwise it needs one of them.
    """

    labels: pa.Array
    every: bool


Question: TypeAlias = OneOf | Between | IsNull | StartsWith | HasTexts | HasWords | HasLabels
