"""Nulls: around any encoding, in any form, page by page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.proto import encodings_v2_0_pb2 as pb
from support.files.files_2_0 import Page, all_nulls, no_nulls, some_nulls, write_column

VALUES = np.arange(5, dtype=np.int16)


def test_pages_of_one_column_differ(tmp_path: Path) -> None:
    pages = [Page(5) for _ in range(4)]
    pages[0].of(no_nulls(pages[0].flat(VALUES)))
    pages[1].of(some_nulls(pages[1].bits([0, 1, 1, 0, 1]), pages[1].flat(VALUES)))
    pages[2].of(all_nulls())
    pages[3].of(pages[3].flat(VALUES))
    file = write_column(tmp_path, "int16", *pages)
    expected = [0, 1, 2, 3, 4, None, 1, 2, None, 4, *[None] * 5, 0, 1, 2, 3, 4]
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == expected
    for start in range(20):
        assert file.ours(start, 20)["c"].to_pylist() == expected[start:]


def test_both_wrapper_and_values_say_null(tmp_path: Path) -> None:
    """Null if either says so."""
    page = Page(4)
    strings = page.binary([1, 9 + 1, 2, 3], b"abc", 9)
    page.of(some_nulls(page.bits([1, 1, 0, 1]), strings))
    file = write_column(tmp_path, "string", page)
    assert file.ours()["c"].to_pylist() == ["a", None, None, "c"]


def test_nulls_in_nulls(tmp_path: Path) -> None:
    page = Page(5)
    inner = some_nulls(page.bits([1, 1, 0, 1, 0]), page.flat(VALUES))
    page.of(some_nulls(page.bits([0, 1, 1, 1, 1]), inner))
    assert write_column(tmp_path, "int16", page).ours()["c"].to_pylist() == [None, 1, None, 3, None]


@pytest.mark.parametrize(
    "logical_type", ["string", "fixed_size_list:float:2", "dict:string:int8:false", "null"]
)
def test_pages_of_nulls_alone(logical_type: str, tmp_path: Path) -> None:
    file = write_column(tmp_path, logical_type, Page(3).of(all_nulls()))
    assert file.ours()["c"].to_pylist() == [None] * 3
    assert file.ours(1, 2)["c"].to_pylist() == [None]


def test_validity_that_is_none(tmp_path: Path) -> None:
    """T22: a bitmap is a bitmap."""
    for make in (
        lambda page: page.flat(b"\x01" * 5),
        lambda page: some_nulls(page.bits([1] * 5), page.bits([1] * 5)),
        lambda page: page.bits([]),
    ):
        page = Page(5)
        page.of(some_nulls(make(page), page.flat(VALUES)))
        with pytest.raises(CorruptFileError, match=r"column c.*page 0"):
            write_column(tmp_path, "int16", page).ours()


def test_unknown_nullability_is_refused(tmp_path: Path) -> None:
    page = Page(1).of(pb.ArrayEncoding(nullable=pb.Nullable.FromString(b"\x22\x00")))
    with pytest.raises(UnsupportedFeatureError, match="field 4"):
        write_column(tmp_path, "int16", page).ours()
