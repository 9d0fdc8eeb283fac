"""Flat values: every width, compression, where the buffer is, and which bytes are read."""

from __future__ import annotations

import struct
from pathlib import Path

import lz4.block
import numpy as np
import pyarrow as pa
import pytest
import zstandard

from lance_core.encodings.v2_0.encoding import PageBuffers
from lance_core.encodings.v2_0.range_requests import run
from lance_core.encodings.v2_0.registry import parse_encoding
from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.proto import encodings_v2_0_pb2 as pb
from support.files.files_2_0 import ColumnPages, Page, leaf, no_nulls, some_nulls, write_column, write_file

NUMBERS = np.arange(-500, 500, dtype=np.int64)


def _compressed(scheme: str, data: bytes) -> bytes:
    if scheme == "lz4":
        return struct.pack("<I", len(data)) + lz4.block.compress(data, store_size=False)
    frame = zstandard.ZstdCompressor().compress(data)
    return frame if scheme == "bare zstd" else struct.pack("<Q", len(data)) + frame


@pytest.mark.parametrize("scheme", ["zstd", "bare zstd", "lz4", "none"])
def test_compressed_values(scheme: str, tmp_path: Path) -> None:
    page = Page(1000)
    raw = NUMBERS.tobytes()
    data = raw if scheme == "none" else _compressed(scheme, raw)
    page.of(no_nulls(page.flat(data, 64, scheme.split()[-1])))
    file = write_column(tmp_path, "int64", page)
    assert file.ours()["c"].to_pylist() == NUMBERS.tolist()
    assert file.ours(10, 20)["c"].to_pylist() == NUMBERS[10:20].tolist()
    assert file.reference()["c"].to_pylist() == NUMBERS.tolist()


@pytest.mark.parametrize("scheme", ["zstd", "lz4"])
def test_compressed_values_that_lie_are_refused(scheme: str, tmp_path: Path) -> None:
    """T24: a size that the bytes cannot have is refused before memory is taken."""
    for size in (0, 799, 801, 2**31, 2**32 - 1):
        data = bytearray(_compressed(scheme, bytes(800)))
        data[:4] = struct.pack("<I", size)
        page = Page(100)
        page.of(page.flat(bytes(data), 64, scheme))
        with pytest.raises(CorruptFileError, match=r"column c.*page 0"):
            write_column(tmp_path, "int64", page).ours()


def test_compressed_values_that_are_too_few_are_refused(tmp_path: Path) -> None:
    """T22."""
    page = Page(1000)
    page.of(page.flat(_compressed("zstd", bytes(80)), 64, "zstd"))
    file = write_column(tmp_path, "int64", page)
    assert file.ours(0, 10)["c"].to_pylist() == [0] * 10
    for start, end in ((0, 11), (5, 15), (500, 600), (0, 1000)):
        with pytest.raises(CorruptFileError, match=r"80 bytes for.*column c.*page 0"):
            file.ours(start, end)


def test_a_compressed_bitmap_is_refused(tmp_path: Path) -> None:
    """The reference ignores the compression and reads garbage."""
    page = Page(8)
    page.of(page.flat(_compressed("zstd", b"\xff"), 1, "zstd"))
    with pytest.raises(UnsupportedFeatureError, match=r"1 bits.*zstd"):
        write_column(tmp_path, "bool", page).ours()


def test_unknown_compression_is_refused_by_name(tmp_path: Path) -> None:
    page = Page(1)
    page.of(page.flat(bytes(8), 64, "brotli"))
    with pytest.raises(UnsupportedFeatureError, match="brotli"):
        write_column(tmp_path, "int64", page).ours()


