"""Numbers in a plain stream of bits against Python's integers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import CorruptData
from support.runs.draws import draws
from support.twins import inputs


@settings(max_examples=draws(120), deadline=None)
@given(st.sampled_from((8, 16, 32, 64)), st.booleans(), st.integers(0, 40), st.randoms(use_true_random=False))
def test_numbers_of_any_width(word_bits: int, is_signed: bool, count: int, rng: random.Random) -> None:
    bits, start = rng.randint(1, word_bits), rng.randrange(70)
    source = [rng.getrandbits(bits) for _ in range(count)]
    string = rng.getrandbits(start + 1) >> 1 | sum(v << (start + i * bits) for i, v in enumerate(source))
    data = string.to_bytes((start + count * bits + 7) // 8, "little")
    if is_signed:
        source = [value - (value >> (bits - 1) << bits) for value in source]
    block = kernels.unpack_bit_stream(
        inputs.place(data, rng.randrange(8)), start, count, bits, word_bits, is_signed
    )
    assert inputs.numbers(block, f"<{'i' if is_signed else 'u'}{word_bits // 8}") == source


@pytest.mark.parametrize(
    ("start", "count", "bits", "word_bits"),
    [
        (0, 6, 3, 8),
        (17, 0, 3, 8),
        (1, 2, 8, 8),
        (0, 1, 0, 8),
        (0, 1, 9, 8),
        (0, 1, 3, 24),
        (0, (1 << 64) - 1, 1, 8),
        ((1 << 64) - 1, 1, 1, 8),
        (0, 1 << 61, 8, 8),
        (0, 1, 65, 64),
    ],
)
def test_streams_that_lie(start: int, count: int, bits: int, word_bits: int) -> None:
    """T22: numbers beyond the end, of no bits, or of more bits than their word."""
    with pytest.raises(CorruptData):
        kernels.unpack_bit_stream(inputs.place(bytes(2)), start, count, bits, word_bits, False)
