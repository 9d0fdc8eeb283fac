"""LZ4 blocks made here, read by the library."""

from __future__ import annotations

import random

import lz4.block
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from support.runs.each_case import each_case
from support.twins import inputs
from support.twins.compression import decompress_lz4

PIECES = st.binary(max_size=40) | st.builds(
    lambda part, times: part * times, st.binary(max_size=9), st.integers(0, 90)
)


def compress(chunks: list[bytes]) -> list[bytes]:
    lengths = np.array([len(chunk) for chunk in chunks], np.int64)
    stream = kernels.Stream(
        inputs.place(b"".join(chunks), 1), (np.cumsum(lengths) - lengths).data, lengths.data
    )
    return list(kernels.compress_lz4(stream).chunks())


@settings(deadline=None)
@given(st.lists(st.lists(PIECES, max_size=12).map(b"".join), max_size=6))
def test_chunks_come_back(chunks: list[bytes]) -> None:
    frames = compress(chunks)
    assert [int.from_bytes(frame[:4], "little") for frame in frames] == [len(chunk) for chunk in chunks]
    assert [decompress_lz4(frame) for frame in frames] == chunks


@each_case("size", [0, 1, 4, 5, 11, 12, 13, 14, 15, 20, 255, 300, 4_096, 70_000, 1 << 20])
def test_sizes_at_the_limits_of_the_format(size: int) -> None:
    """Matches may reach 65535 bytes back, none begins in the last twelve, five are literals."""
    rng = random.Random(size)
    far = rng.randbytes(min(size, 66_000))
    chunks = [bytes(size), rng.randbytes(size), (far * 3)[:size], (rng.randbytes(7) * size)[:size]]
    for chunk, frame in zip(chunks, compress(chunks), strict=True):
        assert decompress_lz4(frame) == chunk
        assert len(frame) <= 4 + size + size // 255 + 16


def test_frames_are_about_as_small_as_those_of_the_library() -> None:
    rng = random.Random(1)
    words = [rng.randbytes(6).hex() for _ in range(60)]
    chunks = [" ".join(rng.choices(words, k=400)).encode() for _ in range(200)]
    chunks += [
        np.cumsum(np.array(rng.choices(range(9), k=1_000))).astype("<i8").tobytes() for _ in range(200)
    ]
    ours = sum(map(len, compress(chunks)))
    theirs = sum(len(lz4.block.compress(chunk, store_size=True)) for chunk in chunks)
    assert ours < 1.03 * theirs
