"""Interval arithmetic: possible values of operands, and possible results of conditions, per row range.

The row ranges divide a fragment. Every fact is an array with one entry per row range, or with one entry for
all of them. Facts are conservative: they say whether there may be a null, a NaN or another value, and between
which bounds. So a comparison says for each row range whether it may be true, false or null in some row. NaN
equals NaN and is greater than every number; -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.expressions.casts import cast
from lance_core.expressions.comparisons import without_negative_scale
from lance_core.schema.arrow_values import array_of, numbers_of, scalar_of
from lance_core.statistics.collect import has_bounds

Flags = npt.NDArray[np.bool_]

_YES: Flags = np.ones(1, np.bool_)
_NO: Flags = np.zeros(1, np.bool_)


class Truth(NamedTuple):
    """Possible results of a condition in each row range."""

    true: Flags
    false: Flags
    null: Flags

    def negated(self) -> Truth:
        return Truth(self.false, self.true, self.null)

    @property
    def surely_true(self) -> Flags:
        """Whether the condition is true in every row of each row range."""
        return self.true & ~self.false & ~self.null


ANY = Truth(_YES, _YES, _YES)
"""Truth of a condition about which nothing is known."""

Bounds: TypeAlias = Any
"""Bounds as a `pa.Array` or a `pa.Scalar`, or, only for comparisons, as a NumPy array of numbers."""


@dataclass(frozen=True)
class Values:
    """Possible values of an operand in each row range.

    Attributes:
        type: Arrow type of the bounds.
        least, most: Bounds of the values that are neither null nor NaN. A null bound is unknown; None means
            that no bound is known.
        ordinary: Whether there may be values that are neither null nor NaN.
        nan, null: Whether there may be NaN, and null.
    """

    type: pa.DataType
    least: Bounds | None
    most: Bounds | None
    ordinary: Flags
    nan: Flags
    null: Flags

    @property
    def some(self) -> Flags:
        """Whether there may be a value that is not null."""
        return self.ordinary | self.nan

    @cached_property
    def in_numbers(self) -> Values | None:
        """The values with bounds that NumPy compares, which takes less time; None if they are no numbers.

        An unknown bound becomes the least or the greatest number of its type: no value is beyond it.
        """
        if self.least is None or self.most is None or not _is_number(self.least.type):
            return None
        least = _numbers(self.least, "least")
        is_constant = isinstance(self.least, pa.Scalar) and self.most is self.least
        most = least if is_constant else _numbers(self.most, "most")
        return Values(self.type, least, most, self.ordinary, self.nan, self.null)

    def at(self, ranges: npt.NDArray[np.intp]) -> Values:
        """Return the possible values in some of the row ranges. The number of all row ranges stands for one
        about which nothing is known.
        """
        count = len(self.null)
        ordinary, null = (np.append(flags, True)[ranges] for flags in (self.ordinary, self.null))
        nan = self.nan if self.nan is _NO else np.append(self.nan, True)[ranges]
        least = most = None
        if self.least is not None and self.most is not None:
            places = array_of(ranges, ranges != count)
            least, most = self.least.take(places), self.most.take(places)
        return Values(self.type, least, most, ordinary, nan, null)


def column_values(statistics: pa.Table, data_type: pa.DataType) -> Values:
    """Return the possible values of a column of type `data_type`, with a row range per row of `statistics`.

    The form of `statistics` is that of `lance_core.statistics.column_statistics`.
    """
    is_float = pa.types.is_floating(data_type)
    rows, nulls = (_counts(statistics[name]) for name in ("rows", "null_count"))
    nans = _counts(statistics["nan_count"]) if is_float else np.zeros_like(rows)
    # An unknown count is -1.
    ordinary = (nulls < 0) | (nans < 0) | (nulls + nans < rows)
    nan, null = nans != 0, nulls != 0
    least = most = None
    kind = statistics.schema.field("min").type
    if kind == data_type and has_bounds(kind):
        least, most = (_comparable(statistics[side].combine_chunks()) for side in ("min", "max"))
    return Values(data_type, least, most, ordinary, nan if is_float else _NO, null)


def joined_values(parts: Sequence[Values]) -> Values:
    """Return the possible values of one column in the row ranges of all parts, one part after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    least = most = None
    if all(part.least is not None for part in parts):
        least, most = (
            pa.concat_arrays([getattr(part, side) for part in parts]) for side in ("least", "most")
        )
    ordinary, null = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("ordinary", "null")
    )
    nan = first.nan if first.nan is _NO else np.concatenate([part.nan for part in parts])
    return Values(first.type, least, most, ordinary, nan, null)


