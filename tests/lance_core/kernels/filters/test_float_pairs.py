"""Floats are compared with floats as in a total order: NaN equals NaN and is the greatest number."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core.expressions.comparisons import compare
from lance_core.kernels import CorruptData, compare_floats
from support.runs.draws import draws
from support.runs.each_case import each_case

FEW = [math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 5e-324, 1e-45]
OPERATORS = {
    "=": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def rank(number: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(number) else (False, number)


@settings(max_examples=draws(100), deadline=None)
@given(
    st.sampled_from([pa.float16(), pa.float32(), pa.float64()]),
    st.integers(0, 150),
    st.sampled_from([0.0, 0.2, 1.0]),
    st.integers(0, 9),
    st.integers(0, 99),
)
def test_floats_are_compared_as_python_compares_ranks(
    kind: pa.DataType, count: int, nulls: float, skipped: int, seed: int
) -> None:
    """T23: slices of any length around the words of a bitmap, with nulls on either side."""
    rng = np.random.default_rng(seed)

    def column() -> pa.Array:
        numbers = rng.choice(FEW, count + skipped).astype(kind.to_pandas_dtype())
        return pa.array(numbers, kind, mask=rng.random(count + skipped) < nulls).slice(skipped)

    left, right = column(), column()
    pairs = list(zip(left.to_pylist(), right.to_pylist(), strict=True))
    for op, holds in OPERATORS.items():
        expected = [None if None in pair else holds(*map(rank, pair)) for pair in pairs]
        assert compare(op, left, right).to_pylist() == expected, op


@each_case("is_negated", [False, True])
def test_bits_after_the_last_row_are_zero(is_negated: bool) -> None:
    numbers = np.zeros(3, np.float32)
    bits = bytes(memoryview(compare_floats(numbers, numbers, 32, False, is_negated)))
    assert int.from_bytes(bits, "little") == (0 if is_negated else 0b111)


def test_other_numbers_of_floats_are_refused() -> None:
    """T22: no side is read behind its end."""
    with pytest.raises(CorruptData, match="16 and 8 bytes of floats"):
        compare_floats(bytes(16), bytes(8), 64, True, False)
    with pytest.raises(CorruptData, match="7 and 7 bytes of floats"):
        compare_floats(bytes(7), bytes(7), 32, True, False)
    with pytest.raises(ValueError, match="32 or 64 bits"):
        compare_floats(bytes(4), bytes(4), 16, True, False)
