"""Conditions that kernels evaluate on the pages of a column, without arrays of the decoded values.

Numbers are compared with constants a few mini-blocks at a time, while they are in the cache of the processor.
For a page with a dictionary, a condition is evaluated once per item, and the indices are looked up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.values import as_buffer, fixed_bits
from lance_core.errors import InvalidInputError
from lance_core.expressions.comparisons import FLIPPED, viewed
from lance_core.expressions.tree import (
    And,
    ArrowExpression,
    Call,
    Cast,
    Column,
    Comparison,
    Expression,
    IsIn,
    IsNull,
    Literal,
    Not,
    Or,
    walk,
)
from lance_core.file.page_ranges import PageRange, decode_page_ranges
from lance_core.process.counters import PAGE_READS
from lance_core.schema.arrow_values import numbers_of

# A condition is evaluated for the items of a dictionary if there are this many rows per item at least.
_ROWS_PER_ITEM = 4
# Each interval is a pass over the numbers. With more of them, it costs less to look up each number in a set.
_MOST_INTERVALS = 32


Piece: TypeAlias = tuple[kernels.MiniBlocks | kernels.FlatPage, kernels.PieceReader, int, int]
"""Rows of pages; see `kernels.decode_rows`."""


class _Interval(NamedTuple):
    """Numbers from `lower` to `upper`, both included.

    `has_above` says whether floats above `upper`, and NaN, which is the greatest, are in the interval, too.
    """

    lower: float
    upper: float
    has_above: bool = False

    def intersected(self, other: _Interval) -> _Interval:
        """Return the numbers that are in both intervals. There are none if `lower` is above `upper`."""
        return _Interval(
            max(self.lower, other.lower), min(self.upper, other.upper), self.has_above and other.has_above
        )


@dataclass(frozen=True)
class _Intervals:
    """Numbers of one type that are in one of some intervals; or if `is_outside`, in none of them."""

    kind: np.dtype[Any]
    parts: tuple[_Interval, ...]
    is_outside: bool = False

    def joined(self, other: _Numbers) -> _Intervals | None:
        """Return the numbers that are in both; None if no kernel can look for them."""
        if self.is_outside or not isinstance(other, _Intervals) or other.is_outside:
            return None
        found = [one.intersected(another) for one in self.parts for another in other.parts]
        return _intervals(self.kind, [part for part in found if part.lower <= part.upper])

    def united(self, other: _Numbers) -> _Intervals | None:
        """Return the numbers that are in one of both; None if no kernel can look for them."""
        if self.is_outside or not isinstance(other, _Intervals) or other.is_outside:
            return None
        return _intervals(self.kind, [*self.parts, *other.parts])

    def negated(self) -> _Intervals:
        """Return all other numbers."""
        return replace(self, is_outside=not self.is_outside)

    def match(self, piece: Piece) -> tuple[kernels.Block, int] | None:
        """Return which rows of a piece have such numbers; see `kernels.match_intervals`."""
        bounds = [(self._bits(part.lower), self._bits(part.upper), part.has_above) for part in self.parts]
        bits, is_float = 8 * self.kind.itemsize, self.kind.kind == "f"
        return kernels.match_intervals(piece, bits, is_float, bounds, self.is_outside)

    def _bits(self, number: float) -> int:
        if self.kind.kind != "f":
            return int(number) & ((1 << 8 * self.kind.itemsize) - 1)
        return int.from_bytes(np.array(number, self.kind).tobytes(), "little")


@dataclass(frozen=True)
class _Listed:
    """Integers of a list; or if `is_outside`, all others."""

    numbers: kernels.NumberSet
    is_outside: bool = False

    def joined(self, other: _Numbers) -> None:
        """Return None: no kernel looks for numbers of two lists."""

    united = joined

    def negated(self) -> _Listed:
        """Return all other numbers."""
        return replace(self, is_outside=not self.is_outside)

    def match(self, piece: Piece) -> tuple[kernels.Block, int] | None:
        """Return which rows of a piece have such numbers; see `kernels.match_listed`."""
        return kernels.match_listed(piece, self.numbers, self.is_outside)


@dataclass(frozen=True)
class _WithRemainder:
    """Integers with a remainder by a divisor; or if `is_outside`, all others."""

    kind: np.dtype[Any]
    divisor: int
    rest: int
    is_outside: bool

    def joined(self, other: _Numbers) -> None:
        """Return None: no kernel looks for more than a remainder."""

    united = joined

    def negated(self) -> _WithRemainder:
        """Return all other numbers."""
        return replace(self, is_outside=not self.is_outside)

    def match(self, piece: Piece) -> tuple[kernels.Block, int] | None:
        """Return which rows of a piece have such numbers; see `kernels.match_remainder`."""
        bits, is_signed = 8 * self.kind.itemsize, self.kind.kind == "i"
        rest = self.rest & ((1 << bits) - 1)
        return kernels.match_remainder(piece, bits, is_signed, self.divisor, rest, self.is_outside)


_Numbers: TypeAlias = _Intervals | _Listed | _WithRemainder


def _intervals(kind: np.dtype[Any], parts: Sequence[_Interval]) -> _Intervals | None:
    """Return the numbers in intervals; None if there are no or too many of them."""
    return _Intervals(kind, tuple(parts)) if 1 <= len(parts) <= _MOST_INTERVALS else None


@dataclass(frozen=True)
class PageCondition:
    """Condition on one top-level column, which is true, false or null for each value by itself."""

    expression: Expression
    column: Column
    numbers: _Numbers | None
    is_of_truth: bool = False
    """Whether the column has truth values, and no value can make the condition fail."""

    @property
    def is_cheap(self) -> bool:
        """Whether it is evaluated on few values, too, in fewer steps than on decoded ones."""
        return self.numbers is not None or self.is_of_truth

    def joined(self, other: PageCondition) -> PageCondition | None:
        """Return the condition that both hold, if intervals are that; `other` is on the same column."""
        if self.numbers is None or other.numbers is None:
            return None
        numbers = self.numbers.joined(other.numbers)
        return (
            None
            if numbers is None
            else PageCondition(And((self.expression, other.expression)), self.column, numbers)
        )

    def matches(self, ranges: Sequence[PageRange]) -> pa.BooleanArray | None:
        """Return for each row of consecutive page ranges whether the condition is true.

        Returns None if the column has to be decoded: its pages have another encoding, or are damaged.
        """
        parts = []
        for one in ranges:
            found = self._matches(one)
            if found is None:
                return None
            parts.append(found)
        if not self.is_of_truth:  # the pages were decoded, which counts them
            PAGE_READS.add(amount=len(ranges))
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def _matches(self, one: PageRange) -> pa.BooleanArray | None:
        if one.list_type is not None or one.leaf_type != self.column.type:
            return None
        pages = one.pages
        if self.is_of_truth:
            return self._of_bits(one)
        piece = pages, one.reader, one.start, one.end
        if pages.items is not None:
            found = self._by_items(one, *pages.items)
            matched = None if found is None else kernels.match_items(piece, *found)
        elif self.numbers is not None:
            matched = self.numbers.match(piece)
        else:
            return None
        if matched is None:
            return None
        return pa.BooleanArray.from_buffers(pa.bool_(), one.end - one.start, [None, as_buffer(matched[0])])

    def _of_bits(self, one: PageRange) -> pa.BooleanArray | None:
        """Return what `_matches` does for truth values, which take no more memory decoded."""
        from lance_core.expressions.evaluate import passing

        (values,) = decode_page_ranges([one])
        return (
            None
            if values is None
            else passing(self.expression, pa.record_batch({self.column.path[0]: values}))
        )

    def _by_items(
        self, one: PageRange, offsets: object | None, data: object, num_items: int, item_bits: int
    ) -> tuple[pa.Buffer, bool] | None:
        """Return a byte per dictionary item, 1 if the condition is true for it, and whether null meets it."""
        if num_items * _ROWS_PER_ITEM > one.end - one.start:
            return None
        from lance_core.expressions.evaluate import passing

        buffers = [pa.py_buffer(part) for part in (offsets, data) if part is not None]
        validity = None
        if isinstance(one.pages, kernels.FlatPage):  # its item 0 is null
            validity = pa.array(np.arange(num_items) > 0).buffers()[1]
        items = pa.Array.from_buffers(one.leaf_type, num_items, [validity, *buffers])
        name = self.column.path[0]
        try:
            found = passing(self.expression, pa.record_batch({name: items}))
            null = passing(self.expression, pa.record_batch({name: pa.nulls(1, one.leaf_type)}))
        except InvalidInputError:  # perhaps due to an item that no row has
            return None
        return found.cast(pa.uint8()).buffers()[1], bool(null[0].as_py())


_WITH_COLUMNS = (Column, ArrowExpression)
"""Nodes that name columns."""
_OF_TRUTH = (And, Column, Comparison, IsNull, Literal, Not, Or)
"""Nodes that have a result for all truth values."""


def page_alternatives(expression: Expression) -> tuple[PageCondition, ...]:
    """Return conditions for pages of one column each, of which a row has to meet one; none if there are none.

    Alternatives on one column become one condition.
    """
    one = page_condition(expression)
    if one is not None:
        return (one,)
    if not isinstance(expression, Or):
        return ()
    by_column: dict[Column, list[Expression]] = {}
    for part in expression.parts:
        single = page_condition(part)
        if single is None:
            return ()
        by_column.setdefault(single.column, []).append(part)
    found = [page_condition(Or(tuple(parts)) if len(parts) > 1 else parts[0]) for parts in by_column.values()]
    # Conditions that pages may not answer come first, before time is spent on the others.
    return tuple(sorted(filter(None, found), key=lambda condition: condition.is_cheap))


def page_condition(expression: Expression) -> PageCondition | None:
    """Return the condition for pages; None if it is on several columns, or on the child of a struct."""
    column = _only_column(expression)
    if column is None or len(column.path) != 1:
        return None
    is_of_truth = pa.types.is_boolean(column.data_type) and all(
        isinstance(node, _OF_TRUTH) for node in walk(expression)
    )
    return PageCondition(expression, column, _numbers(expression), is_of_truth)


def _only_column(expression: Expression) -> Column | None:
    """Return the column that an expression names; None if it names several, or is partly Arrow's."""
    if isinstance(expression, Comparison) and isinstance(expression.right, Literal):
        left = expression.left
        if isinstance(left, Column):  # most conditions are such, and need no walk
            return left
    named = [node for node in walk(expression) if isinstance(node, _WITH_COLUMNS)]
    first = named[0] if named else None
    return first if isinstance(first, Column) and all(node == first for node in named) else None


