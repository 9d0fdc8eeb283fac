"""Full-zip entries against plain Python."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import CorruptData
from support.runs.draws import draws
from support.twins import inputs, values

# Widths that make control words of one, two and four bytes.
level_bits = st.sampled_from(((0, 1), (1, 0), (1, 2), (4, 4), (3, 6), (8, 8), (1, 16), (9, 8), (16, 16)))


def levels_of(block: kernels.Block, bits: int) -> list[int] | None:
    assert (len(block) == 0) == (bits == 0) or not len(block)
    return inputs.numbers(block, "<u2") if bits else None


def random_levels(rng: random.Random, num_entries: int, bits: tuple[int, int]) -> list[tuple[int, int]]:
    return [tuple(rng.getrandbits(b) if b else 0 for b in bits) for _ in range(num_entries)]  # type: ignore[misc]


def test_the_examples_of_the_format() -> None:
    data = bytes.fromhex("00 01000000 01 00000000 00 03000000")
    _, def_, num_entries, zipped, num_values = kernels.unzip_fixed(data, 0, 1, 1, 4)
    assert inputs.numbers(def_, "<u2") == [0, 1, 0]
    assert (num_entries, num_values) == (3, 3)
    assert inputs.numbers(zipped, "<i4") == [1, 0, 3]

    data = bytes.fromhex("00 02000000 6162 01 00 00000000 00 03000000 636465")
    _, def_, _, offsets, text, num_values = kernels.unzip_variable(data, 0, 1, 1, 32)
    assert inputs.numbers(def_, "<u2") == [0, 1, 0, 0]
    assert inputs.numbers(offsets, "<u4") == [0, 2, 2, 2, 5]
    assert (bytes(text), num_values) == (b"abcde", 4)

    data = bytes.fromhex("04 02000000 6162 00 01000000 63 06 07 04 00000000 01")
    rep, def_, num_entries, offsets, text, num_values = kernels.unzip_variable(data, 1, 2, 1, 32)
    assert inputs.numbers(rep, "<u2") == [1, 0, 1, 1, 1, 0]
    assert inputs.numbers(def_, "<u2") == [0, 0, 2, 3, 0, 1]
    assert inputs.numbers(offsets, "<u4") == [0, 2, 3, 3, 3]
    assert (bytes(text), num_entries, num_values) == (b"abc", 6, 4)


@settings(max_examples=draws(80), deadline=None)
@given(
    level_bits, st.integers(0, 20), st.integers(0, 20), st.integers(0, 3), st.randoms(use_true_random=False)
)
def test_fixed_entries(
    bits: tuple[int, int], num_entries: int, width: int, max_visible: int, rng: random.Random
) -> None:
    levels = random_levels(rng, num_entries, bits)
    entries = [(rep, d, rng.randbytes(width) if d <= max_visible else None) for rep, d in levels]
    data = inputs.place(values.zip_entries(entries, *bits), rng.randrange(8))
    rep, def_, found, zipped, num_values = kernels.unzip_fixed(data, *bits, max_visible, width)
    assert levels_of(rep, bits[0]) == ([r for r, _ in levels] if bits[0] else None)
    assert levels_of(def_, bits[1]) == ([d for _, d in levels] if bits[1] else None)
    visible = [value for _, _, value in entries if value is not None]
    assert (found, num_values, bytes(zipped)) == (num_entries, len(visible), b"".join(visible))


@settings(max_examples=draws(80), deadline=None)
@given(
    level_bits,
    st.integers(0, 20),
    st.sampled_from((32, 64)),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_variable_entries(
    bits: tuple[int, int], num_entries: int, length_bits: int, max_visible: int, rng: random.Random
) -> None:
    levels = [(r, d if rng.random() < 0.4 else 0) for r, d in random_levels(rng, num_entries, bits)]
    entries = [(r, d, rng.randbytes(rng.randrange(30)) if d == 0 else None) for r, d in levels]
    data = inputs.place(values.zip_entries(entries, *bits, length_bits), rng.randrange(8))
    rep, def_, found, offsets, text, num_values = kernels.unzip_variable(
        data, *bits, max_visible, length_bits
    )
    assert levels_of(rep, bits[0]) == ([r for r, _ in levels] if bits[0] else None)
    assert levels_of(def_, bits[1]) == ([d for _, d in levels] if bits[1] else None)
    visible = [value or b"" for _, d, value in entries if d <= max_visible]
    assert (found, num_values, bytes(text)) == (num_entries, len(visible), b"".join(visible))
    assert bytes(offsets) == values.arrow_offsets(visible, length_bits)


def test_variable_entries_without_levels() -> None:
    data = values.zip_entries([(0, 0, b"ab"), (0, 0, b""), (0, 0, b"c")], 0, 0, 64)
    _, _, num_entries, offsets, text, num_values = kernels.unzip_variable(data, 0, 0, 0, 64)
    assert (num_entries, num_values, bytes(text)) == (3, 3, b"abc")
    assert inputs.numbers(offsets, "<u8") == [0, 2, 2, 3]


def test_zipped_data_that_lies() -> None:
    """T22: entries of no bytes, levels of too many bits, lengths beyond the end, huge widths."""
    for data, rep_bits, def_bits, width in (
        (b"", 0, 0, 0),
        (bytes(64), 17, 0, 4),
        (bytes(64), 0, 17, 4),
        (bytes(64), 4294967295, 1, 4),
        (bytes(9), 0, 1, 4),
        (bytes(9), 0, 1, (1 << 64) - 1),
        (bytes(7), 16, 16, 1),
    ):
        with pytest.raises(CorruptData):
            kernels.unzip_fixed(inputs.place(data), rep_bits, def_bits, 1, width)
    for data, length_bits in (
        (b"\0\5\0\0\0abcd", 32),
        (b"\0\5\0\0", 32),
        (b"\0" + b"\xff" * 8 + b"abc", 64),
        (b"\0\1\0a", 16),
    ):
        with pytest.raises(CorruptData):
            kernels.unzip_variable(inputs.place(data), 0, 1, 1, length_bits)
