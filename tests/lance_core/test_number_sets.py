"""Sets of integers as ascending arrays, compared with those of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lance_core.number_sets import are_among, bitmap_of, distinct, union

Numbers = npt.NDArray[Any]

_RANDOM = np.random.default_rng(7)
ARRAYS: dict[str, Numbers] = {
    "empty": np.empty(0, np.uint32),
    "one": np.array([3], np.int64),
    "ascending": np.arange(5, 1000, 3, dtype=np.uint32),
    "descending": np.arange(1000, -5, -3, dtype=np.int64),
    "repeated": np.full(100, 9, np.uint64),
    "ascending, repeated": np.repeat(np.arange(50, dtype=np.uint64), 3),
    "random": _RANDOM.integers(-(2**63), 2**63 - 1, 1000),
    "random, repeated": _RANDOM.integers(0, 50, 1000).astype(np.uint32),
    "extremes": np.array([2**64 - 1, 0, 2**63, 2**63 - 1, 2**64 - 1, 1, 0], np.uint64),
    "signed extremes": np.array([2**63 - 1, -(2**63), 0, -1, 2**63 - 1], np.int64),
}


@pytest.mark.parametrize("values", ARRAYS.values(), ids=ARRAYS)
def test_distinct_values_are_those_of_numpy(values: Numbers) -> None:
    before = values.copy()
    found, expected = distinct(values), np.unique(values)
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()
    assert values.tolist() == before.tolist()


def test_distinct_ascending_values_are_not_copied() -> None:
    values = ARRAYS["ascending"]
    assert distinct(values) is values


@pytest.mark.parametrize("values", ARRAYS.values(), ids=ARRAYS)
def test_a_union_is_that_of_numpy(values: Numbers) -> None:
    for other in (values[:0], values[::2], values[::-1], values + values.dtype.type(1)):
        for found in (union(values, other), union(other, values)):
            assert found.dtype == values.dtype
            assert found.tolist() == np.union1d(values, other).tolist()
            assert not np.shares_memory(found, values)


@pytest.mark.parametrize("values", ARRAYS.values(), ids=ARRAYS)
def test_known_values_are_those_of_numpy(values: Numbers) -> None:
    for known in (values[:0], values[::2], values[1::3] + values.dtype.type(1)):
        assert are_among(distinct(known), values).tolist() == np.isin(values, known).tolist()


def test_a_bitmap_has_the_lower_32_bits() -> None:
    for values in ARRAYS.values():
        expected = np.unique(values.astype(np.uint32))
        assert list(bitmap_of(values)) == expected.tolist()