def _numbers(expression: Expression) -> _Numbers | None:
    """Return the numbers that meet a condition of comparisons of a numeric column with constants; None for
    other conditions.
    """
    if isinstance(expression, Comparison):
        return _compared(expression)
    if isinstance(expression, And | Or):
        join = _joined if isinstance(expression, And) else _united
        return reduce(join, [_numbers(part) for part in expression.parts])
    if isinstance(expression, Not) and (
        isinstance(expression.operand, Comparison)
        or (isinstance(expression.operand, IsIn) and not expression.operand.has_null)
    ):
        found = _numbers(expression.operand)
        return None if found is None else found.negated()
    return _listed(expression) if isinstance(expression, IsIn) else None


def _compared(comparison: Comparison) -> _Numbers | None:
    """Return the numbers that meet a comparison; see `_numbers`."""
    op, left, right = comparison.op, comparison.left, comparison.right
    if isinstance(left, Literal):
        op, left, right = FLIPPED[op], right, left
    if isinstance(left, Call):
        return _with_remainder(op, left, right)
    if not isinstance(left, Column) or not isinstance(right, Literal):
        return None
    value = right.value
    kind = _number_type(left.data_type) if left.data_type == value.type else None
    if kind is None or not value.is_valid:
        return None
    if pa.types.is_temporal(value.type):
        value = viewed(value, pa.from_numpy_dtype(kind))
    constant = value.as_py()
    interval = _floats(op, kind, constant) if kind.kind == "f" else _integers(op, kind, constant)
    return None if interval is None else _Intervals(kind, (interval,), op == "!=")


