"""Strings and binaries of one length, without ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from lance_core.errors import CorruptFileError
from lance_core.proto import encodings_v2_0_pb2 as pb
from support.files.files_2_0 import Page, some_nulls, write_column


def _fixed(values: pb.ArrayEncoding, width: int) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(fixed_size_binary=pb.FixedSizeBinary(bytes=values, byte_width=width))


@pytest.mark.parametrize("logical_type", ["string", "large_string", "binary", "large_binary"])
@pytest.mark.parametrize("bits", [8, 24])
def test_values_of_one_length(logical_type: str, bits: int, tmp_path: Path) -> None:
    page = Page(3)
    values = _fixed(page.flat(b"foobarbaz", bits), 3)
    file = write_column(tmp_path, logical_type, page.of(some_nulls(page.bits([1, 0, 1]), values)))
    expected = ["foo", None, "baz"] if "string" in logical_type else [b"foo", None, b"baz"]
    assert file.ours()["c"].to_pylist() == expected
    assert file.reference()["c"].to_pylist() == expected
    assert file.ours(1, 3)["c"].to_pylist() == expected[1:]


def test_a_column_of_one_length(tmp_path: Path) -> None:
    page = Page(2)
    file = write_column(tmp_path, "fixed_size_binary:2", page.of(_fixed(page.flat(b"abcd"), 2)))
    assert file.ours()["c"].to_pylist() == [b"ab", b"cd"]


def test_too_few_bytes_are_refused(tmp_path: Path) -> None:
    """T22."""
    for width, bits, size in ((3, 8, 8), (3, 16, 12), (2**32 - 1, 8, 9)):
        page = Page(3)
        with pytest.raises(CorruptFileError, match=r"column c.*page 0"):
            write_column(tmp_path, "string", page.of(_fixed(page.flat(bytes(size), bits), width))).ours()
