"""Coercion of operands: the type of a literal beside a column, and the common type of two operands.

There are two rules, as in the reference. If a condition compares a bare column with literals, the literals
must be exact in the type of the column: an integer column is not compared with 1.5 or with a number out of
its range (`exact_literal`). Otherwise the operands get a common type (`common_type`).
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from lance_core.schema.arrow_values import scalar_of, stored_integer

_MOST_DIGITS = 200
"""More digits than any decimal value has before the point, or zeros after it."""
_MOST_FLOATS = {16: 65504.0, 32: float(np.finfo(np.float32).max), 64: float(np.finfo(np.float64).max)}
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_DAY_SECONDS = 86_400


def value_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type of the values, for a dictionary type the type of its values."""
    return data_type.value_type if types.is_dictionary(data_type) else data_type


def is_string(data_type: pa.DataType) -> bool:
    """Return whether values are text."""
    return bool(
        types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type)
    )


def is_binary(data_type: pa.DataType) -> bool:
    """Return whether values are bytes."""
    return bool(
        types.is_binary(data_type)
        or types.is_large_binary(data_type)
        or types.is_fixed_size_binary(data_type)
        or types.is_binary_view(data_type)
    )


def is_number(data_type: pa.DataType) -> bool:
    """Return whether values are integers, floats or decimals."""
    return bool(types.is_integer(data_type) or types.is_floating(data_type) or types.is_decimal(data_type))


def is_list(data_type: pa.DataType) -> bool:
    """Return whether values are lists of any kind."""
    return bool(
        types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type)
    )


def exact_literal(value: pa.Scalar, data_type: pa.DataType) -> pa.Scalar | None:
    """Return a literal in the type of the column beside it; None if its value would change.

    Integers become integers within the range, floats or decimals. Floats become floats only, text becomes
    text only, and bytes become bytes of a fitting size. Lists are converted value by value.
    """
    data_type = value_type(data_type)
    if not value.is_valid:
        return scalar_of(None, data_type)
    if value.type == data_type:
        return value
    given = value.type
    if types.is_temporal(given) and given.id == data_type.id and getattr(given, "tz", None) is None:
        return _cast(value, data_type) if getattr(data_type, "tz", None) is None else None
    if types.is_float16(data_type) and (types.is_integer(given) or types.is_floating(given)):
        number = value.as_py()
        return None if math.isfinite(number) and abs(number) > 65504 else scalar_of(float(number), data_type)
    if types.is_floating(data_type) and (types.is_integer(given) or types.is_floating(given)):
        found = value.cast(data_type, safe=False)
        return None if math.isinf(found.as_py()) and math.isfinite(value.as_py()) else found
    if is_list(given) and is_list(data_type):
        return _cast(value, data_type)
    allowed = (
        (types.is_integer(given) and (types.is_integer(data_type) or types.is_decimal(data_type)))
        or (is_string(given) and is_string(data_type))
        or (is_binary(given) and is_binary(data_type) and _same_size(value, data_type))
    )
    return _cast(value, data_type) if allowed else None


def is_moment(data_type: pa.DataType) -> bool:
    """Return whether values are timestamps or dates, which can be compared with each other."""
    return bool(types.is_timestamp(data_type) or types.is_date(data_type))


def is_time(data_type: pa.DataType) -> bool:
    """Return whether values count units of time: timestamps, dates, times of day and durations."""
    return is_moment(data_type) or bool(types.is_time(data_type) or types.is_duration(data_type))


def seconds(value: pa.Scalar) -> Decimal:
    """Return a time in seconds: since 1970 for timestamps and dates, since midnight for times of day.

    For a duration, return its length in seconds.
    """
    if types.is_date32(value.type):
        return Decimal(value.value * _DAY_SECONDS)
    return Decimal(value.value).scaleb(-_scale(value.type))


def place(number: Decimal, data_type: pa.DataType) -> tuple[pa.Scalar, int]:
    """Find the position of `number` among the values of a number type, or, in seconds, of a time type.

    An infinite number and NaN lie beyond the values of integers, decimals and times. A finite number beyond
    the range of floats lies beyond the greatest finite float. A number within the range of floats equals the
    nearest float.

    Returns:
        A value of the type, and the side of the number: 0 if it equals the value, 1 if it is above the value
        and below the next value, -1 if it is below the value, which is the least one.
    """
    if types.is_floating(data_type):
        most = _MOST_FLOATS[data_type.bit_width]
        if number.is_finite() and abs(number) > Decimal(most):
            return scalar_of(math.copysign(most, number), data_type), 1 if number > 0 else -1
        return scalar_of(float(number), data_type), 0
    least, most = _range(data_type)
    if not number.is_finite() or number.adjusted() > _MOST_DIGITS:  # avoids expanding a number of many digits
        beyond = number.is_nan() or not number.is_signed()
        return stored_integer(most if beyond else least, data_type), 1 if beyond else -1
    steps = _steps(number, data_type)
    below = int(steps.to_integral_value(ROUND_FLOOR))
    is_between = below != steps
    if types.is_date32(data_type):
        below, rest = divmod(below, _DAY_SECONDS)
        is_between = is_between or rest > 0
    if below > most:
        return stored_integer(most, data_type), 1
    if below < least:
        return stored_integer(least, data_type), -1
    return stored_integer(below, data_type), int(is_between)


