"""Rows of chunks: their counts, their bytes and the headers of the mini-block layout."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import CorruptData, Counts, Stream
from support.runs.draws import draws
from support.twins import inputs, values


def test_the_chunk_of_the_format() -> None:
    """A nullable int32 page [1, null, 3, 4, null] in both versions."""
    def_ = values.integers([0, 1, 0, 0, 1], 16)
    numbers = values.integers([1, 0, 3, 4, 0], 32)
    small = values.chunk([numbers], num_levels=5, def_=def_)
    assert small == bytes.fromhex(
        "0500 0a00 1400 fefe 00000100000000000100 fefefefefefe"
        "01000000 00000000 03000000 04000000 00000000 fefefefe"
    )
    large = values.chunk([numbers], num_levels=5, def_=def_, large=True)
    assert large[:8] == bytes.fromhex("0500 0a00 14000000")
    for data, is_large in ((small, False), (large, True)):
        num_levels, rep, levels, buffers = kernels.parse_chunks(
            data, inputs.int64s([0, 48]), inputs.counts([5]), False, True, 1, is_large
        )
        assert (num_levels.total, rep.num_bytes) == (5, 0)
        assert (levels.chunks(), buffers[0].chunks()) == ([def_], [numbers])


@settings(max_examples=draws(80), deadline=None)
@given(
    st.booleans(),
    st.booleans(),
    st.integers(0, 4),
    st.booleans(),
    st.integers(1, 5),
    st.randoms(use_true_random=False),
)
def test_headers(
    has_rep: bool, has_def: bool, num_buffers: int, large: bool, num_chunks: int, rng: random.Random
) -> None:
    def piece() -> bytes:
        return rng.randbytes(rng.randrange(30))

    counts = [rng.randrange(20) for _ in range(num_chunks)]
    extra = [rng.randrange(5) if has_rep else 0 for _ in range(num_chunks)]
    parts = [
        (piece() if has_rep else None, piece() if has_def else None, [piece() for _ in range(num_buffers)])
        for _ in range(num_chunks)
    ]
    chunks = [
        values.chunk(buffers, num_levels=n + more, rep=rep, def_=def_, large=large)
        for (rep, def_, buffers), n, more in zip(parts, counts, extra, strict=True)
    ]
    ends = [sum(map(len, chunks[:i])) for i in range(num_chunks + 1)]
    data = inputs.place(b"".join(chunks), rng.randrange(8))
    num_levels, reps, defs, buffers = kernels.parse_chunks(
        data, inputs.int64s(ends), inputs.counts(counts), has_rep, has_def, num_buffers, large
    )
    assert num_levels.total == sum(counts) + sum(extra)
    assert reps.chunks() == [rep for rep, _, _ in parts if rep is not None]
    assert defs.chunks() == [def_ for _, def_, _ in parts if def_ is not None]
    assert [buffer.chunks() for buffer in buffers] == [[p[2][k] for p in parts] for k in range(num_buffers)]


def parse(data: bytes, offsets: list[int], counts: list[int], **shape: bool | int) -> None:
    arguments = {"has_rep": False, "has_def": False, "num_buffers": 1, "large": False} | shape
    kernels.parse_chunks(inputs.place(data), inputs.int64s(offsets), inputs.counts(counts), **arguments)


def test_chunks_that_lie() -> None:
    """T22: positions outside the buffer, pieces outside their chunk, levels that do not fit the values."""
    good = values.chunk([b"abcd"], num_levels=2, def_=values.integers([0, 1], 16))
    size = len(good)
    parse(good, [0, size], [2], has_def=True)
    for offsets in ([0], [0, size, size], [-8, size], [0, size + 8], [8, 0], [0, 1 << 62], []):
        with pytest.raises(CorruptData):
            parse(good, offsets, [2], has_def=True)
    for shape in (
        {"num_buffers": 65},
        {"num_buffers": 1 << 60},
        {"num_buffers": 3},
        {"large": True},
        {"has_rep": True},
    ):
        with pytest.raises(CorruptData):
            parse(good, [0, size], [2], has_def=True, **shape)
    with pytest.raises(CorruptData):
        parse(good, [0, size], [3], has_def=True)
    few = values.chunk([b""], num_levels=1, rep=b"\0\0")
    with pytest.raises(CorruptData):
        parse(few, [0, len(few)], [2], has_rep=True)
    with pytest.raises(CorruptData):
        parse(b"\0\0" + b"\xff\xff" + b"\0" * 4, [0, 8], [1])


def test_a_chunk_does_not_reach_into_the_next() -> None:
    """T22: padding leads out of a chunk of four bytes; what lies there belongs to another."""
    with pytest.raises(CorruptData):
        parse(b"\0\0\4\0" + bytes(16), [0, 4, 20], [1, 1])


@settings(max_examples=draws(80), deadline=None)
@given(
    st.booleans(), st.lists(st.tuples(st.integers(1, 4096), st.integers(1, 15)), min_size=1), st.integers(1)
)
def test_places_of_chunks(large: bool, chunks: list[tuple[int, int]], last: int) -> None:
    """Words: eights of bytes less one, and the logarithm of the values; the last chunk has what is left."""
    words = values.integers([(size - 1) << 4 | log for size, log in chunks], 32 if large else 16)
    sizes = [8 * size for size, _ in chunks]
    before = [1 << log for _, log in chunks[:-1]]
    total = min(sum(before) + last, 1 << 48)
    positions, first_values = kernels.locate_chunks(inputs.place(words), large, total, sum(sizes))
    assert memoryview(positions).cast("q").tolist() == [sum(sizes[:i]) for i in range(len(chunks) + 1)]
    assert memoryview(first_values).cast("q").tolist() == [
        *(sum(before[:i]) for i in range(len(chunks))),
        total,
    ]
    with pytest.raises(CorruptData, match=f"chunks of .* bytes in a buffer of {sum(sizes) - 1}"):
        kernels.locate_chunks(words, large, total, sum(sizes) - 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "0 bytes of chunk words"),
        ([0, 0], "before the last that holds a single value"),
        ([15, 0], "hold 32768 of 9 values"),
    ],
)
def test_words_that_lie(words: list[int], message: str) -> None:
    """T22: chunks that hold more than the page has, and a logarithm that only the last one may have."""
    for large in (False, True):
        with pytest.raises(CorruptData, match=message):
            kernels.locate_chunks(values.integers(words, 32 if large else 16), large, 9, 1000)
    with pytest.raises(CorruptData, match="3 bytes of chunk words of 2"):
        kernels.locate_chunks(bytes(3), False, 9, 1000)


def test_counts() -> None:
    assert (Counts(inputs.int64s([2, 0, 5])).total, len(Counts(inputs.int64s([2, 0, 5])))) == (7, 3)
    assert Counts(b"").total == 0
    assert Counts(inputs.int64s([2, 3])).scaled(4).total == 20
    assert Counts(inputs.int64s([2, 3])).scaled(0).total == 0


@pytest.mark.parametrize("claims", [[-1], [(1 << 63) - 1], [1 << 52, 1 << 52, 1 << 52], [5, -5]])
def test_counts_that_lie(claims: list[int]) -> None:
    """T24: no sum of counts comes near the end of 64 bits, so that widths can be multiplied."""
    with pytest.raises(CorruptData):
        Counts(inputs.int64s(claims))


def test_counts_that_grow_too_much() -> None:
    """T24: counts are also checked after they are scaled by a dimension."""
    counts = Counts(inputs.int64s([1 << 20, 3]))
    for factor in (-1, 1 << 31, 1 << 41, (1 << 63) - 1):
        with pytest.raises(CorruptData):
            counts.scaled(factor)
    with pytest.raises(CorruptData):
        Counts(b"1234567")


def test_a_stream_knows_its_chunks() -> None:
    stream = inputs.stream([b"ab", b"", b"cde"], shift=3, gap=b"??")
    assert (len(stream), stream.num_bytes, stream.chunks()) == (3, 5, [b"ab", b"", b"cde"])


def test_a_stream_keeps_its_bytes() -> None:
    """The data lives as long as the stream does, and buffers of it as long as they do."""
    stream = inputs.stream([bytes(1 << 20)])
    joined = memoryview(kernels.join_fixed(stream, inputs.counts([1 << 20]), 1))
    del stream
    assert joined == bytes(1 << 20)


@pytest.mark.parametrize(
    ("offsets", "lengths"),
    [([0], [5]), ([5], [0]), ([-1], [1]), ([0], [-1]), ([1 << 62], [1 << 62]), ([0, 1], [1]), ([], [1])],
)
def test_streams_that_lie(offsets: list[int], lengths: list[int]) -> None:
    """T22: a chunk outside the bytes never becomes part of a stream."""
    with pytest.raises(CorruptData):
        Stream(inputs.place(b"abcd"), inputs.int64s(offsets), inputs.int64s(lengths))


def test_buffers_that_are_no_bytes() -> None:
    for wrong in (None, 5, "text", memoryview(bytes(8))[::2]):
        with pytest.raises((TypeError, BufferError)):
            Stream(wrong, inputs.int64s([0]), inputs.int64s([1]))
