"""Bit packing, in the two forms that readers of the format know."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lance_core.errors import CorruptFileError
from lance_core.proto import encodings_v2_0_pb2 as pb
from support.files.files_2_0 import Page, some_nulls, write_column
from support.runs.each_case import each_case

ORDER = [0, 4, 2, 6, 1, 5, 3, 7]


def _stream(values: list[int], bits: int) -> bytes:
    number = sum((value % (1 << bits)) << (bits * i) for i, value in enumerate(values))
    return number.to_bytes((bits * len(values) + 7) // 8, "little")


def _bitpacked(
    page: Page, values: list[int], bits: int, word_bits: int, signed: bool = False
) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(
        bitpacked=pb.Bitpacked(
            compressed_bits_per_value=bits,
            uncompressed_bits_per_value=word_bits,
            buffer=page.buffer(_stream(values, bits)),
            signed=signed,
        )
    )


@pytest.mark.parametrize("word_bits", [8, 16, 32, 64])
@pytest.mark.parametrize("signed", [False, True])
def test_streams(word_bits: int, signed: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(word_bits)
    for bits in {1, 3, 5, 7, 8, word_bits // 2 + 3, word_bits - 1, word_bits}:
        low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if signed else (0, 1 << bits)
        values = [low + v % (high - low) for v in rng.integers(0, 2**63, 203).tolist()]
        values[:2] = low, high - 1
        page = Page(len(values))
        page.of(_bitpacked(page, values, bits, word_bits, signed))
        file = write_column(tmp_path, f"{'int' if signed else 'uint'}{word_bits}", page)
        assert file.ours()["c"].to_pylist() == values
        for start, end in ((1, 2), (7, 203), (100, 117)):
            assert file.ours(start, end)["c"].to_pylist() == values[start:end]
        if bits == 5:
            assert file.reference()["c"].to_pylist() == values


def _transposed(values: np.ndarray, bits: int) -> bytes:
    """Packed in groups as the format describes it, bit by bit."""
    word_bits = values.dtype.itemsize * 8
    lanes = 1024 // word_bits
    groups = -(-len(values) // 1024)
    padded = np.zeros(groups * 1024, values.dtype)
    padded[: len(values)] = values
    out = bytearray()
    for group in padded.reshape(groups, 1024):
        words = [0] * (bits * lanes)
        for lane in range(lanes):
            stream = 0
            for row in range(word_bits):
                index = ORDER[row // 8] * 16 + (row % 8) * 128 + lane
                stream |= int(group[index]) << (row * bits)
            for k in range(bits):
                words[k * lanes + lane] = stream >> (k * word_bits) & ((1 << word_bits) - 1)
        out += b"".join(word.to_bytes(word_bits // 8, "little") for word in words)
    return bytes(out)


@each_case("word_bits", [8, 16, 32, 64])
@each_case("count", [1, 1023, 1024, 1025, 2500])
def test_groups(word_bits: int, count: int, tmp_path: Path) -> None:
    values = np.random.default_rng(count).integers(0, 32, count).astype(f"u{word_bits // 8}")
    page = Page(count)
    packed = pb.BitpackedForNonNeg(
        compressed_bits_per_value=5,
        uncompressed_bits_per_value=word_bits,
        buffer=page.buffer(_transposed(values, 5)),
    )
    file = write_column(tmp_path, f"uint{word_bits}", page.of(pb.ArrayEncoding(bitpacked_for_non_neg=packed)))
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == values.tolist()
    for start in {0, count // 2, count - 1, min(1024, count - 1)}:
        assert file.ours(start, count)["c"].to_pylist() == values[start:].tolist()


def test_nulls_around_packed_values(tmp_path: Path) -> None:
    page = Page(3)
    page.of(some_nulls(page.bits([1, 0, 1]), _bitpacked(page, [1, 2, 3], 2, 32)))
    file = write_column(tmp_path, "uint32", page)
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == [1, None, 3]


@pytest.mark.parametrize("widths", [(0, 32), (33, 32), (5, 24), (5, 0), (2**40, 64)])
def test_impossible_widths_are_refused(widths: tuple[int, int], tmp_path: Path) -> None:
    """T22."""
    for kind in (pb.Bitpacked, pb.BitpackedForNonNeg):
        page = Page(3)
        packed = kind(
            compressed_bits_per_value=widths[0],
            uncompressed_bits_per_value=widths[1],
            buffer=page.buffer(bytes(1024)),
        )
        name = "bitpacked" if kind is pb.Bitpacked else "bitpacked_for_non_neg"
        page.of(pb.ArrayEncoding(**{name: packed}))
        with pytest.raises(CorruptFileError, match=r"packed in.*column c.*page 0"):
            write_column(tmp_path, "uint32", page).ours()


def test_short_buffers_are_refused(tmp_path: Path) -> None:
    """T22."""
    page = Page(4)
    page.of(_bitpacked(page, [1, 2], 8, 32))
    with pytest.raises(CorruptFileError, match="2 bytes for 4 values"):
        write_column(tmp_path, "uint32", page).ours()
    page = Page(1025)
    packed = pb.BitpackedForNonNeg(
        compressed_bits_per_value=5, uncompressed_bits_per_value=32, buffer=page.buffer(bytes(640))
    )
    page.of(pb.ArrayEncoding(bitpacked_for_non_neg=packed))
    with pytest.raises(CorruptFileError, match="640 bytes for 1025 values"):
        write_column(tmp_path, "uint32", page).ours()
