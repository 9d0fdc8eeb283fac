"""Comparisons of a function of a column with a constant, as comparisons of the column itself.

`round(x) = 3` holds for the numbers from 2.5 to 3.5, `abs(x) < 2` for those between -2 and 2, and
`CAST(i AS STRING) = '77'` for the integer 77. A comparison of the column is evaluated on encoded pages;
statistics and indices answer it, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from lance_core.expressions.coercion import is_string
from lance_core.expressions.comparisons import FLIPPED
from lance_core.expressions.tree import (
    And,
    Call,
    Cast,
    Column,
    Comparison,
    Expression,
    IsIn,
    Literal,
    Not,
    Or,
)
from lance_core.schema.arrow_values import array_of, scalar_of, stored_integer

_MOST_DIGITS = 20
"""Digits of the longest integer, with its sign."""
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 7 * 86_400}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_MONDAY = 4
"""Days from 1970 to a first day of a week."""


class _Edge(NamedTuple):
    """The least values of a column, from `value` on, or if not `is_included`, above it."""

    value: pa.Scalar
    is_included: bool

    def holds(self, column: Expression, *, above: bool) -> Comparison:
        """Return the condition that a value of a column is one of them; unless `above`, that it is none."""
        op = (">=" if self.is_included else ">") if above else ("<" if self.is_included else "<=")
        return Comparison(op, column, Literal(self.value))


class _Edges(NamedTuple):
    """Edges of a function that never decreases: where it reaches a constant, and where it passes it.

    Both are the same if the constant is no value of the function.
    """

    reached: _Edge
    passed: _Edge


def compared(condition: Comparison) -> Expression:
    """Return a comparison with the same result, of the argument of the function on its left side; the
    condition itself if there is none.
    """
    op, left, constant = condition.op, condition.left, condition.right
    if not isinstance(constant, Literal) or not constant.value.is_valid:
        return condition
    if _is_text_of_integer(left) and op in ("=", "!="):
        assert isinstance(left, Cast)
        number = _integer(constant.value.as_py(), left.operand.type)
        if number is not None:
            return Comparison(op, left.operand, Literal(stored_integer(number, left.operand.type)))
        return _never(left.operand) if op == "=" else Not(_never(left.operand))
    if not isinstance(left, Call):
        return condition
    argument = left.arguments[0]
    if not isinstance(argument, Column) or argument.type != left.type:
        return condition
    if left.function == "abs" and types.is_floating(left.type):
        return _of_size(op, argument, constant.value) or condition
    edges = _edges(left, constant.value)
    if edges is None:
        return condition
    reached, passed = edges
    if op in (">=", "<"):
        return reached.holds(argument, above=op == ">=")
    if op in (">", "<="):
        return passed.holds(argument, above=op == ">")
    if reached == passed:
        return _never(argument) if op == "=" else Not(_never(argument))
    if op == "=":
        return And((reached.holds(argument, above=True), passed.holds(argument, above=False)))
    return Or((reached.holds(argument, above=False), passed.holds(argument, above=True)))


def listed(condition: IsIn) -> IsIn:
    """Return a condition with the same result that looks for integers instead of their texts, if it looks for
    those; else the condition itself.
    """
    if not _is_text_of_integer(condition.operand):
        return condition
    assert isinstance(condition.operand, Cast)
    integers = condition.operand.operand
    numbers = [_integer(text, integers.type) for text in condition.values.to_pylist()]
    fitting = np.array([number for number in numbers if number is not None], integers.type.to_pandas_dtype())
    return IsIn(integers, array_of(fitting), condition.has_null)


def _never(operand: Expression) -> IsIn:
    """Return the condition that is false for all values, and null for null."""
    return IsIn(operand, pa.nulls(0, operand.type), False)


def _is_text_of_integer(operand: Expression) -> bool:
    return isinstance(operand, Cast) and is_string(operand.type) and types.is_integer(operand.operand.type)


def _integer(text: str, data_type: pa.DataType) -> int | None:
    """Return the integer whose text this is; None if no integer of the type has this text."""
    if len(text) > _MOST_DIGITS or not text.removeprefix("-").isdecimal():
        return None
    number = int(text)
    limits = np.iinfo(data_type.to_pandas_dtype())
    return number if str(number) == text and limits.min <= number <= limits.max else None


def _of_size(op: str, column: Column, size: pa.Scalar) -> Expression | None:
    """Return a condition on a float column with the result of `abs(column) op size`; None if the size is NaN.

    A NaN in the column is greater than every other number, whatever its sign.
    """
    number = size.as_py()
    if math.isnan(number):
        return None
    if number < 0 and op in ("=", "!="):
        return _never(column) if op == "=" else Not(_never(column))
    mirrored = Comparison(FLIPPED[op], column, Literal(scalar_of(-number, size.type)))
    join = Or if op in ("=", ">", ">=") else And
    return join((Comparison(op, column, Literal(size)), mirrored))


def _edges(call: Call, constant: pa.Scalar) -> _Edges | None:
    """Return where a function of a column has a constant; None if it has another form than these."""
    if call.function in ("date_trunc", "datetrunc"):
        return _truncated(call, constant)
    edge = _ROUNDINGS.get(call.function)
    if edge is None or not types.is_floating(call.type):
        return None
    if len(call.arguments) > 1:  # the number of digits
        digits = call.arguments[1]
        if not isinstance(digits, Literal) or digits.value.as_py() != 0:
            return None
    # The numbers beside greater ones are no fractions, and their halves have no floats.
    number, most = constant.as_py(), 2.0 ** (np.finfo(call.type.to_pandas_dtype()).nmant - 1)
    if not abs(number) < most:
        return None

    def at(integer: int) -> _Edge:
        value, is_included = edge(integer)
        return _Edge(scalar_of(float(value), call.type), is_included)

    return _Edges(at(math.ceil(number)), at(math.floor(number) + 1))


def _half(integer: int) -> tuple[float, bool]:
    return integer - 0.5, integer > 0


def _cut_off(integer: int) -> tuple[float, bool]:
    return (integer, True) if integer > 0 else (integer - 1, False)


_ROUNDINGS: dict[str, Callable[[int], tuple[float, bool]]] = {
    "floor": lambda integer: (integer, True),
    "ceil": lambda integer: (integer - 1, False),
    "round": _half,
    "trunc": _cut_off,
}
"""By function, the numbers that become an integer or more: from which on, and whether it is included."""


def _truncated(call: Call, constant: pa.Scalar) -> _Edges | None:
    """Return the edges of `date_trunc`. Steps of local time in a zone have several lengths."""
    unit = call.arguments[1]
    if not isinstance(unit, Literal) or call.type.tz is not None:
        return None
    name, ticks = unit.value.as_py().lower(), _TICKS[call.type.unit]
    start, end = _steps(name, ticks, constant.value)
    try:
        passed = _Edge(stored_integer(end, call.type), True)
    except OverflowError:
        return None
    return _Edges(_Edge(constant, True) if start == constant.value else passed, passed)


def _steps(name: str, ticks: int, moment: int) -> tuple[int, int]:
    """Return the start and the end of the step of a time with `ticks` per second."""
    if name in _MONTHS:
        day = ticks * _SECONDS["day"]
        month = int(np.datetime64(moment // day, "D").astype("datetime64[M]").astype(np.int64))
        first = month // _MONTHS[name] * _MONTHS[name]
        edges = np.array([first, first + _MONTHS[name]]).astype("datetime64[M]").astype("datetime64[D]")
        start, end = (int(edge) * day for edge in edges.astype(np.int64))
        return start, end
    seconds = _SECONDS.get(name)
    # finer steps than the unit of the time do not change it
    step = ticks * seconds if seconds else max(ticks // {"millisecond": 10**3, "microsecond": 10**6}[name], 1)
    origin = _MONDAY * ticks * _SECONDS["day"] if name == "week" else 0
    start = moment - (moment - origin) % step
    return start, start + step
