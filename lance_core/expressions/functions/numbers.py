"""Functions of numbers. Single floats give single floats; nearly all other numbers give doubles.

The exceptions follow the reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_core.expressions.builders import cast
from lance_core.expressions.coercion import is_number, value_type
from lance_core.expressions.comparisons import Datum
from lance_core.expressions.functions.registry import Bound, Function, as_integer, expect, pair_of, unfit
from lance_core.expressions.tree import Expression, Literal
from lance_core.schema.arrow_values import array_of, numbers_of, scalar_of


def _as_number(name: str, argument: Expression) -> Expression:
    if types.is_null(argument.type):
        return cast(argument, pa.float64())
    if not is_number(value_type(argument.type)):
        raise unfit(name, argument, "a number")
    return cast(argument, value_type(argument.type))


def _as_float(name: str, argument: Expression) -> Expression:
    argument = _as_number(name, argument)
    return argument if types.is_float32(argument.type) else cast(argument, pa.float64())


def _needs_doubles(numbers: Sequence[Expression]) -> bool:
    return any(types.is_float64(number.type) or types.is_decimal(number.type) for number in numbers)


def _of_floats(kernel: Callable[..., Datum], count: int = 1, result: pa.DataType | None = None) -> Function:
    """Return a function of one float, or of two doubles."""

    def bind(name: str, arguments: Sequence[Expression]) -> Bound:
        expect(name, arguments, count)
        if count == 1:
            operand = _as_float(name, arguments[0])
            return [operand], result or operand.type
        return [cast(_as_number(name, argument), pa.float64()) for argument in arguments], pa.float64()

    return Function(bind, kernel)


def _by_numpy(function: Callable[..., np.ndarray]) -> Callable[[Datum], Datum]:
    """Return a NumPy function of one array of floats; nulls stay."""

    def compute(operand: Datum) -> Datum:
        filled = pc.fill_null(operand, scalar_of(0.0, operand.type)) if operand.null_count else operand
        with np.errstate(all="ignore"):
            values = array_of(function(numbers_of(filled)))
        return (
            pc.if_else(operand.is_valid(), values, scalar_of(None, operand.type))
            if operand.null_count
            else values
        )

    return compute


def _cube_root(values: np.ndarray) -> np.ndarray:
    """Compute in long double, then round: for shorter types, NumPy's SIMD loops differ in the last digit
    between processors.
    """
    return np.cbrt(values.astype(np.longdouble)).astype(values.dtype)


def _nearest(values: np.ndarray) -> np.ndarray:
    """Return the nearest integers, and of two the one farther from zero.

    A number that is just short of a half is added and the fraction cut off: the sum is rounded to the next
    integer only for halves. Arrow takes -0.49999999999999994 for a half, as its distance from -1 is rounded.
    """
    found: np.ndarray = np.copysign(np.nextafter(values.dtype.type(0.5), values.dtype.type(0)), values)
    found += values
    np.trunc(found, out=found)
    return found


def _bind_abs(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 1)
    operand = _as_number(name, arguments[0])
    return [operand], operand.type


def _abs(operand: Datum) -> Datum:
    if types.is_float16(operand.type):
        return pc.abs(operand.cast(pa.float32())).cast(pa.float16())
    return pc.abs_checked(operand)


def _bind_rounding(name: str, arguments: Sequence[Expression]) -> Bound:
    """Bind a rounding to a constant number of digits, by default 0. Decimals stay decimals, integers become
    doubles.
    """
    expect(name, arguments, 1, 2)
    operand = _as_number(name, arguments[0])
    if name == "trunc" and len(arguments) == 2 and types.is_float16(operand.type):
        operand = cast(operand, pa.float32())
    if not types.is_decimal(operand.type):
        operand = _as_float(name, operand)
    if len(arguments) == 1:
        return [operand], _rounded_type(operand.type, 0)
    digits = as_integer(name, arguments[1])
    if not isinstance(digits, Literal):
        raise unfit(name, digits, "a constant integer here")
    return [operand, digits], _rounded_type(operand.type, digits.value.as_py() or 0)


_HALVES = "half_towards_infinity"
"""Mode of rounding in Arrow that takes halves away from zero."""
_rounded_floats = _by_numpy(_nearest)


def _rounded_type(data_type: pa.DataType, digits: int) -> pa.DataType:
    """Return the type of rounded values. A decimal keeps only the fraction digits that rounding leaves."""
    if not types.is_decimal(data_type):
        return data_type
    make = pa.decimal256 if types.is_decimal256(data_type) else pa.decimal128
    return make(data_type.precision, max(min(digits, data_type.scale), 0))


def _bind_whole(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 1)
    return _bind_rounding(name, arguments)


def _rounded(mode: str) -> Callable[..., Datum]:
    def compute(operand: Datum, digits: pa.Scalar | None = None) -> Datum:
        if digits is not None and not digits.is_valid:
            missing = pa.scalar(None, _rounded_type(operand.type, 0))
            return missing if isinstance(operand, pa.Scalar) else pa.repeat(missing, len(operand))
        count = 0 if digits is None else max(min(digits.as_py(), 300), -300)
        if not count and mode == _HALVES and types.is_floating(operand.type):
            return _rounded_floats(operand)
        rounded_type = _rounded_type(operand.type, count)
        if types.is_decimal(
            operand.type
        ):  # 9.9 has two digits and is rounded to 10.0, which has three before the final cast
            operand = operand.cast(pa.decimal256(min(operand.type.precision + 1, 76), operand.type.scale))
        return pc.round(operand, ndigits=count, round_mode=mode).cast(rounded_type)

    return compute


def _bind_log(name: str, arguments: Sequence[Expression]) -> Bound:
    """Bind a logarithm, whose result has the type of its number, the last argument."""
    expect(name, arguments, 1, 2)
    numbers = [_as_number(name, argument) for argument in arguments]
    result = numbers[-1].type if types.is_floating(numbers[-1].type) else pa.float64()
    kind = Literal(pa.scalar(None, result))
    return [kind, *(cast(number, pa.float64()) for number in numbers)], result


def _log(kind: pa.Scalar, first: Datum, second: Datum | None = None) -> Datum:
    found = pc.log10(first) if second is None else pc.logb(second, first)
    return found.cast(kind.type, safe=False)


def _bind_nanvl(name: str, arguments: Sequence[Expression]) -> Bound:
    """Bind `nanvl`. Half floats stay half floats; doubles and decimals give doubles, all other types single
    floats.
    """
    expect(name, arguments, 2)
    numbers = [_as_number(name, argument) for argument in arguments]
    common = pa.float64() if _needs_doubles(numbers) else pa.float32()
    if all(types.is_float16(number.type) for number in numbers):
        common = pa.float16()
    return [cast(number, common) for number in numbers], common


def _nanvl(value: Datum, other: Datum) -> Datum:
    wide = value.cast(pa.float32()) if types.is_float16(value.type) else value
    return pc.if_else(pc.is_nan(wide), other, value)


def _bind_atan2(name: str, arguments: Sequence[Expression]) -> Bound:
    """Bind `atan2`. Doubles and decimals give doubles, all other types single floats."""
    expect(name, arguments, 2)
    numbers = [_as_number(name, argument) for argument in arguments]
    common = pa.float64() if _needs_doubles(numbers) else pa.float32()
    return [cast(number, common) for number in numbers], common


def _sign(operand: Datum) -> Datum:
    # Adding zero changes -0.0 to 0.0.
    return pc.add(pc.sign(operand), pa.scalar(0, operand.type))


def _bind_integers(count: int) -> Callable[[str, Sequence[Expression]], Bound]:
    def bind(name: str, arguments: Sequence[Expression]) -> Bound:
        expect(name, arguments, count)
        return [as_integer(name, argument) for argument in arguments], pa.int64()

    return bind


def _of_pairs(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[..., pa.Array]:
    """Return a NumPy function of pairs of integers, null where one of them is null."""

    def compute(left: Datum, right: Datum) -> pa.Array:
        left, right, known = pair_of(left, right)
        pair = (pc.fill_null(side, 1).to_numpy(zero_copy_only=False) for side in (left, right))
        return pc.if_else(known, pa.array(function(*pair)), pa.scalar(None, pa.int64()))

    return compute


def _common_divisors(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.gcd(left, right)
    if (found < 0).any():  # of the least integer only, whose absolute value has 64 bits
        raise pa.ArrowInvalid("the greatest common divisor does not fit in an integer of 64 bits")
    return found


def _common_multiples(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    factors = np.abs(left // np.maximum(np.abs(np.gcd(left, right)), 1))
    with np.errstate(over="ignore"):
        found: np.ndarray = factors * np.abs(right)
    if (found < 0).any() or (
        (right != 0) & (found // np.where(right == 0, 1, np.abs(right)) != factors)
    ).any():
        raise pa.ArrowInvalid("the least common multiple does not fit in an integer of 64 bits")
    return found


_FACTORIALS = [math.factorial(number) for number in range(21)]


def _factorial(operand: Datum) -> pa.Array:
    wrong = pc.or_(pc.less(operand, 0), pc.greater_equal(operand, len(_FACTORIALS)))
    if pc.any(wrong).as_py():
        raise pa.ArrowInvalid("only 0 to 20 have a factorial of 64 bits")
    return pa.array(_FACTORIALS, pa.int64()).take(operand)


_SIGN = _of_floats(_sign)
_POWER = _of_floats(pc.power, 2)

FUNCTIONS = {
    "abs": Function(_bind_abs, _abs),
    "ceil": Function(_bind_whole, _rounded("up")),
    "floor": Function(_bind_whole, _rounded("down")),
    "round": Function(_bind_rounding, _rounded(_HALVES), keeps_nulls=True),
    "trunc": Function(_bind_rounding, _rounded("towards_zero")),
    "sqrt": _of_floats(pc.sqrt),
    "cbrt": _of_floats(_by_numpy(_cube_root)),
    "exp": _of_floats(pc.exp),
    "ln": _of_floats(pc.ln),
    "log": Function(_bind_log, _log),
    "log10": _of_floats(pc.log10),
    "log2": _of_floats(pc.log2),
    "power": _POWER,
    "pow": _POWER,
    "sign": _SIGN,
    "signum": _SIGN,
    "sin": _of_floats(pc.sin),
    "cos": _of_floats(pc.cos),
    "tan": _of_floats(pc.tan),
    "asin": _of_floats(pc.asin),
    "acos": _of_floats(pc.acos),
    "atan": _of_floats(pc.atan),
    "atan2": Function(_bind_atan2, pc.atan2),
    "sinh": _of_floats(_by_numpy(np.sinh)),
    "cosh": _of_floats(_by_numpy(np.cosh)),
    "tanh": _of_floats(_by_numpy(np.tanh)),
    "degrees": _of_floats(lambda operand: pc.multiply(operand, pa.scalar(180 / math.pi, operand.type))),
    "radians": _of_floats(lambda operand: pc.multiply(operand, pa.scalar(math.pi / 180, operand.type))),
    "isnan": _of_floats(pc.is_nan, result=pa.bool_()),
    "iszero": _of_floats(lambda operand: pc.equal(operand, 0), result=pa.bool_()),
    "cot": _of_floats(lambda operand: pc.divide(pa.scalar(1, operand.type), pc.tan(operand))),
    "gcd": Function(_bind_integers(2), _of_pairs(_common_divisors)),
    "lcm": Function(_bind_integers(2), _of_pairs(_common_multiples)),
    "factorial": Function(_bind_integers(1), _factorial),
    "nanvl": Function(_bind_nanvl, _nanvl),
}