def _joined(one: _Numbers | None, other: _Numbers | None) -> _Numbers | None:
    return None if one is None or other is None else one.joined(other)


def _united(one: _Numbers | None, other: _Numbers | None) -> _Numbers | None:
    return None if one is None or other is None else one.united(other)


@lru_cache(maxsize=64)  # callers repeat filters
def _listed(condition: IsIn) -> _Numbers | None:
    """Return the integers of a list: as intervals if many of them follow one another; see `_numbers`."""
    kind = _number_type(condition.operand.type)
    if kind is None or kind.kind == "f" or not isinstance(condition.operand, Column):
        return None
    if condition.values.type != condition.operand.type or not len(condition.values):
        return None
    numbers = np.unique(numbers_of(condition.values.view(pa.from_numpy_dtype(kind))))
    breaks = np.flatnonzero(numbers[1:] - numbers[:-1] != 1) + 1
    if len(breaks) >= _MOST_INTERVALS:
        return _Listed(kernels.NumberSet(numbers, 8 * kind.itemsize))
    runs = np.split(numbers, breaks)
    return _intervals(kind, [_Interval(int(run[0]), int(run[-1])) for run in runs])


def _with_remainder(op: str, call: Call, wanted: Expression) -> _Numbers | None:
    """Return the integers of a column with a remainder by a constant; None for other conditions."""
    if op not in ("=", "!=") or call.function != "%" or not isinstance(wanted, Literal):
        return None
    number, divisor = call.arguments
    column = number.operand if isinstance(number, Cast) else number
    if not isinstance(column, Column) or not isinstance(divisor, Literal):
        return None
    if not all(pa.types.is_integer(each.type) for each in (column, call, divisor, wanted)):
        return None
    kind: np.dtype[Any] = np.dtype(column.type.to_pandas_dtype())
    by, rest = divisor.value.as_py(), wanted.value.as_py()
    if by is None or rest is None or not np.can_cast(kind, call.type.to_pandas_dtype()):
        return None
    least, most = _limits(kind)
    # No remainder is out of the range of the column. The evaluation raises the error of a division by zero.
    if not 0 < abs(by) <= most or not least <= rest <= most:
        return None
    return _WithRemainder(kind, abs(by), rest, op == "!=")


