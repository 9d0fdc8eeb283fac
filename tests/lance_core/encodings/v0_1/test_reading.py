"""Columns of 0.1 files made by hand: what the format says, whether or not a writer does it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from lance_core.encodings.v0_1 import offsets as offsets_module
from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.file.data_file import open_data_file
from lance_core.file.footer import FileVersion
from lance_core.file.v0_1.reader import ColumnReader, LegacyFile
from lance_core.proto import file_pb2, table_pb2
from lance_core.schema import Schema
from lance_core.schema.fields import Field
from lance_core.storage.memory import MemoryFile
from support.runs.each_case import each_case

Cells = Mapping[int, Sequence[tuple[int, int]]]
NAME = "data/f.lance"


def field_message(number: int, logical_type: str, parent: int = -1, **more: object) -> file_pb2.Field:
    """Return a nullable field named after its number."""
    return file_pb2.Field(
        **{"name": f"f{number}", "id": number, "parent_id": parent, "nullable": True, **more},
        logical_type=logical_type,
    )


def fields_of(*messages: file_pb2.Field, content: bytes = b"") -> tuple[Field, ...]:
    """Return the tree of the fields; `content` is where their dictionaries are."""
    return Schema(messages, {}, file="manifest", content=content).fields


def legacy_file(
    body: bytes,
    cells: Cells,
    batch_offsets: Sequence[int],
    fields: Sequence[file_pb2.Field] = (),
    *,
    first_row: int | None = None,
    version: tuple[int, int] = (0, 2),
) -> MemoryFile:
    """Return a file of `body` and a page table with (position, items) per field id and batch.

    The table begins with the smallest id unless `first_row` says otherwise. Without `fields` no manifest is
    embedded.
    """
    data = bytearray(body)
    metadata = file_pb2.Metadata(batch_offsets=batch_offsets, page_table_position=len(data))
    num_batches = len(batch_offsets) - 1
    for number in range(min(cells) if first_row is None else first_row, max(cells) + 1):
        for cell in cells.get(number, [(0, 0)] * num_batches):
            data += struct.pack("<qq", *cell)
    if fields:
        metadata.manifest_position = len(data)
        data += _framed(table_pb2.Manifest(fields=fields, version=1).SerializeToString())
    position = len(data)
    data += _framed(metadata.SerializeToString())
    data += struct.pack("<QHH4s", position, *version, b"LANC")
    return MemoryFile(NAME, bytes(data))


def _framed(message: bytes) -> bytes:
    return struct.pack("<I", len(message)) + message


def column(file: MemoryFile, *messages: file_pb2.Field, content: bytes = b"") -> ColumnReader:
    """Return the reader of the one top-level field of `messages`, which are all fields of the file."""
    (field,) = fields_of(*messages, content=content)
    first = messages[0].id
    return LegacyFile(file).open_column(field, {m.id: m.id - first for m in messages})


def values(reader: ColumnReader, start: int = 0, end: int | None = None) -> list[object]:
    arrays = reader.read(start, reader.num_rows if end is None else end)
    for array in arrays:
        array.validate(full=True)
    return [value for array in arrays for value in array.to_pylist()]


def ints(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


def longs(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}q", *numbers)


def test_the_smallest_file() -> None:
    """One field with id 7 and nothing but the page, its cell and the metadata."""
    file = legacy_file(ints(1, 2), {7: [(0, 2)]}, [0, 2])
    opened = open_data_file(file)
    assert (opened.version, opened.num_rows, opened.schema.fields) == (FileVersion.V0_1, 2, ())
    assert values(column(file, field_message(7, "int32"))) == [1, 2]


@pytest.mark.parametrize("version", [(0, 0), (0, 1), (0, 2)])
def test_every_spelling_of_the_version(version: tuple[int, int]) -> None:
    file = legacy_file(ints(1, 2), {0: [(0, 2)]}, [0, 2], version=version)
    assert open_data_file(file).version == FileVersion.V0_1


def test_batches_in_any_order_with_gaps_and_without_rows() -> None:
    body = b"gap" + ints(3, 4, 5) + b"x" + ints(1, 2)
    file = legacy_file(body, {0: [(16, 2), (0, 0), (3, 3), (0, 0)]}, [0, 2, 2, 5, 5])
    reader = column(file, field_message(0, "int32"))
    assert reader.page_rows == (0, 2, 2, 5, 5)
    for start in range(6):
        for end in range(start, 6):
            assert values(reader, start, end) == [1, 2, 3, 4, 5][start:end]


def test_a_file_without_batches() -> None:
    assert values(column(legacy_file(b"", {0: []}, []), field_message(0, "int32"))) == []


def test_bits_of_lists_have_no_gaps() -> None:
    """Item j of list i is bit 3 i + j."""
    file = legacy_file(b"\x00\b\xa5\x01", {0: [(2, 3)]}, [0, 3])
    reader = column(file, field_message(0, "fixed_size_list:bool:3"))
    rows = [[True, False, True], [False, False, True], [False, True, True]]
    assert values(reader) == rows
    assert values(reader, 1, 3) == rows[1:]


@pytest.mark.parametrize("logical_type", ["string", "large_string", "binary", "large_binary"])
def test_values_lie_anywhere(logical_type: str) -> None:
    """Here behind the positions; no bytes are null where the field is nullable."""
    body = longs(34, 36, 36, 37) + b"--" + b"xyz"
    file = legacy_file(body, {0: [(0, 3)]}, [0, 3])
    x, empty, z = (text if "string" in logical_type else text.encode() for text in ("xy", "", "z"))
    assert values(column(file, field_message(0, logical_type))) == [x, None, z]
    assert values(column(file, field_message(0, logical_type, nullable=False))) == [x, empty, z]


def test_lists_count_from_their_own_batch() -> None:
    body = ints(0, 2, 2) + ints(0, 1) + ints(1, 2) + ints(3)
    file = legacy_file(body, {0: [(0, 3), (12, 2)], 1: [(20, 2), (28, 1)]}, [0, 2, 3])
    reader = column(file, field_message(0, "list"), field_message(1, "int32", 0, name="item"))
    assert values(reader) == [[1, 2], [], [3]]
    assert values(reader, 1, 3) == [[], [3]]
    (array,) = reader.read(0, 3)
    assert array.offsets.to_pylist() == [0, 2, 2, 3]


@pytest.mark.parametrize("value_type", ["string", "binary", "large_string"])
def test_dictionary_values_are_in_the_manifest(value_type: str) -> None:
    """A string of no bytes is null, whatever the field says."""
    content = b"__abb" + longs(2, 3, 5, 5)
    place = file_pb2.Dictionary(offset=5, length=3)
    kind = field_message(0, f"dict:{value_type}:int8:false", dictionary=place, nullable=False)
    file = legacy_file(b"\x00\x02\x01\x00", {0: [(0, 4)]}, [0, 4])
    a, b = (text if "string" in value_type else text.encode() for text in ("a", "bb"))
    assert values(column(file, kind, content=content)) == [a, None, b, a]


def test_numbers_as_dictionary_values() -> None:
    kind = field_message(0, "dict:int32:uint8:false", dictionary=file_pb2.Dictionary(offset=1, length=2))
    file = legacy_file(b"\x01\x00", {0: [(0, 2)]}, [0, 2])
    assert values(column(file, kind, content=b"_" + ints(10, 20))) == [20, 10]


@pytest.mark.parametrize("first_row", [0, 2])
def test_page_tables_of_added_columns(first_row: int) -> None:
    """Releases before 0.8 began every table with field 0, later ones with the smallest field of the file."""
    messages = [field_message(2, "string"), field_message(3, "int32")]
    body = b"abc" + longs(0, 1, 3) + ints(7, 8)
    cells = {2: [(3, 2)], 3: [(27, 2)]}
    opened = LegacyFile(legacy_file(body, cells, [0, 2], messages, first_row=first_row))
    found = [values(opened.open_column(field, {2: 0, 3: 1})) for field in opened.schema.fields]
    assert found == [["a", "bc"], [7, 8]]


def test_children_that_the_file_lacks_are_null() -> None:
    messages = [field_message(0, "struct"), field_message(1, "int32", 0), field_message(2, "string", 0)]
    file = legacy_file(ints(1, 2), {0: [(0, 0)], 1: [(0, 2)]}, [0, 2])
    (field,) = fields_of(*messages)
    reader = LegacyFile(file).open_column(field, {0: 0, 1: 1})
    assert values(reader) == [{"f1": 1, "f2": None}, {"f1": 2, "f2": None}]


def test_rows_are_split_where_offsets_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"aabbccdd" + longs(0, 2, 4, 6, 8)
    reader = column(legacy_file(body, {0: [(8, 4)]}, [0, 4]), field_message(0, "string"))
    monkeypatch.setattr(offsets_module, "_INT32_MAX", 5)
    assert [array.to_pylist() for array in reader.read(0, 4)] == [["aa", "bb"], ["cc", "dd"]]
    monkeypatch.setattr(offsets_module, "_INT32_MAX", 1)
    with pytest.raises(CorruptFileError, match="32-bit offsets"):
        reader.read(0, 4)


def test_threads_share_a_reader() -> None:
    numbers = np.arange(10_000, dtype=np.int32)
    cells: Cells = {0: [(start * 4, 100) for start in range(0, 10_000, 100)]}
    file = legacy_file(numbers.tobytes(), cells, list(range(0, 10_001, 100)))
    reader = column(file, field_message(0, "int32"))

    def check(seed: int) -> bool:
        start, end = sorted(np.random.default_rng(seed).integers(0, 10_001, 2).tolist())
        found = pa.chunked_array(reader.read(start, end), pa.int32()).to_numpy()
        return np.array_equal(found, numbers[start:end])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(check, range(200)))


def test_few_of_many_columns_read_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a file and reading one of 1,000 columns costs nothing for the others."""
    number = 1_000
    pages = ints(*range(number)) + bytes(100_000)
    file = legacy_file(pages, {n: [(4 * n, 1)] for n in range(number)}, [0, 1])
    reads: list[int] = []
    read = file.read
    monkeypatch.setattr(file, "read", lambda offset, length: reads.append(length) or read(offset, length))
    (field,) = fields_of(field_message(500, "int32"))
    assert values(LegacyFile(file).open_column(field, {500: 500})) == [500]
    assert reads == [64 << 10, 16, 4]


