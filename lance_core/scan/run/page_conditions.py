"""Conditions that kernels evaluate on the pages of a column, without arrays of the decoded values.

Numbers are compared with constants a few mini-blocks at a time, while they are in the cache of the processor.
For a page with a dictionary, a condition is evaluated once per item, and the indices are looked up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.counters import PAGE_READS
from lance_core.encodings.values import as_buffer, fixed_bits
from lance_core.errors import InvalidInputError
from lance_core.expressions.comparisons import FLIPPED, viewed
from lance_core.expressions.tree import And, ArrowExpression, Column, Comparison, Expression, Literal, walk
from lance_core.file.page_ranges import PageRange

# A condition is evaluated for the items of a dictionary if there are this many rows per item at least.
_ROWS_PER_ITEM = 4


@dataclass(frozen=True)
class _Interval:
    """Numbers of one type from `lower` to `upper`, both included.

    Attributes:
        has_above: Whether floats above `upper`, and NaN, which is the greatest, are in the interval, too.
        is_outside: Whether the numbers outside the interval are meant instead.
    """

    kind: np.dtype[Any]
    lower: float
    upper: float
    has_above: bool
    is_outside: bool = False

    def joined(self, other: _Interval) -> _Interval | None:
        """Return the numbers that are in both intervals; None if they are no interval."""
        if self.is_outside or other.is_outside:
            return None
        lower, upper = max(self.lower, other.lower), min(self.upper, other.upper)
        return (
            _Interval(self.kind, lower, upper, self.has_above and other.has_above) if lower <= upper else None
        )

    def for_kernel(self) -> tuple[int, bool, int, int, bool, bool]:
        """Return the arguments of `kernels.match_interval`."""
        width = self.kind.itemsize
        lower, upper = (
            int.from_bytes(np.array(bound, self.kind).tobytes(), "little")
            for bound in (self.lower, self.upper)
        )
        return 8 * width, self.kind.kind == "f", lower, upper, self.has_above, self.is_outside


@dataclass(frozen=True)
class PageCondition:
    """Condition on one top-level column, which is true, false or null for each value by itself."""

    expression: Expression
    column: Column
    interval: _Interval | None

    def joined(self, other: PageCondition) -> PageCondition | None:
        """Return the condition that both hold, if one interval is that; `other` is on the same column."""
        if self.interval is None or other.interval is None:
            return None
        interval = self.interval.joined(other.interval)
        return (
            None
            if interval is None
            else PageCondition(And((self.expression, other.expression)), self.column, interval)
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
            parts.append(pa.BooleanArray.from_buffers(pa.bool_(), one.end - one.start, [None, found]))
        PAGE_READS.add(amount=len(ranges))
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def _matches(self, one: PageRange) -> pa.Buffer | None:
        if one.list_type is not None or one.leaf_type != self.column.type:
            return None
        piece = one.pages, one.reader, one.start, one.end
        if one.pages.items is not None:
            found = self._by_items(one, *one.pages.items)
            matched = None if found is None else kernels.match_items(piece, *found)
        elif self.interval is not None:
            matched = kernels.match_interval(piece, *self.interval.for_kernel())
        else:
            return None
        return None if matched is None else as_buffer(matched[0])

    def _by_items(
        self, one: PageRange, offsets: object, data: object, num_items: int, offset_bits: int
    ) -> tuple[pa.Buffer, bool] | None:
        """Return a byte per dictionary item, 1 if the condition is true for it, and whether null meets it."""
        if num_items * _ROWS_PER_ITEM > one.end - one.start:
            return None
        from lance_core.expressions.evaluate import passing

        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        items = pa.Array.from_buffers(one.leaf_type, num_items, buffers)
        name = self.column.path[0]
        try:
            found = passing(self.expression, pa.record_batch({name: items}))
            null = passing(self.expression, pa.record_batch({name: pa.nulls(1, one.leaf_type)}))
        except InvalidInputError:  # perhaps due to an item that no row has
            return None
        return found.cast(pa.uint8()).buffers()[1], bool(null[0].as_py())


def page_condition(expression: Expression) -> PageCondition | None:
    """Return the condition for pages; None if it is on several columns, or on the child of a struct."""
    named = [node for node in walk(expression) if isinstance(node, Column | ArrowExpression)]
    first = named[0] if named else None
    if not isinstance(first, Column) or len(first.path) != 1 or any(node != first for node in named):
        return None
    return PageCondition(expression, first, _interval(expression))


def _interval(expression: Expression) -> _Interval | None:
    """Return the interval of a comparison of a numeric column with a constant; None for other conditions."""
    if isinstance(expression, And):
        parts = [_interval(part) for part in expression.parts]
        return reduce(lambda one, other: None if one is None or other is None else one.joined(other), parts)
    if not isinstance(expression, Comparison):
        return None
    op, left, right = expression.op, expression.left, expression.right
    if isinstance(left, Literal):
        op, left, right = FLIPPED[op], right, left
    if not isinstance(left, Column) or not isinstance(right, Literal) or left.type != right.type:
        return None
    kind = _number_type(left.type)
    if kind is None or not right.value.is_valid:
        return None
    constant = viewed(right.value, pa.from_numpy_dtype(kind)).as_py()
    return _floats(op, kind, constant) if kind.kind == "f" else _integers(op, kind, constant)


def _integers(op: str, kind: np.dtype[Any], constant: int) -> _Interval | None:
    least, most = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    lower = {"=": constant, "!=": constant, ">=": constant, ">": constant + 1}.get(op, least)
    upper = {"=": constant, "!=": constant, "<=": constant, "<": constant - 1}.get(op, most)
    return _Interval(kind, lower, upper, False, op == "!=") if least <= lower <= upper <= most else None


def _floats(op: str, kind: np.dtype[Any], constant: float) -> _Interval | None:
    if math.isnan(constant):
        return None
    if op in ("=", "!="):
        return _Interval(kind, constant, constant, False, op == "!=")
    if op in (">", "<"):  # the next number is the bound
        if math.isinf(constant):
            return None
        constant = float(np.nextafter(kind.type(constant), kind.type(math.inf if op == ">" else -math.inf)))
    if op in (">", ">="):
        return _Interval(kind, constant, math.inf, True)
    return _Interval(kind, -math.inf, constant, False)


def _number_type(data_type: pa.DataType) -> np.dtype[Any] | None:
    """Return the type of the numbers that stand for values of a type, in the same order; None without one."""
    if pa.types.is_integer(data_type) or data_type in (pa.float32(), pa.float64()):
        kind: np.dtype[Any] = np.dtype(data_type.to_pandas_dtype())
        return kind
    if pa.types.is_temporal(data_type) and fixed_bits(data_type) in (32, 64):
        return np.dtype(f"i{fixed_bits(data_type) // 8}")
    return None