def _integers(op: str, kind: np.dtype[Any], constant: int) -> _Interval | None:
    least, most = _limits(kind)
    lower = {"=": constant, "!=": constant, ">=": constant, ">": constant + 1}.get(op, least)
    upper = {"=": constant, "!=": constant, "<=": constant, "<": constant - 1}.get(op, most)
    return _Interval(lower, upper) if least <= lower <= upper <= most else None


@cache
def _limits(kind: np.dtype[Any]) -> tuple[int, int]:
    """Return the least and the greatest number of a type of integers."""
    limits = np.iinfo(kind)
    return int(limits.min), int(limits.max)


def _floats(op: str, kind: np.dtype[Any], constant: float) -> _Interval | None:
    if math.isnan(constant):
        return None
    if op in ("=", "!="):
        return _Interval(constant, constant)
    if op in (">", "<"):  # the next number is the bound
        if math.isinf(constant):
            return None
        beyond = kind.type(math.inf if op == ">" else -math.inf)
        with np.errstate(over="ignore"):  # infinity follows the greatest finite number
            constant = float(np.nextafter(kind.type(constant), beyond))
    if op in (">", ">="):
        return _Interval(constant, math.inf, True)
    return _Interval(-math.inf, constant)


def _number_type(data_type: pa.DataType) -> np.dtype[Any] | None:
    """Return the type of the numbers that stand for values of a type, in the same order; None without one."""
    if pa.types.is_integer(data_type) or data_type in (pa.float32(), pa.float64()):
        kind: np.dtype[Any] = np.dtype(data_type.to_pandas_dtype())
        return kind
    if pa.types.is_temporal(data_type) and fixed_bits(data_type) in (32, 64):
        return np.dtype(f"i{fixed_bits(data_type) // 8}")
    return None
