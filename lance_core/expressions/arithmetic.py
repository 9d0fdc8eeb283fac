"""Arithmetic: `+ - * / %` and the minus sign, with the types and overflows of the reference.

Integers keep their common type and wrap around; their division cuts off the fraction and refuses zero.
Decimals get the precision and scale that hold every result, up to 38 digits. The difference of two timestamps
is a duration, and durations can be added to them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_core import kernels
from lance_core.errors import InvalidInputError
from lance_core.expressions.builders import cast, describe
from lance_core.expressions.coercion import (
    as_decimal,
    chosen_type,
    common_number,
    exact_literal,
    is_number,
    value_type,
)
from lance_core.expressions.comparisons import Datum, viewed
from lance_core.expressions.functions.temporal import moved
from lance_core.expressions.tree import Call, Expression, Literal
from lance_core.schema.arrow_values import array_of, bytes_of, numbers_of, scalar_of, validity_of

_MOST_DIGITS = 38
_MOST_WIDE_DIGITS = 76
_KERNELS: dict[str, Callable[[Datum, Datum], Datum]] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_CHECKED: dict[str, Callable[[Datum, Datum], Datum]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}


def arithmetic(op: str, left: Expression, right: Expression, *, checked: bool = False) -> Expression:
    """Return the node for `left op right`, where `op` is one of `+ - * / %`.

    With `checked`, an integer overflow is an error when the node is evaluated; otherwise integers wrap
    around.

    Raises:
        InvalidInputError: the operator does not accept these types.
    """
    if types.is_null(left.type) or types.is_null(right.type):
        left, right = _typed_nulls(left, right)
    kinds = value_type(left.type), value_type(right.type)
    if is_number(kinds[0]) and is_number(kinds[1]):
        return _numeric(op, left, right, checked)
    if types.is_interval(kinds[1]) and op in "+-":
        return _shifted(op, left, right)
    if types.is_interval(kinds[0]) and op == "+":
        return _shifted(op, right, left)
    found = _temporal(op, left, right)
    if found is None:
        raise InvalidInputError(f"{describe(left)} {op} {describe(right)} is not defined for these types")
    return found


def _typed_nulls(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    known = right.type if types.is_null(left.type) else left.type
    known = pa.int64() if types.is_null(known) else known
    return cast(left, known), cast(right, known)


def negative(operand: Expression, *, checked: bool = False) -> Expression:
    """Return the node for `-operand`.

    With `checked`, an integer overflow is an error when the node is evaluated; otherwise integers wrap
    around.

    Raises:
        InvalidInputError: values of this type have no negative.
    """
    data_type = pa.int64() if types.is_null(operand.type) else value_type(operand.type)
    signed = is_number(data_type) and not types.is_unsigned_integer(data_type)
    if not signed and not types.is_duration(data_type):
        raise InvalidInputError(f"{describe(operand)} has no negative")
    name = "negative checked" if checked and types.is_integer(data_type) else "negative"
    return Call(name, (cast(operand, data_type),), data_type)


def _numeric(op: str, left: Expression, right: Expression, checked: bool) -> Expression:
    given = value_type(left.type), value_type(right.type)
    common = common_number(*given)
    if types.is_decimal(common) and all(types.is_decimal(kind) or types.is_integer(kind) for kind in given):
        return _decimal(op, left, right)
    if types.is_float32(common) and not any(types.is_float32(kind) for kind in given):
        common = pa.float16()
    name = f"{op} checked" if checked and types.is_integer(common) and op in _CHECKED else op
    return Call(name, (cast(left, common), cast(right, common)), common)


def _decimal(op: str, left: Expression, right: Expression) -> Expression:
    given = value_type(left.type), value_type(right.type)
    one, other = map(as_decimal, given)
    if all(map(types.is_integer, given)):
        one = other = common_number(*given)
    whole = max(one.precision - one.scale, other.precision - other.scale)
    if op == "%":
        scale = max(one.scale, other.scale)
        precision = min(one.precision - one.scale, other.precision - other.scale) + scale
        if _digits(one, scale) + _digits(other, scale) + 2 > _MOST_WIDE_DIGITS:
            raise InvalidInputError(f"% is not supported for decimals of so many digits: {describe(left)}")
    elif op == "*":
        precision, scale = one.precision + other.precision + 1, one.scale + other.scale
    elif op == "/":
        precision, scale = one.precision + 4 + other.scale, one.scale + 4
    else:
        scale = max(one.scale, other.scale)
        precision = whole + scale + 1
    result = pa.decimal128(min(precision, _MOST_DIGITS), min(scale, _MOST_DIGITS))
    return Call(op, (cast(left, one), cast(right, other)), result)


def _digits(decimal: pa.DataType, scale: int) -> int:
    """Return the digits of all values of a decimal type after they are rescaled to `scale`, which must not be
    smaller.
    """
    return int(decimal.precision - decimal.scale + scale)


def _temporal(op: str, left: Expression, right: Expression) -> Expression | None:
    one, other = value_type(left.type), value_type(right.type)
    if types.is_duration(other) and types.is_timestamp(one) and op in "+-":
        return Call(op, (cast(left, one), _duration(right, one.unit)), one)
    if types.is_duration(one) and types.is_timestamp(other) and op == "+":
        return Call(op, (cast(right, other), _duration(left, other.unit)), other)
    if op == "-" and types.is_date(one) and types.is_date(other):
        days = tuple(cast(cast(operand, pa.date32()), pa.int32()) for operand in (left, right))
        return Call(op, tuple(cast(day, pa.int64()) for day in days), pa.int64())
    if op not in "+-":
        return None
    common = chosen_type(one, other)
    if common is None or not (types.is_duration(common) or (op == "-" and types.is_timestamp(common))):
        return None
    result = common if types.is_duration(common) else pa.duration(common.unit)
    return Call(op, (cast(left, common), cast(right, common)), result)


def _duration(operand: Expression, unit: str) -> Expression:
    if isinstance(operand, Literal):
        value = exact_literal(operand.value, pa.duration(unit))
        if value is not None:
            return Literal(value)
    return cast(operand, pa.duration(unit))


def _shifted(op: str, moment: Expression, interval: Expression) -> Expression:
    """Return a date or time moved by a constant interval.

    A date that is moved by a part of a day becomes a timestamp.
    """
    data_type = value_type(moment.type)
    if not isinstance(interval, Literal) or not (types.is_date(data_type) or types.is_timestamp(data_type)):
        raise InvalidInputError(
            f"{describe(moment)} {op} {describe(interval)} is not defined for these types"
        )
    moved = interval.value.as_py()
    if moved is not None and moved.nanoseconds and types.is_date(data_type):
        data_type = pa.timestamp("us")
    name = "add_interval" if op == "+" else "subtract_interval"
    return Call(name, (cast(moment, data_type), interval), data_type)


def compute(op: str, left: Datum, right: Datum, data_type: pa.DataType) -> Datum:
    """Apply an operator to operands that have the types of `arithmetic`."""
    if types.is_float16(data_type):
        wide = pa.float32()
        return compute(op, left.cast(wide), right.cast(wide), wide).cast(data_type, safe=False)
    if types.is_decimal(data_type):
        return _compute_decimal(op, left, right, data_type)
    if op == "%":
        return _remainder(left, right)
    if op == "/":
        return (pc.divide_checked if types.is_integer(data_type) else pc.divide)(left, right)
    return _KERNELS[op](left, right)


def _compute_decimal(op: str, left: Datum, right: Datum, data_type: pa.DataType) -> Datum:
    # decimal256 holds every sum and product of numbers of 38 digits.
    if op == "%":
        return _decimal_remainder(left, right, data_type)
    digits, more = left.type.precision, 4 + right.type.scale
    right = right.cast(pa.decimal256(right.type.precision, right.type.scale))
    if op != "/":
        return _KERNELS[op](left.cast(pa.decimal256(digits, left.type.scale)), right).cast(data_type)
    # With these additional digits, Arrow's quotient has at least the digits of the result. The others are cut
    # off.
    quotient = pc.divide(left.cast(pa.decimal256(digits + more, left.type.scale + more)), right)
    return pc.cast(quotient, options=pc.CastOptions(data_type, allow_decimal_truncate=True))


def _decimal_remainder(left: Datum, right: Datum, data_type: pa.DataType) -> Datum:
    # With the same scale, decimals can be divided as integers, whose quotient has no fraction.
    scale = data_type.scale
    left, right = (_unscaled(side, scale) for side in (left, right))
    whole = pa.decimal256(left.type.precision, 0)
    quotient = pc.cast(pc.divide(left, right), options=pc.CastOptions(whole, allow_decimal_truncate=True))
    rest = pc.subtract(left, pc.multiply(quotient, right)).cast(pa.decimal256(_MOST_WIDE_DIGITS, 0))
    return viewed(rest, pa.decimal256(_MOST_WIDE_DIGITS, scale)).cast(data_type)


def _unscaled(decimals: Datum, scale: int) -> Datum:
    """Return decimals with the scale `scale` as the integers that Arrow stores for them."""
    digits = _digits(decimals.type, scale)
    return viewed(decimals.cast(pa.decimal256(digits, scale)), pa.decimal256(digits, 0))


def _remainder(left: Datum, right: Datum) -> Datum:
    """Return the remainder of a division, with the sign of the dividend."""
    if isinstance(left, pa.Array) and isinstance(right, pa.Scalar) and right.is_valid:
        divisor = right.as_py()
        if types.is_integer(left.type) and 0 < abs(divisor) <= np.iinfo(left.type.to_pandas_dtype()).max:
            return _integer_remainder(left, abs(divisor))
    length = len(left) if isinstance(left, pa.Array) else len(right)
    left, right = (pa.repeat(side, length) if isinstance(side, pa.Scalar) else side for side in (left, right))
    valid = pc.and_(pc.is_valid(left), pc.is_valid(right))
    zero, one = scalar_of(0).cast(left.type), scalar_of(1).cast(right.type)
    dividend = numbers_of(pc.fill_null(left, zero))
    divisor = numbers_of(pc.if_else(valid, right, one))
    if types.is_integer(right.type) and not divisor.all():
        raise pa.ArrowInvalid("divide by zero")
    with np.errstate(all="ignore"):
        rest = np.fmod(dividend, divisor)
    return pc.if_else(valid, array_of(rest).cast(left.type), scalar_of(None, left.type))


def _integer_remainder(left: pa.Array, divisor: int) -> pa.Array:
    """Return the remainders of integers by a positive constant."""
    is_signed = types.is_signed_integer(left.type)
    found = kernels.remainders(bytes_of(left), left.type.bit_width, is_signed, divisor)
    validity = validity_of(left)
    return pa.Array.from_buffers(left.type, len(left), [validity, pa.py_buffer(found)])


def _negated(operand: Datum, data_type: pa.DataType) -> Datum:
    if types.is_float16(data_type):
        return pc.negate(operand.cast(pa.float32())).cast(data_type)
    return pc.negate(operand)


def _operator(op: str) -> Callable[[list[Datum], pa.DataType], Datum]:
    return lambda operands, data_type: compute(op, operands[0], operands[1], data_type)


def _checked(op: str) -> Callable[[list[Datum], pa.DataType], Datum]:
    return lambda operands, data_type: _CHECKED[op](operands[0], operands[1])


ARITHMETIC: dict[str, Callable[[list[Datum], pa.DataType], Datum]] = {
    **{op: _operator(op) for op in "+-*/%"},
    **{f"{op} checked": _checked(op) for op in _CHECKED},
    "negative": lambda operands, data_type: _negated(operands[0], data_type),
    "negative checked": lambda operands, data_type: pc.negate_checked(operands[0]),
    "add_interval": lambda operands, data_type: moved(1, *operands),
    "subtract_interval": lambda operands, data_type: moved(-1, *operands),
}
"""Computation of each operator, called with the operands and the type of the result."""