def rounded_decimal(number: Decimal, data_type: pa.DataType) -> pa.Scalar:
    """Return the decimal of a type that is nearest to `number`; halves are rounded away from zero.

    Raises:
        pa.ArrowInvalid: the number is out of the range of the type.
    """
    least, most = _range(data_type)
    if number.is_finite() and number.adjusted() <= _MOST_DIGITS:
        steps = int(_steps(number, data_type).to_integral_value(ROUND_HALF_UP))
        if least <= steps <= most:
            return stored_integer(steps, data_type)
    raise pa.ArrowInvalid(f"{number} is out of the range of {data_type}")


def _range(data_type: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest stored integer of an integer, decimal or time type."""
    if types.is_decimal(data_type):
        most = 10**data_type.precision - 1
        return -most, most
    bits = data_type.bit_width
    if types.is_unsigned_integer(data_type):
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _scale(data_type: pa.DataType) -> int:
    """Return the decimal digits of the fraction of a value. For times it is the digits of a second, for days
    0.
    """
    if types.is_decimal(data_type):
        return int(data_type.scale)
    if types.is_date64(data_type):
        return 3
    return _UNIT_DIGITS[data_type.unit] if hasattr(data_type, "unit") else 0


def _steps(number: Decimal, data_type: pa.DataType) -> Decimal:
    """Return a finite number in units of the last digit of the type, without rounding."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    return Decimal((sign, digits, exponent + _scale(data_type)))


def _same_size(value: pa.Scalar, data_type: pa.DataType) -> bool:
    return not types.is_fixed_size_binary(data_type) or len(value.as_py()) == data_type.byte_width


def _cast(value: pa.Scalar, data_type: pa.DataType) -> pa.Scalar | None:
    if types.is_decimal(data_type):
        found, side = place(Decimal(value.as_py()), data_type)
        return None if side else found
    try:
        return value.cast(data_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type in which two operands are compared; None if there is none."""
    left, right = value_type(left), value_type(right)
    if left == right:
        return left
    if types.is_null(left) or types.is_null(right):
        return right if types.is_null(left) else left
    if is_number(left) and is_number(right):
        return common_number(left, right)
    for one, other in ((left, right), (right, left)):
        if is_string(one):
            if is_string(other):
                return pa.large_string() if types.is_large_string(right) else left
            if is_number(other) or types.is_temporal(other):
                return other
            if is_binary(other):
                return pa.binary() if types.is_fixed_size_binary(other) else other
        if types.is_fixed_size_binary(one) and is_binary(other):
            return pa.binary() if types.is_fixed_size_binary(other) else other
    if is_binary(left) and is_binary(right):
        return pa.large_binary()
    return _common_temporal(left, right)


def chosen_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type of a value that is one of two operands, as in `coalesce`; None if there is none.

    It is the common type with two exceptions, as in the reference: half floats beside integers remain half
    floats, and a date beside a timestamp becomes a timestamp in nanoseconds.
    """
    pair = value_type(left), value_type(right)
    common = common_type(*pair)
    if any(map(types.is_float16, pair)) and all(types.is_float16(x) or types.is_integer(x) for x in pair):
        return pa.float16()
    if common is not None and types.is_timestamp(common) and any(map(types.is_date, pair)):
        return pa.timestamp("ns", common.tz)
    return common


def common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the number type of an operation on two numbers. It holds all values exactly, apart from the
    rounding of floats.
    """
    if left == right:
        return left
    pair = (left, right)
    if any(types.is_floating(kind) for kind in pair):
        doubles = any(types.is_float64(kind) or types.is_decimal(kind) for kind in pair)
        # Arrow cannot compare half floats.
        return pa.float64() if doubles else pa.float32()
    if types.is_decimal(left) or types.is_decimal(right):
        return _common_decimal(as_decimal(left), as_decimal(right))
    signed = types.is_signed_integer(left)
    if signed == types.is_signed_integer(right):
        return left if left.bit_width >= right.bit_width else right
    signed_type, unsigned_type = (left, right) if signed else (right, left)
    if signed_type.bit_width > unsigned_type.bit_width:
        return signed_type
    wider = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
    return wider[unsigned_type.bit_width]


def as_decimal(data_type: pa.DataType) -> pa.DataType:
    """Return a decimal type with a scale of at least 0 that holds all values of an integer or
    decimal type.
    """
    if types.is_decimal(data_type):
        if data_type.scale >= 0:
            return data_type
        digits = data_type.precision - data_type.scale
        wide = digits > 38 or types.is_decimal256(data_type)
        return pa.decimal256(min(digits, 76), 0) if wide else pa.decimal128(digits, 0)
    return pa.decimal128(_INTEGER_DIGITS[data_type.bit_width], 0)


def _common_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale) + scale
    if digits <= 38 and not (types.is_decimal256(left) or types.is_decimal256(right)):
        return pa.decimal128(digits, scale)
    return pa.decimal256(min(digits, 76), scale)


def _common_temporal(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    # As in the reference, two columns are compared in the coarser unit, and finer digits are cut off before.
    units = ["s", "ms", "us", "ns"]
    if types.is_timestamp(left) and types.is_timestamp(right):
        return pa.timestamp(min(left.unit, right.unit, key=units.index), left.tz or right.tz)
    if types.is_date(left) and types.is_date(right):
        return pa.date64()
    for one, other in ((left, right), (right, left)):
        if types.is_timestamp(one) and types.is_date(other):
            return one
    if types.is_time(left) and types.is_time(right):
        unit = min(left.unit, right.unit, key=units.index)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    if types.is_duration(left) and types.is_duration(right):
        return pa.duration(min(left.unit, right.unit, key=units.index))
    return None
