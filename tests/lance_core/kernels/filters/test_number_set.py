"""Sets of integers find the numbers that NumPy finds, near each other and far, whatever their hashes are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core.kernels import CorruptData, NumberSet
from support.runs.draws import draws
from support.runs.each_case import each_case

KINDS = [np.dtype(f"{sign}{width}") for sign in "iu" for width in (1, 2, 4, 8)]
_SAME_HASH = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
"""Factor that gives numbers with the smallest hashes."""


def found(numbers: npt.NDArray[np.integer], others: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    made = NumberSet(numbers.copy(), 8 * numbers.dtype.itemsize).find(others.copy())
    bits = np.unpackbits(np.frombuffer(made, np.uint8), bitorder="little").view(np.bool_)
    assert not bits[len(others) :].any()
    return bits[: len(others)]


@settings(max_examples=draws(150), deadline=None)
@given(
    st.sampled_from(KINDS), st.integers(0, 300), st.integers(0, 300), st.integers(0, 62), st.integers(0, 99)
)
def test_numbers_are_found(kind: np.dtype[np.integer], count: int, more: int, spread: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    limits = np.iinfo(kind)
    steps = rng.integers(0, 1 << spread, count + more, dtype=np.uint64)
    every = (np.uint64(rng.integers(limits.min, limits.max, dtype=kind)) + steps).astype(kind)
    every[rng.random(len(every)) < 0.02] = limits.min
    every[rng.random(len(every)) < 0.02] = limits.max
    numbers, others = every[:count], np.append(every[count:], every[: count // 2])
    assert np.array_equal(found(numbers, others), np.isin(others, numbers))


@each_case("kind", KINDS)
def test_sets_without_numbers_and_with_all(kind: np.dtype[np.integer]) -> None:
    limits = np.iinfo(kind)
    some = np.array([limits.min, limits.max, 0, 1], kind)
    assert not found(some[:0], some).any()
    assert found(some, some).all()
    assert not len(found(some, some[:0]))
    if kind.itemsize <= 2:
        every = np.arange(limits.min, int(limits.max) + 1).astype(kind)
        assert found(every, every).all()
        assert np.array_equal(found(every[::2], every), np.arange(len(every)) % 2 == 0)


def test_numbers_with_one_hash_take_no_longer() -> None:
    """T20: many numbers in one bucket are searched, not compared one by one."""
    numbers = np.arange(100_000, dtype=np.uint64) * np.uint64(_SAME_HASH)
    assert found(numbers, numbers).all()
    assert not found(numbers[::2], numbers[1::2]).any()


def test_what_is_no_set() -> None:
    with pytest.raises(ValueError, match="other bits"):
        NumberSet(bytes(8), 24)
    with pytest.raises(CorruptData, match="7 bytes of numbers of 32 bits"):
        NumberSet(bytes(7), 32)