def literal_values(value: pa.Scalar) -> Values:
    """Return the possible values of a constant."""
    kind = value.type
    if not value.is_valid:
        return Values(kind, None, None, _NO, _NO, _YES)
    if pa.types.is_floating(kind) and value.as_py() != value.as_py():
        return Values(kind, None, None, _NO, _YES, _NO)
    if pa.types.is_integer(kind):
        return Values(kind, value, value, _YES, _NO, _NO)
    bound = _comparable(value) if has_bounds(kind) and not isinstance(kind, pa.BaseExtensionType) else None
    return Values(kind, bound, bound, _YES, _NO, _NO)


def cast_values(values: Values, data_type: pa.DataType, try_cast: bool) -> Values | None:
    """Return the values cast to another type; None if the cast may fail or change their order."""
    if values.least is None or values.most is None or not _is_monotone(values.type, data_type):
        return None
    try:
        least, most = (_comparable(cast(side, data_type)) for side in (values.least, values.most))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    # Values between two bounds that fit the type fit, too. For values without bounds this is unknown.
    unknown = values.ordinary & (_missing(least) | _missing(most))
    if not try_cast and unknown.any():
        return None
    return Values(data_type, least, most, values.ordinary, values.nan, values.null | unknown)


def compare(operator: str, left: Values, right: Values) -> Truth:
    """Return the truth of `left operator right`."""
    if left.type != right.type:
        return ANY
    if left.in_numbers is not None and right.in_numbers is not None:
        left, right = left.in_numbers, right.in_numbers
    if operator in (">", ">="):
        left, right, operator = right, left, {">": "<", ">=": "<="}[operator]
    true, false = {
        "=": (_may_equal, _may_differ),
        "!=": (_may_differ, _may_equal),
        "<": (_may_be_less, lambda a, b: _may_be_at_most(b, a)),
        "<=": (_may_be_at_most, lambda a, b: _may_be_less(b, a)),
    }[operator]
    return Truth(true(left, right), false(left, right), left.null | right.null)


def compare_constant(operator: str, values: Values, constant: pa.Scalar) -> Truth:
    """Return the truth of `values operator constant`."""
    numbers = values.in_numbers
    is_plain = constant.is_valid and constant.type == values.type and pa.types.is_integer(values.type)
    if numbers is None or not is_plain:
        return compare(operator, values, literal_values(constant))
    number: int = constant.as_py()  # this case, the usual one, takes a few steps of NumPy
    least: Bounds = numbers.least
    most: Bounds = numbers.most
    if operator == "<":
        true, false = least < number, most >= number
    elif operator == "<=":
        true, false = least <= number, most > number
    elif operator == ">":
        true, false = most > number, least <= number
    elif operator == ">=":
        true, false = most >= number, least < number
    else:
        true, false = (least <= number) & (most >= number), (least != number) | (most != number)
        if operator == "!=":
            true, false = false, true
    return Truth(true & values.ordinary, false & values.ordinary, values.null)


def distinct(left: Values, right: Values) -> Truth:
    """Return the truth of `left IS DISTINCT FROM right`."""
    if left.type != right.type:
        return Truth(_YES, _YES, _NO)
    one_null = (left.null & right.some) | (left.some & right.null)
    return Truth(one_null | _may_differ(left, right), (left.null & right.null) | _may_equal(left, right), _NO)


