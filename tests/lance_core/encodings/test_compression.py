"""LZ4 and ZSTD as Lance frames them."""

from __future__ import annotations

import random
from collections.abc import Callable

import lz4.block
import pytest
import zstandard

from lance_core.encodings.compression import decompress_lz4, decompress_zstd, decompress_zstd_all
from lance_core.kernels import CorruptData

TEXT = b"columns of text, " * 40


def with_size(data: bytes, width: int, size: int) -> bytes:
    return size.to_bytes(width, "little") + data


LZ4 = with_size(lz4.block.compress(TEXT, store_size=False), 4, len(TEXT))
FRAME = zstandard.compress(TEXT)
UNSIZED = zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)


@pytest.mark.parametrize("kind", [bytes, memoryview, lambda data: memoryview(data).cast("b")])
def test_round_trip(kind: Callable[[bytes], memoryview]) -> None:
    """Also over views of signed bytes, which is what Arrow buffers give."""
    assert decompress_lz4(kind(LZ4)) == TEXT
    assert decompress_zstd(kind(with_size(FRAME, 8, len(TEXT)))) == TEXT
    assert decompress_zstd(kind(with_size(UNSIZED, 8, len(TEXT)))) == TEXT
    assert decompress_zstd(kind(FRAME)) == TEXT  # a frame without a prefix


def test_nothing_is_nothing() -> None:
    assert decompress_lz4(b"") == b""
    assert decompress_zstd(b"") == b""
    assert decompress_lz4(with_size(lz4.block.compress(b"", store_size=False), 4, 0)) == b""
    assert decompress_zstd(with_size(zstandard.compress(b""), 8, 0)) == b""


@pytest.mark.parametrize("claim", [0, len(TEXT) - 1, len(TEXT) + 1, 1 << 31, (1 << 32) - 1])
def test_a_size_that_lies(claim: int) -> None:
    """T24: refused; a size that the bytes cannot reach before memory is taken."""
    with pytest.raises(CorruptData):
        decompress_lz4(with_size(LZ4[4:], 4, claim))
    with pytest.raises(CorruptData):
        decompress_zstd(with_size(FRAME, 8, claim << 16 | claim))
    with pytest.raises(CorruptData):
        decompress_zstd(with_size(UNSIZED, 8, claim))


def test_changed_bytes() -> None:
    """T22: refused or decompressed, nothing else."""
    rng = random.Random(5)
    for data, decompress in (
        (LZ4, decompress_lz4),
        (with_size(FRAME, 8, len(TEXT)), decompress_zstd),
        (FRAME, decompress_zstd),
    ):
        for i in range(400):
            mutant = bytearray(data)
            mutant[rng.randrange(len(data))] = rng.randrange(256)
            try:
                decompress(bytes(mutant[: rng.randrange(len(data) + 1) if i % 3 == 0 else len(data)]))
            except CorruptData:
                continue


def test_many_frames() -> None:
    """One after the other, with what an earlier one that was damaged leaves behind."""
    frames = [with_size(FRAME, 8, len(TEXT)), b"", FRAME, with_size(UNSIZED, 8, len(TEXT))]
    assert list(decompress_zstd_all(frames)) == [TEXT, b"", TEXT, TEXT]
    state = zstandard.ZstdDecompressor()
    with pytest.raises(CorruptData):
        decompress_zstd(FRAME[:-4], state)
    assert decompress_zstd(FRAME, state) == TEXT