# --- damage ---------------------------------------------------------------------------------------

INT = [field_message(0, "int32")]
STRING = [field_message(0, "string")]
LIST = [field_message(0, "list"), field_message(1, "int32", 0, name="item")]
KIND = [field_message(0, "dict:string:int8:false", dictionary=file_pb2.Dictionary(offset=1, length=1))]


@each_case(
    ("messages", "body", "cells", "page", "message"),
    [
        (INT, ints(1, 2), {0: [(0, 1), (-4, 1)]}, 1, "leaves the file"),
        (INT, ints(1, 2), {0: [(1 << 62, 1), (4, 1)]}, 0, "leaves the file"),
        (INT, ints(1, 2), {0: [(0, 1), (4, 2)]}, 1, "wrong number of items"),
        (INT, ints(1, 2), {0: [(0, -1), (4, 1)]}, 0, "wrong number of items"),
        (STRING, b"ab" + longs(0, 1), {0: [(2, 1), (1 << 40, 1)]}, 1, "leaves the file"),
        (STRING, b"ab" + longs(1, 0, 0), {0: [(2, 1), (10, 1)]}, 0, "offsets decrease"),
        (STRING, b"ab" + longs(-2, -1, 0), {0: [(10, 1), (2, 1)]}, 0, "negative offset"),
        (STRING, b"ab" + longs(0, 1, 1 << 50), {0: [(2, 1), (10, 1)]}, 1, "values leave the file"),
        (LIST, ints(0, 1, 5, 7, 8), {0: [(0, 2), (4, 2)], 1: [(12, 5), (12, 2)]}, 1, "beyond the items"),
        (LIST, ints(0, 1, 0, 7, 8), {0: [(0, 2), (4, 2)], 1: [(12, 1), (16, 1)]}, 1, "offsets decrease"),
        (LIST, ints(0, 1, 1, 7, 8), {0: [(0, 0), (4, 2)], 1: [(12, 1), (16, 1)]}, 0, "wrong number of items"),
        (LIST, ints(0, 1, 1, 7, 8), {0: [(0, 2), (4, 2)], 1: [(12, -1), (16, 1)]}, 0, "leaves the file"),
        (LIST, ints(0, 1, 1, 7, 8), {0: [(0, 2), (4, 2)], 1: [(12, 1 << 61), (16, 1)]}, 0, "leaves the file"),
        (KIND, b"\x00\x01", {0: [(0, 1), (1, 1)]}, 0, "below 1"),
    ],
)
def test_damage_is_refused_by_column_and_page(
    messages: Sequence[file_pb2.Field], body: bytes, cells: Cells, page: int, message: str
) -> None:
    """T22: file, column, page, what was expected and what was found."""
    file = legacy_file(body, cells, [0, 1, 2])
    with pytest.raises(CorruptFileError, match=message) as caught:
        values(column(file, *messages, content=b"_" + longs(0, 1)))
    error = caught.value
    assert (error.file, error.page) == (NAME, page)
    assert error.column in {m.name for m in messages}
    assert error.expected is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-1] + b"X", "end like a Lance file"),
        (lambda data: data[-6:], "too short"),
        (lambda data: data[-12:], "too short"),
        (lambda data: data[:-16] + longs(1 << 40) + data[-8:], "metadata is outside"),
        (lambda data: data[:-16] + longs(0) + data[-8:], "metadata reaches into the footer"),
        (lambda data: data[:-8] + b"\x00\x00\x03\x00LANC", "version"),
    ],
)
def test_damaged_ends_are_refused(change: Callable[[bytes], bytes], message: str) -> None:
    file = legacy_file(ints(-1, 2), {0: [(0, 2)]}, [0, 2], INT)
    data = bytes(memoryview(file.read(0, file.size)))
    with pytest.raises(CorruptFileError, match=message):
        LegacyFile(MemoryFile(NAME, change(data)))


