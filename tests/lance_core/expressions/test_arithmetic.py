"""Arithmetic on extreme numbers, as Python computes it."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from lance_core.expressions.arithmetic import arithmetic
from lance_core.expressions.evaluate import evaluate
from lance_core.expressions.tree import Column, Literal
from lance_core.kernels import remainders
from support.tables.matrix_types import INTEGERS


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_remainders_by_constants(kind: pa.DataType) -> None:
    """Remainders have the sign of the dividend; extremes, nulls and negative divisors among the numbers."""
    chance = random.Random(str(kind))
    limits = np.iinfo(kind.to_pandas_dtype())
    extremes = [int(limits.min), int(limits.min) + 1, 0, 1, int(limits.max) - 1, int(limits.max), None]
    numbers = extremes + [chance.randint(limits.min, limits.max) for _ in range(200)]
    divisors = [1, 2, 3, 7, 10, int(limits.max), *([-1, -7, int(limits.min)] if limits.min else [])]
    for divisor in [*divisors, *(chance.randint(1, limits.max) for _ in range(20))]:
        for first in (0, 1, 7):
            given = numbers[first:]
            batch = pa.record_batch({"x": pa.array(numbers, kind)[first:]})
            remainder = arithmetic("%", Column(("x",), kind), Literal(pa.scalar(divisor, kind)))
            expected = [None if number is None else abs(number) % abs(divisor) for number in given]
            signed = zip(expected, given, strict=True)
            expected = [-rest if rest and number < 0 else rest for rest, number in signed]
            assert evaluate(remainder, batch) == pa.array(expected, kind)


def test_divisors_out_of_range() -> None:
    for divisor in (0, 128, 1 << 63):
        with pytest.raises(ValueError, match="out of the range"):
            remainders(bytes(4), 8, True, divisor)
    with pytest.raises(ValueError, match="other bits"):
        remainders(bytes(4), 24, True, 1)


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.int32(), pa.uint16()], ids=str)
def test_remainders_of_many_numbers(kind: pa.DataType) -> None:
    """Small numbers are divided as floats: beside every multiple of a divisor, up to the first number that is
    too large for it, and in blocks with and without such a number.
    """
    chance = random.Random(str(kind))
    limits = np.iinfo(kind.to_pandas_dtype())
    exact = min(int(limits.max), 1 << 51)
    for divisor in [
        1,
        2,
        3,
        10,
        1000,
        65_535,
        10**9 + 7,
        (1 << 50) + 1,
        (1 << 51) - 1,
        1 << 51,
        (1 << 52) + 1,
    ]:
        if divisor > limits.max:
            continue
        multiples = [divisor * chance.randint(0, exact // divisor) for _ in range(400)]
        beside = [multiple + chance.randint(-1, 1) for multiple in multiples]
        edges = [exact - 1, exact, exact - divisor, 0, divisor, divisor - 1, 2 * divisor - 1]
        numbers = beside + [chance.randint(0, exact - 1) for _ in range(800)] + edges
        numbers += [-number for number in numbers]
        numbers += [int(limits.max) - chance.randint(0, 1000) for _ in range(600)]
        numbers += [number for _ in range(300) for number in (5, int(limits.max))]
        numbers = [number for number in numbers if limits.min <= number <= limits.max]
        array = np.array(numbers, kind.to_pandas_dtype())
        is_signed = limits.min < 0
        found = np.frombuffer(
            remainders(array.data, kind.bit_width, is_signed, divisor), kind.to_pandas_dtype()
        )
        assert found.tolist() == [abs(n) % divisor * (-1 if n < 0 else 1) for n in numbers]
