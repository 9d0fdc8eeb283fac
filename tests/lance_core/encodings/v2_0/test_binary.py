"""Strings and binaries: ends that mark nulls, ranges, and ends that lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_core.encodings.v2_0.encoding import PageBuffers
from lance_core.encodings.v2_0.range_requests import run
from lance_core.encodings.v2_0.registry import parse_encoding
from lance_core.errors import CorruptFileError
from lance_core.proto import encodings_v2_0_pb2 as pb
from support.files.files_2_0 import Page, some_nulls, write_column

TYPES = ["string", "large_string", "binary", "large_binary"]
EXAMPLE = [None, "foo", "", None, "bar", None]


def _text(values: list[object]) -> list[str | None]:
    return [value.decode() if isinstance(value, bytes) else value for value in values]


@pytest.mark.parametrize("logical_type", TYPES)
def test_the_example_of_the_format(logical_type: str, tmp_path: Path) -> None:
    page = Page(6)
    file = write_column(tmp_path, logical_type, page.of(page.binary([7, 3, 3, 10, 6, 13], b"foobar", 7)))
    assert _text(file.ours()["c"].to_pylist()) == EXAMPLE
    assert _text(file.reference()["c"].to_pylist()) == EXAMPLE
    for start in range(6):
        for end in range(start + 1, 7):
            assert _text(file.ours(start, end)["c"].to_pylist()) == EXAMPLE[start:end]


def test_nulls_may_cover_bytes(tmp_path: Path) -> None:
    page = Page(3)
    file = write_column(tmp_path, "string", page.of(page.binary([1, 100 + 3, 4], b"axyb", 100)))
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == ["a", None, "b"]


def test_all_null(tmp_path: Path) -> None:
    page = Page(3)
    file = write_column(tmp_path, "string", page.of(page.binary([1, 1, 1], b"", 1)))
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == [None] * 3


def test_no_adjustment_makes_all_null(tmp_path: Path) -> None:
    """The reference reads such a page in the same way."""
    page = Page(2)
    file = write_column(tmp_path, "string", page.of(page.binary([1, 2], b"ab", 0)))
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == [None, None]


def test_ends_in_other_encodings(tmp_path: Path) -> None:
    """Bare and bit-packed ends are read, 32-bit ones refused."""
    bare, packed, narrow = Page(3), Page(3), Page(3)
    bare.of(
        pb.ArrayEncoding(
            binary=pb.Binary(
                indices=bare.flat(np.array([1, 2, 3], np.uint64)), bytes=bare.flat(b"abc"), null_adjustment=4
            )
        )
    )
    bits = pb.Bitpacked(
        compressed_bits_per_value=3, uncompressed_bits_per_value=64, buffer=packed.buffer(b"\xd1\x00")
    )
    packed.of(
        pb.ArrayEncoding(
            binary=pb.Binary(
                indices=pb.ArrayEncoding(bitpacked=bits), bytes=packed.flat(b"abc"), null_adjustment=4
            )
        )
    )
    for page in (bare, packed):
        file = write_column(tmp_path, "string", page)
        assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == ["a", "b", "c"]
        assert file.ours(1, 3)["c"].to_pylist() == ["b", "c"]
    ends = narrow.flat(np.array([1, 2, 3], np.uint32))
    narrow.of(pb.ArrayEncoding(binary=pb.Binary(indices=ends, bytes=narrow.flat(b"abc"), null_adjustment=4)))
    with pytest.raises(CorruptFileError, match="32 bits"):
        write_column(tmp_path, "string", narrow).ours()


@pytest.mark.parametrize(
    "ends", [[2, 1, 3], [1, 2, 4], [1, 2, 2**63], [1, 10 + 9, 3], [2**64 - 1, 2, 3], [3, 10 + 1, 3]]
)
def test_ends_that_lie_are_refused(ends: list[int], tmp_path: Path) -> None:
    """T22: ends that decrease or leave the bytes, whole pages and ranges alike."""
    page = Page(3)
    file = write_column(tmp_path, "string", page.of(page.binary(ends, b"abc", 10)))
    with pytest.raises(CorruptFileError, match=r"data.lance.*column c.*page 0"):
        file.ours()
    with pytest.raises(CorruptFileError):
        [file.ours(row, row + 1) for row in range(3)]


def test_strings_over_something_else(tmp_path: Path) -> None:
    """T22: the parts of a string are what they have to be."""
    page = Page(1)
    strings = page.binary([1], b"a", 2)
    strings.binary.bytes.CopyFrom(page.flat(np.array([1], np.uint16)))
    with pytest.raises(CorruptFileError, match="flat bytes"):
        write_column(tmp_path, "string", page.of(strings)).ours()
    page = Page(1)
    strings = page.binary([1], b"a", 2)
    strings.binary.indices.CopyFrom(some_nulls(page.bits([1]), page.flat(np.array([1], np.uint64))))
    with pytest.raises(CorruptFileError, match="plain numbers"):
        write_column(tmp_path, "string", page.of(strings)).ours()
    page = Page(1)
    with pytest.raises(CorruptFileError, match="column of type int32"):
        write_column(tmp_path, "int32", page.of(page.binary([1], b"a", 2))).ours()


def test_a_range_reads_its_ends_and_its_bytes() -> None:
    """Two rounds: the ends, with the one before the range, then the bytes."""
    rounds: list[list[tuple[int, int]]] = []
    page = Page(6)
    page.of(page.binary([7, 3, 3, 10, 6, 13], b"foobar", 7))
    data = b"".join(page.buffers)
    buffers = PageBuffers([(0, 48), (48, 6)], [], [])

    def fetch(ranges: list[tuple[int, int]]) -> list[pa.Buffer]:
        rounds.append(ranges)
        return [pa.py_buffer(data[start : start + length]) for start, length in ranges]

    encoding = parse_encoding(page.encoding, buffers, pa.string(), 6)
    run(encoding.read(2, 5), fetch)
    assert rounds == [[(8, 32)], [(48 + 3, 3)]]
    rounds.clear()
    run(encoding.read(0, 6), fetch)
    assert rounds == [[(0, 48), (48, 6)]]