@pytest.mark.parametrize("batch_offsets", [[1, 2], [0, 2, 1], [0, -1]])
def test_batches_that_do_not_follow_each_other(batch_offsets: list[int]) -> None:
    file = legacy_file(ints(1, 2), {0: [(0, 2)] * (len(batch_offsets) - 1)}, batch_offsets)
    with pytest.raises(CorruptFileError, match="batches"):
        LegacyFile(file)


def test_a_page_table_outside_the_file() -> None:
    file = legacy_file(ints(1, 2), {0: [(0, 2)]}, [0, 2])
    (field,) = fields_of(*INT)
    with pytest.raises(CorruptFileError, match="page table is outside the file"):
        LegacyFile(file).open_column(field, {0: 1_000})


def test_items_that_take_no_bytes_are_bounded() -> None:
    """T24: nothing in the file limits lists of nulls but this."""
    messages = [field_message(0, "large_list"), field_message(1, "null", 0, name="item")]
    file = legacy_file(longs(0, 1 << 50), {0: [(0, 2)], 1: [(0, 1 << 50)]}, [0, 1])
    with pytest.raises(CorruptFileError, match="leaves the file"):
        column(file, *messages)


@pytest.mark.parametrize(
    "logical_type",
    [
        "fixed_size_list:string:2",
        "fixed_size_list:null:2",
        "fixed_size_list:fixed_size_list:fixed_size_list:int64:2000000000:2000000000:2000000000",
    ],
)
def test_lists_that_cannot_be_plain_are_refused(logical_type: str) -> None:
    """T24: widths do not overflow."""
    file = legacy_file(bytes(64), {0: [(0, 1)]}, [0, 1])
    with pytest.raises(UnsupportedFeatureError, match="f0"):
        column(file, field_message(0, logical_type))


