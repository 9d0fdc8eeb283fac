"""FSST: codes for symbols, under a table made by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from lance_core.errors import CorruptFileError
from lance_core.proto import encodings_v2_0_pb2 as pb
from support.files.files_2_0 import Page, write_column

SYMBOLS = (b"foo", b"xbar")


def _table(codes: bool, symbols: tuple[bytes, ...] = SYMBOLS) -> bytes:
    header = struct.pack("<BBBBI", len(symbols), 0, 0, codes, 0x46535354)
    table = header + b"".join(s.ljust(8, b"\0") for s in symbols) + bytes(map(len, symbols))
    return table.ljust(2312, b"\0")


def _page(ends: list[int], codes: bytes, table: bytes) -> Page:
    page = Page(len(ends))
    return page.of(pb.ArrayEncoding(fsst=pb.Fsst(binary=page.binary(ends, codes, 99), symbol_table=table)))


@pytest.mark.parametrize("logical_type", ["string", "binary"])
def test_symbols_escapes_and_nulls(logical_type: str, tmp_path: Path) -> None:
    page = _page([2, 4, 99 + 4, 4, 5], b"\x00\x01\xffZ\x01", _table(True))
    file = write_column(tmp_path, logical_type, page)
    expected: list[object] = ["fooxbar", "Z", None, "", "xbar"]
    if logical_type == "binary":
        expected = [value.encode() if isinstance(value, str) else value for value in expected]
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == expected
    for start in range(5):
        assert file.ours(start, 5)["c"].to_pylist() == expected[start:]


def test_little_text_is_kept_as_it_is(tmp_path: Path) -> None:
    file = write_column(tmp_path, "string", _page([1, 3], b"\x00\x01Z", _table(False, ())))
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == ["\x00", "\x01Z"]


@pytest.mark.parametrize(
    ("codes", "table"),
    [
        (b"\x00\xff", _table(True)),
        (b"\x00\x02", _table(True)),
        (b"\x00\x01", b""),
        (b"\x00\x01", _table(True)[:20]),
        (b"\x00\x01", bytes(2312)),
        (b"\x00\x01", _table(True, (b"foo", b""))),
    ],
)
def test_codes_and_tables_that_lie_are_refused(codes: bytes, table: bytes, tmp_path: Path) -> None:
    """T22: an escape without a byte, a code without a symbol, a table that is none."""
    with pytest.raises(CorruptFileError, match=r"column c.*page 0"):
        write_column(tmp_path, "string", _page([2], codes, table)).ours()


def test_fsst_over_something_else_is_refused(tmp_path: Path) -> None:
    page = Page(1)
    page.of(pb.ArrayEncoding(fsst=pb.Fsst(binary=page.flat(b"\x00"), symbol_table=_table(True))))
    with pytest.raises(CorruptFileError, match="FSST over 'flat'"):
        write_column(tmp_path, "string", page).ours()
