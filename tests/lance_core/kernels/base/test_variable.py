"""Strings and binaries against plain Python."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import CorruptData, OffsetOverflow
from support.runs.draws import draws
from support.twins import inputs, values

texts = st.lists(st.binary(max_size=20), max_size=20)
offset_widths = st.sampled_from((32, 64))


def join(chunks: list[bytes], counts: list[int], offset_bits: int, shift: int = 0) -> list[bytes]:
    joined = kernels.join_variable(inputs.stream(chunks, shift), inputs.counts(counts), offset_bits)
    return inputs.texts(*joined, offset_bits)


def join_blocks(blocks: list[bytes], counts: list[int], offset_bits: int, shift: int = 0) -> list[bytes]:
    joined = kernels.join_variable_blocks(inputs.stream(blocks, shift), inputs.counts(counts), offset_bits)
    return inputs.texts(*joined, offset_bits)


def test_the_example_of_the_format() -> None:
    chunk = values.variable_chunk([b"ab", b"", b"cde"], 32)
    assert chunk == bytes.fromhex("10000000 12000000 12000000 15000000 6162636465 484848")
    assert join([chunk], [3], 32) == [b"ab", b"", b"cde"]


@settings(max_examples=draws(80), deadline=None)
@given(st.lists(texts, min_size=1, max_size=4), offset_widths, st.integers(0, 9), st.integers(0, 7))
def test_chunks_are_joined(chunks: list[list[bytes]], offset_bits: int, gap: int, shift: int) -> None:
    packed = [values.variable_chunk(chunk, offset_bits, gap) for chunk in chunks]
    assert join(packed, list(map(len, chunks)), offset_bits, shift) == inputs.joined(chunks)


@pytest.mark.parametrize(
    ("offsets", "count"),
    [
        ([12, 14, 13], 2),
        ([12, 14, 17], 2),
        ([11, 14, 16], 2),
        ([16, 14, 12], 2),
        ([12, 99, 16], 2),
        ([12, 11, 16], 2),
        ([12, 14, 16], 7),
        ([0, 0, 0], 2),
        ([12, 14, 0xFFFFFFFF], 2),
        ([12, 14, 16], 1 << 40),
    ],
)
def test_offsets_that_lie(offsets: list[int], count: int) -> None:
    """T22: offsets decrease, leave the chunk, point into their table, or are fewer than claimed."""
    with pytest.raises(CorruptData):
        join([values.integers(offsets, 32) + b"abcd"], [count], 32)


@settings(max_examples=draws(60), deadline=None)
@given(st.lists(texts, min_size=1, max_size=4), offset_widths, st.integers(0, 9), st.integers(0, 7))
def test_blocks_are_joined(blocks: list[list[bytes]], offset_bits: int, gap: int, shift: int) -> None:
    packed = [values.variable_block(block, offset_bits, gap) for block in blocks]
    assert join_blocks(packed, list(map(len, blocks)), offset_bits, shift) == inputs.joined(blocks)


def test_the_block_of_the_format() -> None:
    block = bytes.fromhex("20000000 14000000 00000000 01000000 03000000 616262")
    assert values.variable_block([b"a", b"bb"], 32) == block
    assert join_blocks([block], [2], 32) == [b"a", b"bb"]


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ([64, 20, 0, 1, 3], 2),
        ([32, 19, 0, 1, 3], 2),
        ([32, 24, 0, 1, 3], 2),
        ([32, 20, 0, 1, 4], 2),
        ([32, 20, 0, 4, 3], 2),
        ([32, 20, 0, 1, 3], 4),
        ([32, 20, 0, 1, 3], (1 << 62) - 1),
        ([32], 0),
    ],
)
def test_a_block_that_lies(words: list[int], count: int) -> None:
    """T22: wrong width, bytes inside the table or beyond the end, more values than there are."""
    with pytest.raises(CorruptData):
        join_blocks([values.integers(words, 32) + b"abb"], [count], 32)


@pytest.mark.parametrize("offset_bits", [32, 64])
def test_a_value_is_repeated(offset_bits: int) -> None:
    for value, count in ((b"abc", 5), (b"", 3), (b"x", 0)):
        assert (
            inputs.texts(*kernels.repeat_variable(value, count, offset_bits), offset_bits) == [value] * count
        )


def test_repeating_stops_at_what_offsets_can_address() -> None:
    """T24: neither 2 GiB under 32-bit offsets nor a count that overflows a size is attempted."""
    with pytest.raises(OffsetOverflow):
        kernels.repeat_variable(bytes(1 << 16), 1 << 15, 32)
    for value, count in ((b"ab", 1 << 62), (b"", (1 << 62) - 1), (b"", (1 << 64) - 1), (b"", (1 << 61) - 1)):
        with pytest.raises((CorruptData, OffsetOverflow, MemoryError)):
            kernels.repeat_variable(value, count, 64)
        with pytest.raises((CorruptData, OffsetOverflow, MemoryError)):
            kernels.repeat_variable(value, count, 32)
