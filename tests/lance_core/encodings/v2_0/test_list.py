"""Lists and structs: columns above columns, pages that end at different rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.proto import encodings_v2_0_pb2 as pb
from support.files.files_2_0 import ColumnPages, HandWritten, Page, leaf, no_nulls, struct_page, write_file


def _list_page(ends: list[int], num_items: int, adjustment: int) -> Page:
    page = Page(len(ends))
    return page.of(page.lists(ends, num_items, adjustment))


def _numbers(*values: int) -> Page:
    page = Page(len(values))
    return page.of(no_nulls(page.flat(np.array(values, np.int32))))


def _write(folder: Path, lists: list[Page], items: list[Page], kind: str = "list") -> HandWritten:
    fields = [leaf("c", kind), leaf("item", "int32", 1, 0)]
    rows = sum(page.length for page in lists)
    return write_file(folder, fields, [ColumnPages(lists), ColumnPages(items)], rows)


@pytest.mark.parametrize("kind", ["list", "large_list"])
def test_the_example_of_the_format(kind: str, tmp_path: Path) -> None:
    file = _write(tmp_path, [_list_page([2, 8, 2, 5], 5, 6)], [_numbers(1, 2, 3, 4, 5)], kind)
    expected = [[1, 2], None, [], [3, 4, 5]]
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == expected
    for start in range(4):
        for end in range(start + 1, 5):
            assert file.ours(start, end)["c"].to_pylist() == expected[start:end]


def test_pages_of_lists_and_of_items_end_anywhere(tmp_path: Path) -> None:
    """Item pages inside a list and over two pages of lists; empty pages between them."""
    lists = [_list_page([2, 2], 2, 3), _list_page([], 0, 1), _list_page([4, 9 + 4, 5], 5, 9)]
    items = [_numbers(1), _numbers(), _numbers(2, 3, 4), _numbers(5, 6, 7)]
    file = _write(tmp_path, lists, items)
    expected = [[1, 2], [], [3, 4, 5, 6], None, [7]]
    assert file.ours()["c"].to_pylist() == expected
    for start in range(5):
        assert file.ours(start, 5)["c"].to_pylist() == expected[start:]


def test_null_lists_may_cover_items(tmp_path: Path) -> None:
    file = _write(tmp_path, [_list_page([1, 9 + 3, 4], 4, 9)], [_numbers(1, 2, 3, 4)])
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == [[1], None, [4]]


def test_items_without_a_page(tmp_path: Path) -> None:
    file = _write(tmp_path, [_list_page([0, 1, 0], 0, 1)], [])
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == [[], None, []]


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (_list_page([2, 1], 3, 9), "decrease"),
        (_list_page([2, 4], 3, 9), "decrease or exceed 3"),
        (_list_page([2, 3], 3, 3), "adding 3"),
        (_list_page([2, 3], 3, 0), "adding 0"),
        (_list_page([2, 3], 2, 9), "items of the lists"),
        (_list_page([2, 3], 2**64 - 2, 2**64 - 1), "items of the lists"),
    ],
)
def test_ends_that_lie_are_refused(page: Page, words: str, tmp_path: Path) -> None:
    """T22: lists never cover items that are not theirs."""
    with pytest.raises(CorruptFileError, match=words):
        _write(tmp_path, [page], [_numbers(1, 2, 3)]).ours()


def test_lists_of_something_else_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"'nullable' in a page of lists.*column c.*page 0"):
        _write(tmp_path, [_numbers(1)], [_numbers(1)]).ours()


def test_structs_in_lists(tmp_path: Path) -> None:
    fields = [
        leaf("c", "list.struct"),
        leaf("item", "struct", 1, 0),
        leaf("x", "int32", 2, 1),
        leaf("y", "int32", 3, 1),
    ]
    columns = [
        ColumnPages([_list_page([1, 3], 3, 4)]),
        ColumnPages([struct_page(3)]),
        ColumnPages([_numbers(1, 2), _numbers(3)]),
        ColumnPages([_numbers(4), _numbers(5, 6)]),
    ]
    file = write_file(tmp_path, fields, columns, 2)
    expected = [[{"x": 1, "y": 4}], [{"x": 2, "y": 5}, {"x": 3, "y": 6}]]
    assert file.ours()["c"].to_pylist() == file.reference()["c"].to_pylist() == expected
    assert file.ours(1, 2)["c"].to_pylist() == expected[1:]


def _struct(folder: Path, header: list[Page], x: list[Page]) -> HandWritten:
    fields = [leaf("c", "struct"), leaf("x", "int32", 1, 0)]
    return write_file(folder, fields, [ColumnPages(header), ColumnPages(x)], 3)


def test_structs_are_checked(tmp_path: Path) -> None:
    """T22: one page that says how many there are, and as many in every child."""
    assert _struct(tmp_path, [struct_page(3)], [_numbers(1, 2, 3)]).ours()["c"].to_pylist() == [
        {"x": 1},
        {"x": 2},
        {"x": 3},
    ]
    with pytest.raises(CorruptFileError, match=r"number of pages.*expected 1, found 2"):
        _struct(tmp_path, [struct_page(1), struct_page(2)], [_numbers(1, 2, 3)]).ours()
    with pytest.raises(CorruptFileError, match=r"column x.*expected 3, found 2"):
        _struct(tmp_path, [struct_page(3)], [_numbers(1, 2)]).ours()
    with pytest.raises(CorruptFileError, match=r"rows of the file.*expected 3, found 2"):
        _struct(tmp_path, [struct_page(2)], [_numbers(1, 2)]).ours()
    with pytest.raises(UnsupportedFeatureError, match=r"'nullable' in a page of structs"):
        _struct(tmp_path, [_numbers(1, 2, 3)], [_numbers(1, 2, 3)]).ours()


def test_early_strings_are_lists_of_bytes(tmp_path: Path) -> None:
    """Release 0.12: the bytes have the next column, which belongs to no field."""
    data = Page(4)
    data.of(no_nulls(data.flat(b"abcd")))
    lists = [_list_page([1, 9 + 1, 3], 3, 9), _list_page([1], 1, 2)]
    for logical_type, expected in (("string", ["a", None, "bc", "d"]), ("binary", [b"a", None, b"bc", b"d"])):
        file = write_file(tmp_path, [leaf("c", logical_type)], [ColumnPages(lists), ColumnPages([data])], 4)
        assert file.ours()["c"].to_pylist() == expected
        assert file.ours(2, 4)["c"].to_pylist() == expected[2:]
    with pytest.raises(CorruptFileError, match="no such column"):
        write_file(tmp_path, [leaf("c", "string")], [ColumnPages(lists)], 4).ours()


def test_columns_of_blobs_are_refused_by_name(tmp_path: Path) -> None:
    blob = pb.ColumnEncoding(blob=pb.Blob())
    column = ColumnPages([_numbers(1)], encoding=blob)
    with pytest.raises(UnsupportedFeatureError, match=r"'blob'.*column c"):
        write_file(tmp_path, [leaf("c", "int32")], [column], 1).ours()


def test_statistics_of_zones_do_not_hinder(tmp_path: Path) -> None:
    values = pb.ColumnEncoding.FromString(b"\x0a\x00")
    zones = pb.ColumnEncoding(zone_index=pb.ZoneIndex(rows_per_zone=1, inner=values))
    column = ColumnPages([_numbers(7)], encoding=zones)
    assert write_file(tmp_path, [leaf("c", "int32")], [column], 1).ours()["c"].to_pylist() == [7]


def test_encodings_that_no_release_wrote_are_refused_by_name(tmp_path: Path) -> None:
    for number, name in ((13, "constant"), (16, "variable"), (21, "byte_stream_split"), (99, "field 99")):
        tag = number << 3 | 2
        tags = bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])
        page = Page(1).of(pb.ArrayEncoding.FromString(tags + b"\x00"))
        with pytest.raises(UnsupportedFeatureError, match=rf"'{name}' in a page of values.*column c.*page 0"):
            write_file(tmp_path, [leaf("c", "int32")], [ColumnPages([page])], 1).ours()


def test_fixed_size_lists_of_structs_are_refused_by_name(tmp_path: Path) -> None:
    fields = [leaf("c", "fixed_size_list:struct:2"), leaf("s", "struct", 1, 0), leaf("x", "int32", 2, 1)]
    columns = [ColumnPages([struct_page(1)]), ColumnPages([struct_page(2)]), ColumnPages([_numbers(1, 2)])]
    with pytest.raises(UnsupportedFeatureError, match="fixed_size_list:struct:2"):
        write_file(tmp_path, fields, columns, 1).ours()
