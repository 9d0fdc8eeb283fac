"""Comparisons as in the reference: NaN equals NaN and is the greatest number; -0.0 equals 0.0.

Arrow's kernels follow IEEE 754, where every comparison with NaN except `!=` is false. Therefore `x > c` with
a constant other than NaN is computed as `NOT x <= c`, which costs one kernel and one inversion of a bitmap.
Comparisons with null are null.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.kernels import NumberSet, compare_floats
from lance_core.schema.arrow_values import array_of, bytes_of, numbers_of, scalar_of

Datum: TypeAlias = Any
"""Values of one batch: a `pa.Array`, or a `pa.Scalar` for all rows."""

_KERNELS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_INVERSES = {">": pc.less_equal, ">=": pc.less}
FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Operator after its operands are exchanged."""


def compare(op: str, left: Datum, right: Datum) -> Datum:
    """Return `left op right` for values of one type; null if either side is null."""
    left, right = _comparable(left), _comparable(right)
    if not pa.types.is_floating(left.type):
        return _KERNELS[op](left, right)
    if isinstance(left, pa.Scalar) and not isinstance(right, pa.Scalar):
        op, left, right = FLIPPED[op], right, left
    if isinstance(right, pa.Scalar):
        return _compare_with_constant(op, left, right)
    return _compare_floats(op, left, right)


def is_in(operand: Datum, values: pa.Array, has_null: bool) -> Datum:
    """Return whether each operand is in `values`, which have its type and no nulls; null for a null operand.

    `has_null` says that the list contained a null, so an operand that is not found gives null.
    """
    operand, values = _comparable(operand), _comparable(values)
    nan = False
    if pa.types.is_floating(values.type):
        numbers = numbers_of(values)
        nan = bool(np.isnan(numbers).any())
        zeros = [0.0, -0.0] if (numbers == 0).any() else []
        values = pa.concat_arrays([values, array_of(np.array(zeros, numbers.dtype))])
    if isinstance(operand, pa.Array) and pa.types.is_integer(values.type):
        found = _among(operand, values)
    else:
        found = pc.is_in(operand, value_set=values)
    if nan:
        found = pc.or_(found, pc.fill_null(pc.is_nan(operand), scalar_of(False)))
    if has_null:
        found = pc.if_else(found, found, scalar_of(None, pa.bool_()))
    if isinstance(operand, pa.Scalar):
        return found if operand.is_valid else scalar_of(None, pa.bool_())
    return (
        pc.if_else(pc.is_valid(operand), found, scalar_of(None, pa.bool_())) if operand.null_count else found
    )


def true_only(flags: pa.BooleanArray) -> pa.BooleanArray:
    """Return flags with false in place of null, in a tenth of the time of Arrow's `fill_null`."""
    if not flags.null_count:
        return flags
    data = flags.buffers()[1]
    known = pa.BooleanArray.from_buffers(pa.bool_(), len(flags), [None, data], offset=flags.offset)
    return pc.and_(known, flags.is_valid())


def _among(operand: pa.Array, values: pa.Array) -> pa.BooleanArray:
    """Return for each integer whether it is among others, in a fifth of the time that Arrow needs."""
    found = NumberSet(numbers_of(values), operand.type.bit_width).find(bytes_of(operand))
    return pa.BooleanArray.from_buffers(pa.bool_(), len(operand), [None, pa.py_buffer(found)])


def _comparable(datum: Datum) -> Datum:
    """Return values in a type that Arrow compares: no half floats, dictionaries or decimals of a negative
    scale.
    """
    if pa.types.is_decimal(datum.type):
        return without_negative_scale(datum)
    if pa.types.is_dictionary(datum.type):
        is_scalar = isinstance(datum, pa.Scalar)
        datum = datum.cast(datum.type.value_type) if is_scalar else datum.dictionary_decode()
    return datum.cast(pa.float32()) if pa.types.is_float16(datum.type) else datum


def without_negative_scale(decimals: Datum) -> Datum:
    """Return decimals of a negative scale as their stored integers, which have the same order; others
    unchanged.
    """
    kind = decimals.type
    if kind.scale >= 0:
        return decimals
    wide = pa.types.is_decimal256(kind)
    return viewed(decimals, (pa.decimal256 if wide else pa.decimal128)(kind.precision, 0))


def viewed(datum: Datum, data_type: pa.DataType) -> Datum:
    """Return the same bytes as values of another type."""
    return pa.repeat(datum, 1).view(data_type)[0] if isinstance(datum, pa.Scalar) else datum.view(data_type)


def _compare_with_constant(op: str, left: Datum, right: pa.Scalar) -> Datum:
    constant = right.as_py()
    if constant is None or not math.isnan(constant):
        return pc.invert(_INVERSES[op](left, right)) if op in _INVERSES else _KERNELS[op](left, right)
    nan = pc.is_nan(left)
    if op in ("=", ">="):
        return nan
    if op in ("!=", "<"):
        return pc.invert(nan)
    # Nothing is greater than NaN, and every value is less than or equal to it. Nulls stay null.
    return pc.and_not(nan, nan) if op == ">" else pc.or_(nan, pc.invert(nan))


def _compare_floats(op: str, left: pa.Array, right: pa.Array) -> pa.BooleanArray:
    if op in (">", "<="):
        left, right = right, left
    is_negated = op in ("!=", "<=", ">=")
    bits, is_less = left.type.bit_width, op not in ("=", "!=")
    found = compare_floats(bytes_of(left), bytes_of(right), bits, is_less, is_negated)
    validity = None
    if left.null_count or right.null_count:
        validity = pc.and_(left.is_valid(), right.is_valid()).buffers()[1]
    return pa.BooleanArray.from_buffers(pa.bool_(), len(left), [validity, pa.py_buffer(found)])
