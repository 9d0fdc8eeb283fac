"""Run lengths and split bytes against plain Python."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import CorruptData
from support.runs.draws import draws
from support.twins import inputs, values

WORDS = (8, 16, 32, 64)
run_chunks = st.lists(
    st.lists(st.tuples(st.integers(0, 255), st.integers(1, 600)), min_size=1, max_size=6),
    min_size=1,
    max_size=4,
)


def expand(
    heads: list[bytes], lengths: list[bytes], counts: list[int], bits: int, shift: int = 0
) -> list[int]:
    block = kernels.expand_runs(
        inputs.stream(heads, shift), inputs.stream(lengths), inputs.counts(counts), bits
    )
    return inputs.numbers(block, f"<u{bits // 8}")


def test_the_example_of_the_format() -> None:
    source = [5] * 300 + [6] * 2 + [0] * 100
    heads, lengths = values.runs(source, 32)
    assert heads == struct.pack("<4I", 5, 5, 6, 0)
    assert lengths == bytes.fromhex("ff 2d 02 64")
    assert expand([heads], [lengths], [402], 32) == source


@settings(max_examples=draws(60), deadline=None)
@given(st.sampled_from(WORDS), run_chunks, st.integers(0, 7), st.booleans())
def test_runs_repeat_their_values(
    bits: int, chunks: list[list[tuple[int, int]]], shift: int, blocks: bool
) -> None:
    spread = (1 << bits) // 256
    sources = [[head * spread for head, length in chunk for _ in range(length)] for chunk in chunks]
    counts = list(map(len, sources))
    if blocks:
        stream = inputs.stream([values.run_block(source, bits) for source in sources], shift)
        heads, lengths = kernels.split_runs(stream, inputs.counts(counts))
        block = kernels.expand_runs(heads, lengths, inputs.counts(counts), bits)
        result = inputs.numbers(block, f"<u{bits // 8}")
    else:
        pairs = [values.runs(source, bits) for source in sources]
        result = expand([heads for heads, _ in pairs], [lengths for _, lengths in pairs], counts, bits, shift)
    assert result == inputs.joined(sources)


def test_the_last_run_of_a_chunk_may_reach_too_far() -> None:
    """Older writers let it; what is too much is dropped, and the next chunk starts afresh."""
    heads = [struct.pack("<2H", 1, 2), struct.pack("<H", 3)]
    assert expand(heads, [bytes([3, 200]), bytes([255])], [5, 2], 16) == [1, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("heads", "lengths", "count"),
    [
        (b"\1\2", b"\2\0", 2),
        (b"\1\2", b"\0\2", 2),
        (b"\1\2", b"\2\2", 5),
        (b"\1\2\3", b"\2\2\2", 4),
        (b"\1\2\3", b"\2\2", 4),
        (b"\1", b"\2\2", 4),
        (b"", b"", 1),
        (b"\1", b"\1", 1 << 40),
    ],
    ids=[
        "empty last run",
        "empty run",
        "too few",
        "run left",
        "values left",
        "lengths left",
        "nothing",
        "huge count",
    ],
)
def test_runs_that_lie(heads: bytes, lengths: bytes, count: int) -> None:
    """T22, T24: runs of nothing and runs that do not add up are refused, before memory is taken."""
    with pytest.raises(CorruptData):
        expand([heads], [lengths], [count], 8)


def test_a_block_that_lies_about_its_parts() -> None:
    """T22: the size in front counts against the bytes of that block only, and the runs add up exactly."""
    for block in (
        b"",
        b"\2" + b"\0" * 6,
        struct.pack("<Q", 3) + b"\1\1",
        struct.pack("<Q", 1 << 63) + b"\1\1",
        values.run_block([7] * 3, 8),
    ):
        with pytest.raises(CorruptData):
            kernels.split_runs(inputs.stream([block, bytes(64)]), inputs.counts([2, 0]))


@settings(max_examples=draws(40), deadline=None)
@given(st.sampled_from((4, 8)), st.lists(st.integers(0, 70), min_size=1, max_size=4))
def test_split_bytes_are_joined(width: int, counts: list[int]) -> None:
    source = np.random.default_rng(sum(counts)).bytes(width * sum(counts))
    rows = [source[i : i + width] for i in range(0, len(source), width)]
    chunks, position = [], 0
    for count in counts:
        chunks.append(values.split_bytes(rows[position : position + count]))
        position += count
    joined = kernels.join_byte_streams(inputs.stream(chunks, counts[0] % 8), inputs.counts(counts), width)
    assert bytes(joined) == source


def test_split_bytes_of_a_wrong_length() -> None:
    """T22: a chunk holds its values and nothing else."""
    for size, count, width in ((15, 4, 4), (17, 4, 4), (0, 1 << 61, 8), (12, 4, 3), (64, 4, 16)):
        with pytest.raises(CorruptData):
            kernels.join_byte_streams(inputs.stream([bytes(size)]), inputs.counts([count]), width)
