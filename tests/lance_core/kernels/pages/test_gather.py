"""Values by index against plain Python."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import CorruptData, OffsetOverflow
from support.runs.draws import draws
from support.twins import inputs, values

INDEX_BITS = (8, 16, 32, 64)


def indices(source: list[int], bits: int, shift: int = 0) -> memoryview:
    return inputs.place(values.integers(source, bits), shift)


@settings(max_examples=draws(80), deadline=None)
@given(st.sampled_from(INDEX_BITS), st.integers(1, 20), st.integers(0, 70), st.randoms(use_true_random=False))
def test_fixed_items(bits: int, width: int, count: int, rng: random.Random) -> None:
    items = [rng.randbytes(width) for _ in range(rng.randint(1, 200))]
    picked = [rng.randrange(len(items)) for _ in range(count)]
    shift = rng.randrange(8)
    block = kernels.gather_fixed(
        indices(picked, bits, shift), count, bits, inputs.place(b"".join(items), shift), width
    )
    assert bytes(block) == b"".join(items[i] for i in picked)


@settings(max_examples=draws(80), deadline=None)
@given(st.sampled_from(INDEX_BITS), st.integers(0, 70), st.randoms(use_true_random=False))
def test_bits(bits: int, count: int, rng: random.Random) -> None:
    items = [rng.random() < 0.5 for _ in range(rng.randint(1, 200))]
    picked = [rng.randrange(len(items)) for _ in range(count)]
    bitmap, num_unset = kernels.gather_bits(
        indices(picked, bits, 1), count, bits, inputs.place(inputs.bitmap(items)), len(items)
    )
    assert inputs.bits(bitmap, count) == [items[i] for i in picked]
    assert num_unset == sum(not items[i] for i in picked)


@settings(max_examples=draws(80), deadline=None)
@given(
    st.sampled_from(INDEX_BITS),
    st.sampled_from((32, 64)),
    st.sampled_from((0, 1, 16, 17, 31, 32, 33, 100)),
    st.integers(0, 70),
    st.randoms(use_true_random=False),
)
def test_strings(bits: int, offset_bits: int, longest: int, count: int, rng: random.Random) -> None:
    """Short strings are copied in fixed steps, long ones one by one; the first may not start at 0."""
    items = [rng.randbytes(rng.randint(0, longest)) for _ in range(rng.randint(1, 200))]
    picked = [rng.randrange(len(items)) for _ in range(count)]
    lead, shift = rng.choice((0, 5)), rng.randrange(8)
    at = np.frombuffer(values.arrow_offsets(items, offset_bits), f"<u{offset_bits // 8}") + lead
    offsets, data = kernels.gather_variable(
        indices(picked, bits, shift),
        count,
        bits,
        inputs.place(at.astype(f"<u{offset_bits // 8}").tobytes(), shift),
        inputs.place(b"?" * lead + b"".join(items)),
        len(items),
        offset_bits,
    )
    expected = [items[i] for i in picked]
    assert bytes(offsets) == values.arrow_offsets(expected, offset_bits)
    assert bytes(data) == b"".join(expected)


@pytest.mark.parametrize("bits", INDEX_BITS)
@pytest.mark.parametrize("index", [3, 127, 128, 255])
def test_an_index_beyond_the_items(bits: int, index: int) -> None:
    """T22: the highest index counts, wherever it stands and whoever needs it."""
    for picked in ([index, 0, 1], [0, 1, index]):
        where = indices(picked, bits)
        with pytest.raises(CorruptData):
            kernels.check_indices(where, 3, bits, 3)
        with pytest.raises(CorruptData):
            kernels.gather_fixed(where, 3, bits, bytes(12), 4)
        with pytest.raises(CorruptData):
            kernels.gather_bits(where, 3, bits, bytes(1), 3)
        with pytest.raises(CorruptData):
            kernels.gather_variable(where, 3, bits, values.integers([0, 1, 2, 3], 32), b"abc", 3, 32)
        kernels.check_indices(where, 3, bits, index + 1)


def test_the_largest_indices() -> None:
    """T22: comparison is unsigned and happens at the width of the index."""
    for bits in INDEX_BITS:
        with pytest.raises(CorruptData):
            kernels.check_indices(indices([(1 << bits) - 1], bits), 1, bits, (1 << bits) - 1)
    kernels.check_indices(indices([255], 8), 1, 8, 256)
    kernels.check_indices(b"", 0, 32, 0)


def test_sizes_that_lie() -> None:
    """T22: fewer indices, items or bits than claimed, also where the claim wraps around 2^64."""
    where = indices([0, 0], 32)
    for count in (3, 1 << 62, (1 << 64) - 1):
        with pytest.raises(CorruptData):
            kernels.check_indices(where, count, 32, 1)
        with pytest.raises(CorruptData):
            kernels.gather_fixed(where, count, 32, bytes(4), 4)
    for bits in (0, 1, 24, 128):
        with pytest.raises(CorruptData):
            kernels.check_indices(where, 1, bits, 1)
    with pytest.raises(CorruptData):
        kernels.gather_fixed(where, 1, 32, bytes(4), 0)
    for num_items in (9, (1 << 64) - 1):
        with pytest.raises(CorruptData):
            kernels.gather_bits(where, 2, 32, b"\1", num_items)
        with pytest.raises(CorruptData):
            kernels.gather_variable(where, 2, 32, values.integers([0, 1], 32), b"a", num_items, 32)


def test_more_bytes_than_offsets_address() -> None:
    """T24: one long item named often is cut by the caller, before it is copied."""
    text = inputs.place(bytes(1 << 20))
    offsets = values.integers([0, 1 << 20], 32)
    with pytest.raises(OffsetOverflow):
        kernels.gather_variable(bytes(2048 * 1), 2048, 8, offsets, text, 1, 32)