def starts_with(values: Values, prefix: bytes) -> Truth:
    """Return the truth of a string or binary value starting with `prefix`."""
    if values.least is None or values.most is None:
        return Truth(values.ordinary, values.ordinary, values.null)
    binary = pa.large_binary()
    least, most = values.least.cast(binary), values.most.cast(binary)
    first = scalar_of(prefix, binary)
    may_start, surely_start = _holds(pc.less_equal, first, most), _surely(pc.less_equal, first, least)
    # The shortest text above all texts with the prefix. There is none if all bytes of the prefix are 255.
    stem = prefix.rstrip(b"\xff")
    if stem:
        end = scalar_of(stem[:-1] + bytes([stem[-1] + 1]), binary)
        may_start, surely_start = (
            may_start & _holds(pc.less, least, end),
            surely_start & _surely(pc.less, most, end),
        )
    return Truth(values.ordinary & may_start, values.ordinary & ~surely_start, values.null)


def contained(values: Values, sorted_values: npt.NDArray[Any], has_nan: bool, has_null: bool) -> Truth:
    """Return the truth of `values IN (...)`.

    Args:
        values: The operand.
        sorted_values: Values of the list without NaN and null, as `sortable` returns them, ascending.
        has_nan, has_null: Whether the list contains NaN, and null.
    """
    may_hit, surely_hit = _YES, _NO
    if values.least is not None and values.most is not None:
        shape = np.broadcast_shapes(values.ordinary.shape, _missing(values.least).shape)
        first = _places(values.least, sorted_values, "left", 0, shape)
        last = _places(values.most, sorted_values, "right", len(sorted_values), shape)
        may_hit = first < last
        surely_hit = may_hit & _surely(pc.equal, values.least, values.most)
    true = (values.ordinary & may_hit) | (values.nan & has_nan)
    missed = (values.ordinary & ~surely_hit) | (values.nan & (not has_nan))
    if not len(sorted_values) and not has_nan:
        missed = missed | values.null  # conservative: a null in an empty list may give false or null
    return Truth(true, missed & (not has_null), values.null | (missed & has_null))


def as_truth(values: Values) -> Truth:
    """Return a boolean operand as a condition."""
    if values.least is None or values.most is None:
        return Truth(values.ordinary, values.ordinary, values.null)
    yes = scalar_of(True)
    may_be_true = _holds(pc.equal, values.most, yes)
    return Truth(
        values.ordinary & may_be_true, values.ordinary & ~_surely(pc.equal, values.least, yes), values.null
    )


