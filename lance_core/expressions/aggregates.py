"""Aggregate functions: what one value per group of rows means, and its type.

Nulls count for `count(*)` only. NaN is one value, equal to itself and greater than every number, and -0.0 is
0.0, as in comparisons. Sums of integers have 64 bits, as in the reference's engine, which makes doubles of
shorter floats and gives decimals ten more digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.expressions.ordered_types import has_order, value_type
from lance_core.expressions.tree import Expression

COUNT_ALL = "count(*)"
COUNT_DISTINCT = "count(distinct)"

AGGREGATE_NAMES = {"count": "count", "sum": "sum", "min": "min", "max": "max", "mean": "mean", "avg": "mean"}
"""Function by the lower-case name in SQL."""

_MOST_DIGITS = {128: 38, 256: 76}
_MOST_SUMMED_DIGITS = 57
"""Digits of decimals of which more than 2^62 can be added without an overflow."""
_SUM_DIGITS, _MEAN_DIGITS = 10, 4


@dataclass(frozen=True)
class Aggregate:
    """Aggregate function of one argument.

    Attributes:
        function: `count(*)`, `count`, `count(distinct)`, `sum`, `min`, `max` or `mean`.
        argument: None for `count(*)`.
        data_type: Arrow type of the values.
    """

    function: str
    argument: Expression | None
    data_type: pa.DataType


def aggregate(function: str, argument: Expression | None) -> Aggregate:
    """Return an aggregate function of a bound argument.

    Raises:
        InvalidInputError: the function has no value for arguments of this type.
        UnsupportedFeatureError: decimals have too many digits for exact sums.
    """
    if argument is None:
        return Aggregate(COUNT_ALL, None, pa.int64())
    return Aggregate(function, argument, _type_of(function, value_type(argument.type)))


def is_groupable(data_type: pa.DataType) -> bool:
    """Return whether values of a type can be compared, so that equal ones make a group."""
    return has_order(value_type(data_type))


def _type_of(function: str, data_type: pa.DataType) -> pa.DataType:
    if function == "count":
        return pa.int64()
    if function in ("min", "max", COUNT_DISTINCT):
        if not is_groupable(data_type):
            raise _no_value(function, "numbers, texts, bytes, times or booleans", data_type)
        return pa.int64() if function == COUNT_DISTINCT else data_type
    if pa.types.is_decimal128(data_type) or pa.types.is_decimal256(data_type):
        return _decimal_type(function, data_type)
    if pa.types.is_floating(data_type):
        return pa.float64()
    if pa.types.is_integer(data_type):
        if function == "mean":
            return pa.float64()
        return pa.int64() if pa.types.is_signed_integer(data_type) else pa.uint64()
    raise _no_value(function, "numbers", data_type)


def _decimal_type(function: str, data_type: pa.DataType) -> pa.DataType:
    if data_type.precision > _MOST_SUMMED_DIGITS:
        raise UnsupportedFeatureError(
            f"{function} of decimals with more than {_MOST_SUMMED_DIGITS} digits", found=data_type
        )
    most = _MOST_DIGITS[data_type.bit_width]
    make = pa.decimal128 if data_type.bit_width == 128 else pa.decimal256
    if function == "sum":
        return make(min(most, data_type.precision + _SUM_DIGITS), data_type.scale)
    added = _MEAN_DIGITS
    return make(min(most, data_type.precision + added), min(most, data_type.scale + added))


def _no_value(function: str, expected: str, found: pa.DataType) -> InvalidInputError:
    return InvalidInputError(f"{function} has no value for this type", expected=expected, found=found)
