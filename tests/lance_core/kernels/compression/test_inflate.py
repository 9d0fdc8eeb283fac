"""LZ4 and ZSTD as Lance frames them, beside the libraries."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import lz4.block
import numpy as np
import pytest
import zstandard

from lance_core import kernels
from lance_core.kernels import CorruptData
from support.twins import inputs
from support.twins.compression import decompress_lz4, decompress_zstd

TEXT = b"columns of text, " * 40
TWINS: dict[str, Callable[[bytes], bytes]] = {"lz4": decompress_lz4, "zstd": decompress_zstd}
ZSTD_LEVELS = [-5, 1, 3, 6, 9, 13, 19, 22]  # all its ways to look for matches
LZ4_MODES = ["default", "fast", "high_compression"]


def inflate(compression: str, *chunks: bytes) -> list[bytes]:
    return kernels.inflate(inputs.stream(chunks), compression).chunks()


def with_size(data: bytes, width: int, size: int) -> bytes:
    return size.to_bytes(width, "little") + data


def compress(compression: str, data: bytes, rng: random.Random) -> bytes:
    """By the library, with whatever it can be asked for."""
    if compression == "lz4":
        return bytes(lz4.block.compress(data, store_size=True, mode=rng.choice(LZ4_MODES)))
    compressor = zstandard.ZstdCompressor(
        level=rng.choice(ZSTD_LEVELS),
        write_checksum=rng.random() < 0.3,
        write_content_size=rng.random() < 0.7,
    )
    return with_size(compressor.compress(data), 8, len(data))


def content(rng: random.Random, most: int) -> bytes:
    """Bytes of one of the kinds that make compressors do different things."""
    n = int(most ** rng.random())
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    match rng.randrange(8):
        case 0:
            return rng.randbytes(n)
        case 1:
            return bytes(rng.choices(b"abcdefgh ", k=n))
        case 2:
            return b" ".join(rng.choices([b"river", b"stone", b"north light", b"paper"], k=n // 6 + 1))
        case 3:
            return bytes(n)
        case 4:
            return numbers.integers(0, 50, n // 8 + 1).cumsum().tobytes()
        case 5:
            return numbers.normal(size=n // 8 + 1).round(2).tobytes()
        case 6:  # codes of very different lengths
            return bytes(rng.choices(range(256), weights=[1 / (i + 1) ** 2 for i in range(256)], k=n))
        case _:
            period = rng.randbytes(rng.randrange(1, 30))
            return period * (n // len(period) + 1) + rng.randbytes(rng.randrange(20))


LZ4 = with_size(lz4.block.compress(TEXT, store_size=False), 4, len(TEXT))
FRAME = zstandard.compress(TEXT)
UNSIZED = zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)
CHECKED = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)


@pytest.mark.parametrize("compression", TWINS)
@pytest.mark.parametrize("seed", range(3))
def test_what_the_libraries_make(compression: str, seed: int) -> None:
    """Rows of chunks of every kind of content, made in every way, and longer than a block of ZSTD."""
    rng = random.Random(seed)
    chunks = [content(rng, 1 << 14) for _ in range(60)] + [content(rng, 1 << 19), b""]
    rng.shuffle(chunks)
    frames = [compress(compression, chunk, rng) for chunk in chunks]
    assert inflate(compression, *frames) == chunks


@pytest.mark.parametrize("compression", TWINS)
def test_changed_bytes(compression: str) -> None:
    """T22: refused, or what the library makes of them. (It reads some damaged streams that we refuse.)"""
    rng = random.Random(7)
    refused = 0
    for _ in range(60):
        frame = compress(compression, content(rng, 1 << 12), rng)
        for _ in range(40):
            mutant = bytearray(frame)
            for _ in range(rng.randrange(1, 4)):
                mutant[rng.randrange(len(mutant))] = rng.randrange(256)
            data = bytes(mutant[: rng.randrange(len(mutant) + 1)] if rng.random() < 0.2 else mutant)
            try:
                (found,) = inflate(compression, data)
            except CorruptData:
                refused += 1
                continue
            try:
                expected = TWINS[compression](data)
            except CorruptData as error:  # the library does not want so large a window, which we do not need
                if "content size" not in str(error) and "too much memory" not in str(error):
                    raise
                continue
            assert found == expected
    assert refused > 500


def test_a_row_of_chunks() -> None:
    """Each as it is alone; frames with and without a size before them and in them, and no bytes."""
    frames = [with_size(FRAME, 8, len(TEXT)), b"", FRAME, with_size(UNSIZED, 8, len(TEXT)), CHECKED]
    assert inflate("zstd", *frames) == [TEXT, b"", TEXT, TEXT, TEXT]
    assert inflate("lz4", LZ4, b"", LZ4) == [TEXT, b"", TEXT]
    assert inflate("none", TEXT, b"") == [TEXT, b""]
    assert inflate("lz4") == []


def test_nothing_is_nothing() -> None:
    assert inflate("lz4", with_size(lz4.block.compress(b"", store_size=False), 4, 0)) == [b""]
    assert inflate("zstd", with_size(zstandard.compress(b""), 8, 0)) == [b""]


@pytest.mark.parametrize("claim", [0, len(TEXT) - 1, len(TEXT) + 1, 1 << 31, (1 << 32) - 1])
def test_a_size_that_lies(claim: int) -> None:
    """T24: refused; a size that the bytes cannot reach before memory is taken."""
    for compression, data in (
        ("lz4", with_size(LZ4[4:], 4, claim)),
        ("zstd", with_size(FRAME, 8, claim << 16 | claim)),
        ("zstd", with_size(UNSIZED, 8, claim)),
        ("zstd", UNSIZED),
    ):
        with pytest.raises(CorruptData):
            inflate(compression, data)


def test_a_checksum_that_differs() -> None:
    """T22: a frame may have a checksum of its content, which is verified."""
    with pytest.raises(CorruptData, match="checksum"):
        inflate("zstd", CHECKED[:-1] + bytes([CHECKED[-1] ^ 1]))


def test_a_frame_that_needs_a_dictionary() -> None:
    """T20: refused, and never inflated without it."""
    samples = [content(random.Random(i), 1 << 12) for i in range(200)]
    dictionary = zstandard.train_dictionary(1 << 10, samples)
    frame = zstandard.ZstdCompressor(dict_data=dictionary).compress(TEXT)
    with pytest.raises(CorruptData, match="dictionary"):
        inflate("zstd", frame)


@pytest.mark.parametrize("offset_bits", [32, 64])
def test_values_under_offsets(offset_bits: int) -> None:
    """Entries of full-zip pages have such values."""
    values = [TEXT, b"", b"a", b"", TEXT * 3]
    frames = [with_size(zstandard.compress(value), 8, len(value)) if value else b"" for value in values]

    def ends(parts: Sequence[bytes]) -> bytes:
        return np.cumsum([0, *map(len, parts)]).astype(f"<u{offset_bits // 8}").tobytes()

    offsets, data = kernels.inflate_values(ends(frames), b"".join(frames), 5, offset_bits, "zstd")
    assert bytes(offsets) == ends(values)
    assert bytes(data) == b"".join(values)
    with pytest.raises(CorruptData, match="offset"):
        kernels.inflate_values(ends(frames), b"", 5, offset_bits, "zstd")


def test_a_compressor_that_is_unknown() -> None:
    with pytest.raises(ValueError, match="compressor"):
        inflate("brotli", b"")
