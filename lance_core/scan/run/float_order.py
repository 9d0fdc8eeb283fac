"""Floats as integers in the order of their values, and back."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

WORDS = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
"""Integers by the bits of the floats that they stand for."""


def in_total_order(floats: pa.Array) -> pa.Array:
    """Return integers in the total order of IEEE 754.

    The bits of a float are an integer in this order, if those of negative floats after the sign are inverted.
    """
    return _other_form(floats.view(WORDS[floats.type.bit_width]))


def from_total_order(integers: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return the floats that `in_total_order` turned into integers."""
    return _other_form(integers).view(data_type)


def without_variants(floats: pa.Array) -> pa.Array:
    """Return floats with one form of NaN and of zero, so that equal values have equal bits.

    `floats` have 32 or 64 bits.
    """
    nan = pa.scalar(float("nan"), floats.type)
    return pc.if_else(pc.is_nan(floats), nan, pc.add(floats, pa.scalar(0.0, floats.type)))


def _other_form(bits: pa.Array) -> pa.Array:
    """Return integers with the bits after the sign inverted if they are negative.

    A second call gives the first integers again.
    """
    is_negative = pc.less(bits, pa.scalar(0, bits.type))
    after_the_sign = pa.scalar((1 << (bits.type.bit_width - 1)) - 1, bits.type)
    return pc.if_else(is_negative, pc.bit_wise_xor(bits, after_the_sign), bits)
