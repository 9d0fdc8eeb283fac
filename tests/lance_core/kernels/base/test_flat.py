"""Fixed widths and bitmaps against plain Python."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import CorruptData
from support.runs.draws import draws
from support.runs.each_case import each_case
from support.twins import inputs


@settings(max_examples=draws(60), deadline=None)
@given(st.integers(1, 40), st.lists(st.integers(0, 30), min_size=1, max_size=5), st.integers(0, 7))
def test_chunks_are_joined(width: int, counts: list[int], extra: int) -> None:
    """Bytes behind the last value of a chunk belong to nobody."""
    rng = random.Random(width)
    parts = [rng.randbytes(width * count) for count in counts]
    stream = inputs.stream([part + b"?" * extra for part in parts], extra)
    assert bytes(kernels.join_fixed(stream, inputs.counts(counts), width)) == b"".join(parts)


@settings(max_examples=draws(100), deadline=None)
@given(st.lists(st.lists(st.booleans(), max_size=40), min_size=1, max_size=8), st.integers(0, 2))
def test_bitmaps_join_at_any_bit(chunks: list[list[bool]], extra: int) -> None:
    stream = inputs.stream([inputs.bitmap(chunk) + b"\xff" * extra for chunk in chunks])
    joined = kernels.join_bits(stream, inputs.counts(list(map(len, chunks))))
    assert inputs.bits(joined, sum(map(len, chunks))) == inputs.joined(chunks)


@settings(max_examples=draws(100), deadline=None)
@given(st.lists(st.booleans(), max_size=80), st.data())
def test_bits_are_moved_to_the_front(source: list[bool], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(source)))
    count = data.draw(st.integers(0, len(source) - start))
    copied = kernels.copy_bits(inputs.place(inputs.bitmap(source)), start, count)
    assert inputs.bits(copied, count) == source[start : start + count]


def test_bits_outside_their_bitmap() -> None:
    """T22: neither the start nor the end may leave the bitmap."""
    for start, count in ((0, 17), (16, 1), (17, 0), ((1 << 64) - 1, 2), (1, (1 << 64) - 1)):
        with pytest.raises(CorruptData):
            kernels.copy_bits(bytes(2), start, count)


@given(st.lists(st.integers(0, 255), max_size=40))
def test_every_byte_that_is_not_zero_is_true(source: list[int]) -> None:
    packed = kernels.bytes_to_bits(inputs.place(bytes(source)))
    assert inputs.bits(packed, len(source)) == [value != 0 for value in source]


@each_case("count", [0, 1, 2, 3, 7, 1000])
@each_case("width", [0, 1, 3, 16])
def test_a_value_is_repeated(width: int, count: int) -> None:
    value = bytes(range(1, width + 1))
    assert bytes(kernels.repeat_value(value, count)) == value * count


@pytest.mark.parametrize("count", [1 << 62, (1 << 64) - 1, 1 << 61])
def test_repeating_too_often(count: int) -> None:
    """T24: a product that overflows a size, or exceeds every machine, is no allocation."""
    with pytest.raises((CorruptData, MemoryError)):
        kernels.repeat_value(b"12345678", count)


def test_chunks_that_are_too_short() -> None:
    """T22, T24: also where the count times the width overflows 64 bits."""
    for size, count, width in ((11, 3, 4), (0, 1, 1), (8, 1 << 52, 1 << 12), (8, 1 << 52, 1 << 61)):
        with pytest.raises(CorruptData):
            kernels.join_fixed(inputs.stream([bytes(size)]), inputs.counts([count]), width)
    for size, count in ((1, 9), (0, 1), (1, 1 << 50)):
        with pytest.raises(CorruptData):
            kernels.join_bits(inputs.stream([bytes(size)]), inputs.counts([count]))


def test_as_many_chunks_of_bytes_as_of_values() -> None:
    """T22: a row of chunks and its counts go together."""
    stream, counts = inputs.stream([bytes(8)] * 2), inputs.counts([1])
    for kernel in (
        lambda: kernels.join_fixed(stream, counts, 1),
        lambda: kernels.join_bits(stream, counts),
        lambda: kernels.unpack_inline(stream, counts, 8),
        lambda: kernels.unpack_out_of_line(stream, counts, 8, 1),
        lambda: kernels.expand_runs(stream, stream, counts, 8),
        lambda: kernels.join_byte_streams(stream, counts, 4),
        lambda: kernels.join_variable(stream, counts, 32),
        lambda: kernels.decode_levels(stream, counts, "flat", 0),
        lambda: kernels.decode_validity(stream, counts, "flat", 0, 1, 9),
    ):
        with pytest.raises(CorruptData):
            kernel()