def test_wrong_widths_and_short_buffers_are_refused(tmp_path: Path) -> None:
    """T22: never rows that are not there, and never values of another width."""
    for bits, size in ((64, 79), (32, 80), (0, 80), (12, 80), (2**63, 80)):
        page = Page(10)
        page.of(page.flat(bytes(size), bits or 1))
        if bits == 0:
            page.encoding.flat.bits_per_value = 0
        with pytest.raises(CorruptFileError, match=r"data.lance.*column c.*page 0"):
            write_column(tmp_path, "int64", page).ours()
    page = Page(17)
    page.of(page.flat(b"\xff\xff", 1))
    with pytest.raises(CorruptFileError, match="17 values of 1 bits"):
        write_column(tmp_path, "bool", page).ours()


def test_buffers_of_the_column_and_of_the_file(tmp_path: Path) -> None:
    """The reference reads the former and writes neither."""
    page = Page(2)
    page.of(
        pb.ArrayEncoding(flat=pb.Flat(bits_per_value=32, buffer=pb.Buffer(buffer_index=1, buffer_type=1)))
    )
    file = write_column(
        tmp_path / "column", "int32", page, buffers=[b"?", np.array([7, 8], np.int32).tobytes()]
    )
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == [7, 8]

    global_buffer = pb.Buffer(buffer_index=0, buffer_type=2)  # the descriptor: any bytes will do
    page = Page(2).of(pb.ArrayEncoding(flat=pb.Flat(bits_per_value=8, buffer=global_buffer)))
    file = write_column(tmp_path / "file", "uint8", page)
    assert file.ours()["c"].to_pylist() == [0x0A, len(leaf("c", "uint8").SerializeToString()) + 2]


def test_a_buffer_that_is_not_there(tmp_path: Path) -> None:
    for buffer in (
        pb.Buffer(buffer_index=1),
        pb.Buffer(buffer_type=1),
        pb.Buffer(buffer_index=9, buffer_type=2),
    ):
        page = Page(1)
        page.buffer(bytes(8))
        page.of(pb.ArrayEncoding(flat=pb.Flat(bits_per_value=64, buffer=buffer)))
        with pytest.raises(CorruptFileError, match=f"buffer {buffer.buffer_index} where the"):
            write_column(tmp_path, "int64", page).ours()


def test_ranges_read_their_bytes_and_nothing_else() -> None:
    asked: list[tuple[int, int]] = []

    def fetch(ranges: list[tuple[int, int]]) -> list[pa.Buffer]:
        asked.extend(ranges)
        return [pa.py_buffer(bytes(length)) for _, length in ranges]

    page = Page(1000)
    page.of(some_nulls(page.bits([1] * 1000), page.flat(NUMBERS)))
    buffers = PageBuffers([(100, 125), (300, 8000)], [], [])
    encoding = parse_encoding(page.encoding, buffers, pa.int64(), 1000)
    run(encoding.read(13, 30), fetch)
    assert asked == [(101, 3), (300 + 8 * 13, 8 * 17)]


def test_values_are_not_copied() -> None:
    """The buffer that was read is the buffer of the array."""
    data = pa.py_buffer(NUMBERS)
    page = Page(1000)
    page.of(no_nulls(page.flat(NUMBERS)))
    encoding = parse_encoding(page.encoding, PageBuffers([(0, 8000)], [], []), pa.int64(), 1000)
    decoded = run(encoding.read(0, 1000), lambda ranges: [data.slice(*ranges[0])])
    array = decoded.values.to_arrow(1000, pa.int64(), decoded.validity)
    assert array.buffers()[1].address == data.address
    assert array.to_pylist() == NUMBERS.tolist()


def test_values_that_were_read_beside_others_are_aligned(tmp_path: Path) -> None:
    """Readers in other languages refuse numbers at odd addresses."""
    page = Page(1000)
    page.of(some_nulls(page.bits([1, 0] * 500), page.flat(NUMBERS)))
    file = write_file(tmp_path, [leaf("c", "int64")], [ColumnPages([page])], 1000)
    for start in range(5):
        (chunk,) = file.ours(start)["c"].chunks
        assert chunk.buffers()[1].address % 8 == 0
        assert (
            chunk.to_pylist() == [v if i % 2 == 0 else None for i, v in enumerate(NUMBERS.tolist())][start:]
        )
