"""Positions of the bits of bitmaps, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_core.kernels import CorruptData, bits_except, has_dense_blocks, set_positions
from lance_core.scan.read.live_rows import places


@given(
    seed=st.integers(0, 2**32),
    num_bits=st.integers(0, 700),
    offset=st.integers(0, 80),
    share=st.sampled_from([0.0, 0.01, 0.15, 0.2, 0.5, 0.99, 1.0]),
)
def test_positions_are_those_of_numpy(seed: int, num_bits: int, offset: int, share: float) -> None:
    """T23: sparse and dense words, slices at any bit, and a last word that is not full."""
    bits = np.random.default_rng(seed).random(num_bits + offset) < share
    mask = pa.array(bits).slice(offset)
    expected = np.flatnonzero(bits[offset:])
    assert places(mask).tolist() == expected.tolist()
    assert places(mask, 2**32 - 1).tolist() == (expected + 2**32 - 1).tolist()


@pytest.mark.parametrize(("start", "count"), [(0, 17), (16, 1), (17, 0), (1, 2**64 - 1), (2**64 - 1, 1)])
def test_bits_beyond_the_bitmap_are_refused(start: int, count: int) -> None:
    """T22: neither a number of bits nor their start leads behind the bytes."""
    with pytest.raises(CorruptData, match="of a bitmap of 2 bytes"):
        set_positions(b"\xff\xff", start, count, 0)
    with pytest.raises(CorruptData, match="of a bitmap of 2 bytes"):
        has_dense_blocks(b"\xff\xff", start, count, 8, 0.5)
    assert np.frombuffer(set_positions(b"\xff\xff", 15, 1, 0), np.int64).tolist() == [0]


@given(seed=st.integers(0, 2**32), num_bits=st.integers(0, 700), share=st.sampled_from([0.0, 0.1, 0.9, 1.0]))
def test_all_other_bits_are_set(seed: int, num_bits: int, share: float) -> None:
    """T23: the bitmap has the positions of NumPy, at any length."""
    positions = np.flatnonzero(np.random.default_rng(seed).random(num_bits) < share)
    bits = np.unpackbits(
        np.frombuffer(bits_except(positions.astype(np.uint32).data, num_bits), np.uint8), bitorder="little"
    )
    expected = np.ones(num_bits, np.uint8)
    expected[positions] = 0
    assert bits[:num_bits].tolist() == expected.tolist()


def test_positions_beyond_the_bitmap_are_refused() -> None:
    """T22: no position leads behind the bytes, and no number is cut."""
    with pytest.raises(CorruptData, match="position 9 in a bitmap of 9 bits"):
        bits_except(np.array([3, 9], np.uint32).data, 9)
    with pytest.raises(CorruptData, match="7 bytes of positions"):
        bits_except(b"\0" * 7, 9)


@given(
    seed=st.integers(0, 2**32),
    num_bits=st.integers(0, 700),
    start=st.integers(0, 80),
    block_bits=st.sampled_from([1, 7, 64, 100, 2**63]),
    share=st.sampled_from([0.01, 0.3, 0.7, 1.0]),
    least_share=st.sampled_from([0.0, 0.005, 0.25, 0.6, 1.0, 1.5]),
)
def test_blocks_with_many_bits_are_those_of_numpy(
    seed: int, num_bits: int, start: int, block_bits: int, share: float, least_share: float
) -> None:
    """T23: blocks of any length, also longer than all bits, and a last block that is not full."""
    bits = np.random.default_rng(seed).random(num_bits + start) < share
    blocks = [bits[start:][first : first + block_bits] for first in range(0, num_bits, block_bits)]
    expected = all(block.any() and block.sum() >= least_share * len(block) for block in blocks)
    found = has_dense_blocks(
        np.packbits(bits, bitorder="little").tobytes(), start, num_bits, block_bits, least_share
    )
    assert found == expected


def test_blocks_without_bits_are_refused() -> None:
    """T22: the kernel would never end."""
    with pytest.raises(CorruptData, match="blocks of no bits"):
        has_dense_blocks(b"\xff", 0, 8, 0, 0.5)
