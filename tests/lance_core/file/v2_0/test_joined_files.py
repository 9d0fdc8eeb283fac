"""Columns of several 2.0 files that are decoded together: files written by hand, against each file alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import lz4.block
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core.encodings.file_pages import TooManyBytes
from lance_core.errors import LanceError, UnsupportedFeatureError
from lance_core.file.data_file import open_data_file
from lance_core.file.footer import FileVersion
from lance_core.file.v2_0.joined_files import JoinedFiles
from lance_core.kernels import CorruptData
from lance_core.proto import encodings_v2_0_pb2 as pb
from lance_core.schema import Field, nodes
from lance_core.storage.local import LocalStorage
from support.files.files_2_0 import (
    NAME,
    ColumnPages,
    HandWritten,
    Page,
    all_nulls,
    leaf,
    no_nulls,
    some_nulls,
    struct_page,
    write_column,
    write_file,
)
from support.runs.draws import draws

PLENTY = 1 << 20
Columns = Sequence[Page | None]


def joined(files: Sequence[HandWritten], most_bytes: int = PLENTY) -> pa.Array:
    """Return the only top-level column of files with the same schema."""
    contents = [(file.folder / NAME).read_bytes() for file in files]
    with LocalStorage(str(files[0].folder)).open_file(NAME) as file:
        (field,) = open_data_file(file).schema.fields
    counts = []
    for each in files:
        with LocalStorage(str(each.folder)).open_file(NAME) as file:
            counts.append(open_data_file(file).num_rows)
    columns = {node.id: number for number, node in enumerate(nodes(field))}
    return JoinedFiles(contents, np.array(counts), FileVersion.V2_0).read(field, columns, most_bytes)


def check(logical_type: str, folder: Path, *pages: Page) -> pa.Array:
    """Compare one file per page, read together, with each file alone. Returns all rows."""
    files = [write_column(folder / str(number), logical_type, page) for number, page in enumerate(pages)]
    return check_files(files)


def check_files(files: Sequence[HandWritten]) -> pa.Array:
    array = joined(files)
    array.validate(full=True)
    expected = [value for file in files for value in file.ours()["c"].to_pylist()]
    assert array.to_pylist() == expected
    return array


def numbers(values: Sequence[int]) -> Page:
    page = Page(len(values))
    return page.of(no_nulls(page.flat(np.array(values, np.int32))))


def text(ends: Sequence[int], data: bytes, adjustment: int) -> Page:
    page = Page(len(ends))
    return page.of(page.binary(ends, data, adjustment))


def words(indices: Sequence[int], ends: Sequence[int], data: bytes, adjustment: int) -> Page:
    """Strings with a dictionary."""
    page = Page(len(indices))
    flat = no_nulls(page.flat(np.array(indices, np.uint8)))
    items = page.binary(ends, data, adjustment)
    message = pb.Dictionary(indices=flat, items=items, num_dictionary_items=len(ends))
    return page.of(pb.ArrayEncoding(dictionary=message))


def test_flat_values_with_and_without_nulls(tmp_path: Path) -> None:
    """Pages of three kinds alternate, and a buffer is longer than its values."""
    some, bare, longer = Page(3), Page(1), Page(1)
    some.of(some_nulls(some.bits([1, 0, 1]), some.flat(np.array([7, 0, 9], np.int32))))
    bare.of(bare.flat(np.array([5], np.int32)))
    longer.of(no_nulls(longer.flat(np.array([5, 6, 7], np.int32))))
    pages = (numbers([1, 2]), some, Page(2).of(all_nulls()), bare, numbers([3]), some, longer)
    assert check("int32", tmp_path, *pages).null_count == 4


def test_booleans_and_fixed_size_lists(tmp_path: Path) -> None:
    flags = []
    for count in (3, 11, 8, 1):
        page = Page(count)
        flags.append(page.of(some_nulls(page.bits([1, 0] * 9), page.bits([0, 1, 1] * 6))))
    check("bool", tmp_path / "flags", *flags)
    lists = []
    for count in (1, 2, 5):
        page = Page(count)
        validity, of_items = page.bits([1, 0, 1, 1, 1]), page.bits([1, 0, 1] * 5)
        items = some_nulls(of_items, page.flat(np.arange(10 * count, 13 * count, dtype=np.float32)))
        fixed = pb.ArrayEncoding(fixed_size_list=pb.FixedSizeList(dimension=3, items=items))
        lists.append(page.of(some_nulls(validity, fixed)))
    check("fixed_size_list:float:3", tmp_path / "lists", *lists)


def test_text(tmp_path: Path) -> None:
    """Each page has an adjustment of its own, and bytes behind its last value."""
    pages = (
        text([3, 10, 6], b"foobar", 7),
        text([0, 0], b"", 1),
        text([1], b"x and more", 40),
        text([9, 9], b"", 9),  # nulls only
        text([2, 5], "äöß".encode()[:5], 6),
    )
    array = check("binary", tmp_path, *pages)
    assert array.to_pylist() == [b"foo", None, b"bar", b"", b"", b"x", None, None, *array.to_pylist()[-2:]]


@pytest.mark.parametrize("scheme", ["zstd", "lz4", "none"])
def test_compressed_text(scheme: str, tmp_path: Path) -> None:
    compress: dict[str, Callable[[bytes], bytes]] = {
        "zstd": lambda data: len(data).to_bytes(8, "little") + zstandard.compress(data),
        "lz4": lambda data: lz4.block.compress(data, store_size=True),
        "none": bytes,
    }
    pages = []
    for data in (b"one two three", b"four" * 20, b"5"):
        page = Page(2)
        ends = no_nulls(page.flat(np.array([1, len(data)], np.uint64)))
        flat = page.flat(compress[scheme](data), 8, scheme)
        pages.append(
            page.of(pb.ArrayEncoding(binary=pb.Binary(indices=ends, bytes=flat, null_adjustment=99)))
        )
    check("string", tmp_path, *pages)


def test_dictionaries_of_strings(tmp_path: Path) -> None:
    """Index 0 is null, and an item may be null. Files without a dictionary stand between."""
    pages = (
        words([1, 2, 0, 3], [1, 2, 2], b"ab", 3),
        text([1, 3], b"xyz", 9),
        words([2, 1], [3, 9], b"abc", 6),
        words([0, 0], [1], b"", 1),
    )
    array = check("string", tmp_path, *pages)
    assert array.to_pylist() == ["a", "b", None, "", "x", "yz", None, "abc", None, None]
    with pytest.raises(TooManyBytes):
        joined([write_column(tmp_path / "long", "string", words([1] * 9, [99], bytes(99), 100))] * 3, 2600)


def test_an_index_names_an_item_of_its_own_page(tmp_path: Path) -> None:
    """T22: item 3 of the first page would be the first of the second page."""
    pages = (words([1, 3], [1, 2], b"ab", 3), words([1, 1], [1, 2], b"cd", 3))
    with pytest.raises(CorruptData, match="names no item of its page"):
        check("string", tmp_path, *pages)


def of_columns(folder: Path, fields: Sequence[object], pages: Columns, num_rows: int) -> HandWritten:
    return write_file(folder, fields, [ColumnPages([page] if page else []) for page in pages], num_rows)


def list_file(
    folder: Path, ends: Sequence[int], num_items: int, adjustment: int, items: Page | None
) -> HandWritten:
    page = Page(len(ends))
    page.of(page.lists(ends, num_items, adjustment))
    fields = [leaf("c", "list"), leaf("item", "int32", 1, 0)]
    return of_columns(folder, fields, (page, items), len(ends))


def test_lists(tmp_path: Path) -> None:
    """Null lists, empty lists, and a null list that has items."""
    files = [
        list_file(tmp_path / "a", [2, 8, 2, 5], 5, 6, numbers([1, 2, 3, 4, 5])),
        list_file(tmp_path / "b", [0, 1], 0, 1, Page(0).of(all_nulls())),
        list_file(tmp_path / "c", [1, 13], 3, 10, numbers([7, 8, 9])),
        list_file(tmp_path / "d", [1], 1, 2, numbers([6])),
    ]
    assert check_files(files).to_pylist() == [[1, 2], None, [], [3, 4, 5], [], None, [7], None, [6]]


def test_structs_and_missing_children(tmp_path: Path) -> None:
    fields = [leaf("c", "struct"), leaf("x", "int32", 1, 0), leaf("y", "string", 2, 0)]
    files = [
        of_columns(tmp_path / str(n), fields, (struct_page(n), numbers(range(n)), text([1] * n, b"z", 2)), n)
        for n in (1, 3, 2)
    ]
    check_files(files)


def check_refused(sound: HandWritten, damaged: HandWritten) -> None:
    """Check that a sound and a damaged file are read together in neither order."""
    for files in ([sound, damaged], [damaged, sound]):
        with pytest.raises((CorruptData, UnsupportedFeatureError)):
            joined(files)


@pytest.mark.parametrize(
    "page",
    [
        text([3, 2], b"abc", 9),
        text([3, 4], b"abc", 9),
        text([3, 13], b"abc", 9),
        text([1, 2], b"abc", (1 << 49)),
        words([1, 2], [1], b"a", 2),
        words([1, 1], [2], b"a", 9),
        Page(2).of(pb.ArrayEncoding()),
        Page(2).of(pb.ArrayEncoding(struct=pb.SimpleStruct())),
        Page(2).of(pb.ArrayEncoding(flat=pb.Flat(bits_per_value=8))),
        Page(2).of(pb.ArrayEncoding(nullable=pb.Nullable())),
        Page(2).of(pb.ArrayEncoding(binary=pb.Binary())),
        Page(2).of(pb.ArrayEncoding(dictionary=pb.Dictionary())),
        Page(2).of(pb.ArrayEncoding(fsst=pb.Fsst())),
        Page(2).of(pb.ArrayEncoding(fixed_size_list=pb.FixedSizeList())),
        Page(2).of(pb.ArrayEncoding(packed_struct=pb.PackedStruct())),
    ],
    ids=range(15),
)
def test_pages_that_lie(page: Page, tmp_path: Path) -> None:
    """T22: a page that contradicts itself or its column."""
    sound = write_column(tmp_path / "sound", "string", text([1, 2], b"xy", 3))
    check_refused(sound, write_column(tmp_path / "damaged", "string", page))


def test_lists_that_lie(tmp_path: Path) -> None:
    """T22: an adjustment within the items, fewer or more items than the column has."""
    sound = list_file(tmp_path / "sound", [1, 2], 2, 3, numbers([1, 2]))
    lies: list[tuple[list[int], int, int, list[int]]] = [
        ([1, 2], 2, 2, [1, 2]),
        ([1, 2], 3, 4, [1, 2, 3]),
        ([1, 2], 2, 3, [1]),
        ([2, 1], 2, 3, [1, 2]),
        ([1, 3], 2, 9, [1, 2]),
    ]
    for number, (ends, num_items, adjustment, items) in enumerate(lies):
        file = list_file(tmp_path / str(number), ends, num_items, adjustment, numbers(items))
        check_refused(sound, file)


def test_files_of_another_shape_are_refused(tmp_path: Path) -> None:
    """Several pages or none, a buffer of the column, a blob, and a file of another version."""
    sound = write_column(tmp_path / "sound", "int32", numbers([1]))
    check_refused(sound, write_column(tmp_path / "pages", "int32", numbers([1]), numbers([2])))
    check_refused(sound, write_column(tmp_path / "none", "int32"))
    check_refused(sound, write_column(tmp_path / "buffer", "int32", numbers([1]), buffers=[b"x"]))
    blob = pb.ColumnEncoding(blob=pb.Blob(inner=pb.ColumnEncoding.FromString(b"\x0a\x00")))
    pages = ColumnPages([numbers([1])], (), blob)
    check_refused(sound, write_file(tmp_path / "blob", [leaf("c", "int32")], [pages], 1))
    content = (sound.folder / NAME).read_bytes()
    with pytest.raises(CorruptData, match="another version"):
        JoinedFiles([content], np.array([1]), FileVersion.V2_1)
    assert content[-8:-4] == bytes([0, 0, 3, 0])
    other_spelling = content[:-8] + bytes([2, 0, 0, 0]) + content[-4:]
    JoinedFiles([content, other_spelling], np.array([1, 1]), FileVersion.V2_0)


@pytest.mark.parametrize("number", range(24))
def test_a_footer_or_a_descriptor_that_lies(number: int, tmp_path: Path) -> None:
    """T22: each damage that a file alone refuses is refused among several files."""
    sound = write_column(tmp_path / "sound", "int32", numbers([1, 2]))
    content = bytearray((sound.folder / NAME).read_bytes())
    place = len(content) - 40 + number
    for value in (0, 1, 0x7F, 0xFF):
        changed = content.copy()
        changed[place] = value
        try:
            with LocalStorage(str(write_bytes(tmp_path / "changed", changed))).open_file(NAME) as file:
                opened = open_data_file(file)
                (field,) = opened.schema.fields
                opened.open_column(field, {0: 0}).read(0, 2)
        except LanceError:
            with pytest.raises(CorruptData):
                read_two(content, changed, field_of(sound))


def read_two(one: bytearray, other: bytearray, field: Field) -> pa.Array:
    files = JoinedFiles([bytes(one), bytes(other)], np.array([2, 2]), FileVersion.V2_0)
    return files.read(field, {0: 0}, PLENTY)


def write_bytes(folder: Path, data: bytes | bytearray) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / NAME).write_bytes(data)
    return folder


def field_of(file: HandWritten) -> Field:
    with LocalStorage(str(file.folder)).open_file(NAME) as opened:
        return open_data_file(opened).schema.fields[0]


def test_the_number_of_rows_is_that_of_the_descriptor(tmp_path: Path) -> None:
    content = (write_column(tmp_path, "int32", numbers([1, 2])).folder / NAME).read_bytes()
    with pytest.raises(CorruptData, match="another number of rows"):
        JoinedFiles([content, content], np.array([2, 3]), FileVersion.V2_0)


def test_values_take_no_more_than_their_room(tmp_path: Path) -> None:
    """T33: nulls without bytes, lists of them, and compressed bytes."""
    nulls = [write_column(tmp_path / "n", "fixed_size_list:float:4096", Page(40).of(all_nulls()))] * 4
    with pytest.raises(TooManyBytes):
        joined(nulls)
    items = [list_file(tmp_path / "l", [1 << 29], 1 << 29, 1 << 30, Page(1 << 29).of(all_nulls()))] * 2
    with pytest.raises(TooManyBytes):
        joined(items)
    page = Page(1)
    ends = no_nulls(page.flat(np.array([1 << 22], np.uint64)))
    data = (1 << 22).to_bytes(8, "little") + zstandard.compress(bytes(1 << 22))
    page.of(
        pb.ArrayEncoding(
            binary=pb.Binary(indices=ends, bytes=page.flat(data, 8, "zstd"), null_adjustment=1 << 30)
        )
    )
    with pytest.raises(TooManyBytes):
        joined([write_column(tmp_path / "z", "string", page)] * 2)
    with pytest.raises(TooManyBytes):
        joined([write_column(tmp_path / "f", "int32", numbers(range(100)))] * 4, 1599)


@settings(max_examples=draws(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("text", "words")),
            st.lists(
                st.one_of(st.none(), st.sampled_from((b"", b"a", b"bc", b"def"))), min_size=1, max_size=9
            ),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_strings_of_any_files(
    tmp_path_factory: pytest.TempPathFactory, pages: list[tuple[str, list[bytes | None]]]
) -> None:
    made = []
    for kind, values in pages:
        distinct = sorted({value for value in values if value is not None}) if kind == "words" else values
        ends = np.cumsum([len(value or b"") for value in distinct], dtype=np.int64)
        data, adjustment = b"".join(value or b"" for value in distinct), int(ends[-1] if len(ends) else 0) + 3
        if kind == "words":
            indices = [0 if value is None else distinct.index(value) + 1 for value in values]
            made.append(words(indices, ends.tolist(), data, adjustment))
        else:
            nulls = np.array([value is None for value in values])
            made.append(text((ends + nulls * adjustment).tolist(), data, adjustment))
    array = check("binary", tmp_path_factory.mktemp("strings"), *made)
    assert array.to_pylist() == [value for _, values in pages for value in values]
