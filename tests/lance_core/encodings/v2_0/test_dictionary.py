"""Dictionaries: strings that are looked up, and dictionary columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lance_core.errors import CorruptFileError
from lance_core.proto import encodings_v2_0_pb2 as pb
from support.files.files_2_0 import Page, all_nulls, no_nulls, some_nulls, write_column

WORDS = ["a", "b", None, "", "a"]


def _dictionary(
    page: Page, indices: pb.ArrayEncoding, items: pb.ArrayEncoding, count: int
) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(
        dictionary=pb.Dictionary(indices=indices, items=items, num_dictionary_items=count)
    )


@pytest.mark.parametrize("logical_type", ["string", "binary"])
def test_strings_count_from_one_and_zero_is_null(logical_type: str, tmp_path: Path) -> None:
    page = Page(5)
    indices = no_nulls(page.flat(np.array([1, 2, 0, 3, 1], np.uint8)))
    file = write_column(
        tmp_path, logical_type, page.of(_dictionary(page, indices, page.binary([1, 2, 2], b"ab", 3), 3))
    )
    expected = [word.encode() if word is not None and logical_type == "binary" else word for word in WORDS]
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == expected
    for start in range(5):
        assert file.ours(start, 5)["c"].to_pylist() == expected[start:]


def test_nulls_of_strings_in_every_place(tmp_path: Path) -> None:
    """Index 0, an item that is null, a wrapper of the indices."""
    page = Page(4)
    indices = some_nulls(page.bits([1, 0, 1, 1]), page.flat(np.array([1, 1, 0, 2], np.uint8)))
    file = write_column(
        tmp_path, "string", page.of(_dictionary(page, indices, page.binary([1, 3], b"a", 2), 2))
    )
    assert file.ours()["c"].to_pylist() == ["a", None, None, None]


def test_only_nulls(tmp_path: Path) -> None:
    """One item, which is null."""
    page = Page(3)
    indices = no_nulls(page.flat(np.zeros(3, np.uint8)))
    file = write_column(tmp_path, "string", page.of(_dictionary(page, indices, page.binary([1], b"", 1), 1)))
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == [None] * 3
    page = Page(3)
    indices = no_nulls(page.flat(np.array([0, 1, 1], np.uint8)))
    file = write_column(tmp_path, "string", page.of(_dictionary(page, indices, all_nulls(), 1)))
    assert file.ours()["c"].to_pylist() == [None] * 3


def test_dictionary_columns_keep_their_nulls_in_the_items(tmp_path: Path) -> None:
    page = Page(4)
    indices = no_nulls(page.flat(np.array([0, 1, 0, 2], np.int8)))
    items = page.binary([1, 3, 7], b"xyy", 4)
    file = write_column(tmp_path, "dict:string:int8:false", page.of(_dictionary(page, indices, items, 3)))
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == ["x", "yy", "x", None]
    (chunk,) = file.ours()["c"].chunks
    assert chunk.indices.to_pylist() == [0, 1, 0, None]
    assert chunk.dictionary.null_count == 0
    assert file.ours(2, 4)["c"].to_pylist() == ["x", None]


def test_dictionary_columns_of_nothing_but_null_items(tmp_path: Path) -> None:
    page = Page(2)
    page.of(_dictionary(page, page.flat(np.zeros(2, np.int8)), all_nulls(), 1))
    file = write_column(tmp_path, "dict:string:int8:false", page)
    assert file.ours()["c"].to_pylist() == [None, None]


def test_dictionary_columns_may_be_wrapped(tmp_path: Path) -> None:
    page = Page(3)
    indices = no_nulls(page.flat(np.array([0, 1, 1], np.uint16)))
    items = no_nulls(page.flat(np.array([5, 6], np.int64)))
    page.of(some_nulls(page.bits([0, 1, 1]), _dictionary(page, indices, items, 2)))
    file = write_column(tmp_path, "dict:int64:uint16:false", page, Page(2).of(all_nulls()))
    assert file.ours()["c"].to_pylist() == [None, 6, 6, None, None]


@pytest.mark.parametrize("logical_type", ["string", "dict:string:uint8:false"])
def test_indices_without_an_item_are_refused(logical_type: str, tmp_path: Path) -> None:
    """T22: no index may leave the items."""
    for count, index in ((2, 3), (2, 255), (0, 1)):
        page = Page(1)
        indices = page.flat(np.array([index], np.uint8))
        ends = list(range(1, count + 1))
        page.of(_dictionary(page, indices, page.binary(ends, b"ab"[:count], 9), count))
        with pytest.raises(CorruptFileError, match=rf"dictionary index {index}.*column c.*page 0"):
            write_column(tmp_path, logical_type, page).ours()


def test_items_that_are_not_there_are_refused(tmp_path: Path) -> None:
    """T22: a number of items is believed only when their bytes are there."""
    page = Page(1)
    items = page.binary([1], b"a", 9)
    page.of(_dictionary(page, page.flat(np.array([1], np.uint8)), items, 2**32 - 1))
    with pytest.raises(CorruptFileError, match="4294967295 values"):
        write_column(tmp_path, "string", page).ours()


def test_keys_of_another_width_are_refused(tmp_path: Path) -> None:
    page = Page(1)
    page.of(_dictionary(page, page.flat(np.array([0], np.int32)), page.binary([1], b"a", 2), 1))
    with pytest.raises(CorruptFileError, match="32 bits"):
        write_column(tmp_path, "dict:string:int8:false", page).ours()