def sortable(values: pa.Array) -> npt.NDArray[Any]:
    """Return values of an ordered type without nulls as an array that NumPy sorts in Arrow's order."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return numbers_of(values.cast(pa.uint8()))
    if pa.types.is_temporal(kind):
        return numbers_of(values.view(pa.int32() if kind.bit_width == 32 else pa.int64()))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return numbers_of(values)
    objects = np.empty(len(values), object)
    if pa.types.is_decimal(kind):
        objects[:] = values.to_pylist()
    else:  # text is compared by its bytes
        objects[:] = values.cast(pa.large_binary()).to_pylist()
    return objects


def comparable(values: pa.Array) -> pa.Array:
    """Return the values in a type that Arrow compares."""
    return _comparable(values)


def _may_be_less(a: Values, b: Values) -> Flags:
    return (a.ordinary & b.ordinary & _holds(pc.less, a.least, b.most)) | (a.ordinary & b.nan)


def _may_be_at_most(a: Values, b: Values) -> Flags:
    return (a.ordinary & b.ordinary & _holds(pc.less_equal, a.least, b.most)) | (a.some & b.nan)


def _may_equal(a: Values, b: Values) -> Flags:
    overlap = _holds(pc.less_equal, a.least, b.most) & _holds(pc.less_equal, b.least, a.most)
    return (a.ordinary & b.ordinary & overlap) | (a.nan & b.nan)


def _may_differ(a: Values, b: Values) -> Flags:
    # If both sides have only one value, and it is the same, no pair differs.
    same = _surely(pc.equal, a.least, b.most) & _surely(pc.equal, b.least, a.most)
    same = same & _surely(pc.equal, a.least, a.most)
    return (a.ordinary & b.ordinary & ~same) | (a.nan & b.ordinary) | (a.ordinary & b.nan)


def _holds(comparison: Callable[[Any, Any], Any], a: Any, b: Any) -> Flags:
    """Return whether a comparison of bounds may hold: true if a bound is unknown."""
    return _result(comparison, a, b, unknown=True)


def _surely(comparison: Callable[[Any, Any], Any], a: Any, b: Any) -> Flags:
    """Return whether a comparison of bounds holds for certain: false if a bound is unknown."""
    return _result(comparison, a, b, unknown=False)


def _result(comparison: Callable[[Any, Any], Any], a: Any, b: Any, *, unknown: bool) -> Flags:
    if a is None or b is None:
        return np.array([unknown])
    if isinstance(a, np.ndarray):
        found: Flags = _OF_NUMBERS[comparison](a, b)
        return found
    result = comparison(a, b)
    if isinstance(result, pa.Scalar):
        return np.array([result.as_py() if result.is_valid else unknown])
    return numbers_of(pc.fill_null(result, scalar_of(unknown)) if result.null_count else result)


_OF_NUMBERS = {pc.less: np.less, pc.less_equal: np.less_equal, pc.equal: np.equal}
"""Comparisons of NumPy for those of Arrow."""


def _missing(bound: pa.Array | pa.Scalar) -> Flags:
    return np.array([not bound.is_valid]) if isinstance(bound, pa.Scalar) else numbers_of(bound.is_null())


def _places(
    bound: pa.Array | pa.Scalar, values: npt.NDArray[Any], side: Any, unknown: int, shape: tuple[int, ...]
) -> npt.NDArray[np.intp]:
    """Return the insertion positions of bounds in sorted values; `unknown` for unknown bounds."""
    if isinstance(bound, pa.Scalar):
        bound = pa.repeat(bound, 1)
    places = np.full(len(bound), unknown, np.intp)
    valid = numbers_of(bound.is_valid())
    places[valid] = np.searchsorted(values, sortable(bound.drop_null()), side=side)
    return np.broadcast_to(places, shape)


def _counts(counts: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return numbers_of(pc.fill_null(counts, scalar_of(-1)) if counts.null_count else counts)


def _is_number(kind: pa.DataType) -> bool:
    """Return whether values of an ordered type are stored as numbers in the same order."""
    is_ = pa.types
    return bool(
        is_.is_integer(kind) or is_.is_floating(kind) or is_.is_boolean(kind) or is_.is_temporal(kind)
    )


def _numbers(bounds: pa.Array | pa.Scalar, side: str) -> npt.NDArray[Any]:
    """Return bounds as numbers, the extreme number of a side for unknown ones; see `Values.in_numbers`."""
    if isinstance(bounds, pa.Scalar):
        if pa.types.is_integer(bounds.type):
            return np.array([bounds.as_py()], bounds.type.to_pandas_dtype())
        bounds = pa.repeat(bounds, 1)
    known = sortable(bounds.drop_null() if bounds.null_count else bounds)
    if not bounds.null_count:
        return known
    if known.dtype.kind == "f":
        extreme = -np.inf if side == "least" else np.inf
    else:
        extreme = np.iinfo(known.dtype).min if side == "least" else np.iinfo(known.dtype).max
    numbers = np.full(len(bounds), extreme, known.dtype)
    numbers[numbers_of(bounds.is_valid())] = known
    return numbers


def _comparable(values: Any) -> Any:
    """Return the values in a type that Arrow can compare, instead of half floats and decimals of a negative
    scale.
    """
    if pa.types.is_decimal(values.type):
        return without_negative_scale(values)
    return values.cast(pa.float32()) if values.type == pa.float16() else values


def _is_monotone(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a cast keeps the order of all values, apart from making some equal."""
    is_ = pa.types
    if is_.is_integer(source):
        return bool(is_.is_integer(target) or is_.is_float32(target) or is_.is_float64(target))
    if is_.is_floating(source):
        return bool(is_.is_floating(target) and target.bit_width >= source.bit_width)
    if is_.is_date(source):
        # Arrow's cast of dates in milliseconds to dates in days wraps around.
        days = is_.is_date32(source) and is_.is_date(target)
        return bool(days or (is_.is_timestamp(target) and target.tz is None))
    if is_.is_timestamp(source):
        return bool(is_.is_timestamp(target) and (source.tz is None) == (target.tz is None))
    if is_.is_decimal(source):
        return bool(is_.is_decimal(target) and target.scale >= source.scale)
    text = {pa.string(), pa.large_string()}, {pa.binary(), pa.large_binary()}
    return any(source in kinds and target in kinds for kinds in text)