@pytest.mark.parametrize("logical_type", ["fixed_size_binary:0", "fixed_size_list:int32:0"])
def test_values_without_bytes(logical_type: str) -> None:
    file = legacy_file(b"", {0: [(0, 3), (0, 2)]}, [0, 3, 5])
    reader = column(file, field_message(0, logical_type))
    assert len(values(reader)) == 5
    assert len(values(reader, 2, 4)) == 2


def test_types_that_the_version_lacks_are_refused() -> None:
    messages = [field_message(0, "fixed_size_list:struct:2"), field_message(1, "struct", 0)]
    messages.append(field_message(2, "int32", 1))
    file = legacy_file(bytes(64), {m.id: [(0, 1)] for m in messages}, [0, 1])
    with pytest.raises(UnsupportedFeatureError, match="fixed_size_list:struct:2"):
        column(file, *messages)


def test_a_dictionary_column_without_values_is_refused() -> None:
    file = legacy_file(b"\x00", {0: [(0, 1)]}, [0, 1])
    with pytest.raises(CorruptFileError, match="no values"):
        column(file, field_message(0, "dict:string:int8:false"))


def test_schema_of_the_file_itself() -> None:
    messages = [field_message(3, "int32", name="a"), field_message(5, "string", name="b")]
    file = legacy_file(bytes(64), {3: [(0, 1)], 5: [(0, 1)]}, [0, 1], messages)
    assert LegacyFile(file).schema.to_arrow() == pa.schema([("a", pa.int32()), ("b", pa.string())])
