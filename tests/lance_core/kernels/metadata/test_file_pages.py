"""Pages of many files: the kernels against parsing and locating one file after the other."""

from __future__ import annotations

import struct
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import any_pb2
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.encodings.file_pages import FilePages
from lance_core.encodings.picking import Int64s
from lance_core.file.metadata import FileMetadata, read_file_metadata
from lance_core.kernels import CorruptData
from lance_core.proto import encodings_v2_0_pb2, encodings_v2_1_pb2, file2_pb2
from lance_core.storage.local import LocalStorage
from support.runs.draws import draws
from support.twins import values

STRUCT = pa.struct({"x": pa.int64()})
COUNTS = ("num_items", "num_dictionary_items", "num_visible_items")


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_pages_are_those_of_the_metadata(version: str, tmp_path: Path) -> None:
    rows = [3, 40, 1, 40]
    for count in rows:
        table = pa.table(
            {
                "id": range(count),
                "text": [f"{k % 3} repeated text" * 3 for k in range(count)],
                "list": pa.array([list(range(k % 4)) for k in range(count)], pa.list_(pa.int64())),
                "vector": pa.array([[float(k)] * 64 for k in range(count)], pa.list_(pa.float32(), 64)),
                "nothing": pa.nulls(count, pa.int32()),
            }
        )
        lance.write_dataset(table, tmp_path / "t", mode="append", data_storage_version=version)
    data, metadata, (starts, sizes) = in_memory(tmp_path / "t")
    for column in range(5):
        places = np.array([each._ranges[column].astype(np.int64) for each in metadata])
        layouts, records = kernels.parse_file_pages(
            data, starts, sizes, starts + places[:, 0], np.ascontiguousarray(places[:, 1])
        )
        pages = FilePages.parse(data, memoryview(records))
        for number, each in enumerate(metadata):
            (expected,) = each.column(column).pages
            assert pages.num_rows[number] == expected.num_rows
            assert pages.num_buffers[number] == len(expected.buffers)
            for place, (offset, size) in enumerate(expected.buffers):
                assert pages.buffers(place)[number].tolist() == [starts[number] + offset, size]
            whole = encodings_v2_1_pb2.PageLayout.FromString(expected.encoding)
            kind = whole.WhichOneof("layout")
            layout = getattr(whole, kind)
            for name in ("num_items", "num_dictionary_items"):
                assert getattr(pages, name)[number] == getattr(layout, name, 0)
            for name in COUNTS:
                if name in type(layout).DESCRIPTOR.fields_by_name:
                    layout.ClearField(name)
            found_kind, found = layouts[pages.layout[number]]
            assert found_kind == whole.DESCRIPTOR.fields_by_name[kind].number
            assert type(layout).FromString(found) == layout
        assert len(set(layouts)) == len(layouts)


def without_counts(message: Message, counts: list[int]) -> None:
    """Move the counts of an `ArrayEncoding` to a list, those of a message before those of messages in it."""
    for field in message.DESCRIPTOR.fields:
        if field.name in ("null_adjustment", "null_offset_adjustment", "num_items", "num_dictionary_items"):
            counts.append(getattr(message, field.name))
            message.ClearField(field.name)
    for _, value in message.ListFields():
        if isinstance(value, Message):
            without_counts(value, counts)


def test_arrays_are_those_of_the_metadata(tmp_path: Path) -> None:
    """Files of 2.0, which have a column for each struct and list too."""
    for count in (3, 140, 1, 140):
        table = pa.table(
            {
                "id": range(count),
                "maybe": [None if k == 2 else k for k in range(count)],
                "word": [f"{k % 3} repeated text" for k in range(count)],
                "list": pa.array([[str(k)] * (k % 4) for k in range(count)], pa.list_(pa.string())),
                "vector": pa.array([[float(k)] * 64 for k in range(count)], pa.list_(pa.float32(), 64)),
                "nothing": pa.nulls(count, pa.int32()),
                "struct": pa.array([{"x": k} for k in range(count)], STRUCT),
            },
        )
        fields = [field.with_nullable(field.name != "struct") for field in table.schema]
        table = table.cast(pa.schema(fields))
        lance.write_dataset(table, tmp_path / "t", mode="append", data_storage_version="2.0")
    data, metadata, arguments = in_memory(tmp_path / "t")
    starts = arguments[0]
    for column in range(metadata[0].num_columns):
        places = np.array([each._ranges[column].astype(np.int64) for each in metadata])
        layouts, records = kernels.parse_file_arrays(
            data, *arguments, starts + places[:, 0], np.ascontiguousarray(places[:, 1])
        )
        pages = FilePages.parse(data, memoryview(records))
        for number, each in enumerate(metadata):
            (expected,) = each.column(column).pages
            assert pages.num_rows[number] == expected.num_rows
            assert pages.num_buffers[number] == len(expected.buffers)
            for place, (offset, size) in enumerate(expected.buffers):
                assert pages.buffers(place)[number].tolist() == [starts[number] + offset, size]
            encoding = encodings_v2_0_pb2.ArrayEncoding.FromString(expected.encoding)
            counts: list[int] = []
            without_counts(encoding, counts)
            kind, found = layouts[pages.layout[number]]
            assert encodings_v2_0_pb2.ArrayEncoding.FromString(found) == encoding
            assert kind == next(field.number for field, _ in encoding.ListFields())
            assert [pages.counts(0)[number], pages.counts(1)[number]] == [*counts, 0, 0][:2]
        assert len(set(layouts)) == len(layouts) <= 3


def in_memory(path: Path) -> tuple[bytes, list[FileMetadata], tuple[Int64s, Int64s]]:
    """Return the bytes of the files of a dataset, their metadata, and their places in the bytes."""
    storage = LocalStorage(str(path))
    files = [storage.open_file(f"data/{each.name}") for each in sorted((path / "data").iterdir())]
    data = b"".join(bytes(memoryview(file.read(0, file.size))) for file in files)
    sizes = np.array([file.size for file in files])
    return data, [read_file_metadata(file) for file in files], (np.cumsum(sizes) - sizes, sizes)


def array_column(encoding: bytes, column: bytes = b"\x0a\x00") -> bytes:
    """Metadata of a column of 2.0 with one page of this serialized `ArrayEncoding`."""
    message = file2_pb2.ColumnMetadata()
    described = any_pb2.Any(type_url="/lance.encodings.ColumnEncoding", value=column)
    message.encoding.direct.encoding = described.SerializeToString()
    described = any_pb2.Any(type_url="/lance.encodings.ArrayEncoding", value=encoding)
    message.pages.add(length=1).encoding.direct.encoding = described.SerializeToString()
    return message.SerializeToString()


def nested_lists(depth: int) -> bytes:
    encoding = encodings_v2_0_pb2.ArrayEncoding()
    inner = encoding
    for _ in range(depth):
        inner = inner.fixed_size_list.items
    inner.flat.bits_per_value = 8
    return encoding.SerializeToString()


def of_binary(content: bytes) -> bytes:
    return b"\x32" + bytes([len(content)]) + content


NO_INDICES = b"\x0a\x00"


@pytest.mark.parametrize(
    "encoding",
    [
        of_binary(b"\x18\x05" + NO_INDICES),  # the adjustment before the ends
        of_binary(b"\x18\x05\x18\x06"),
        of_binary(NO_INDICES * 2),
        of_binary(b"") * 2,
        of_binary(b"\x18" + b"\xff" * 9 + b"\x01"),
        of_binary(b"\x00\x01"),  # field 0
        b"\x3a\x07\x18\x80\x80\x80\x80\x10\x00",  # a dictionary of 2**32 items, cut off
        b"\x3a\x06\x18\x80\x80\x80\x80\x10",
        b"\x12\x04\x0a\x00\x12\x00",  # no nulls and some nulls
        b"\x22\x0c\x0a\x0a\x32\x08\x0a\x06" + of_binary(b"\x18\x01") + b"\x00\x00",
        nested_lists(40),
    ],
    ids=range(11),
)
def test_unusual_encodings_are_refused(encoding: bytes) -> None:
    """T22: fields out of order, repeated fields, more counts than a record has, deep trees."""
    column = array_column(encoding)
    with pytest.raises(CorruptData):
        kernels.parse_file_arrays(column, *([np.array([0]), np.array([len(column)])] * 2))


def test_counts_are_split_off() -> None:
    encoding = of_binary(NO_INDICES + b"\x18\x85\x01")
    column = array_column(encoding)
    layouts, records = kernels.parse_file_arrays(column, *([np.array([0]), np.array([len(column)])] * 2))
    assert layouts == [(6, of_binary(NO_INDICES))]
    assert FilePages.parse(column, memoryview(records)).counts(0).tolist() == [133]
    for wrong in (b"", b"\x1a\x00", b"\x0a\x00\x0a\x00"):  # no values, a blob, values twice
        column = array_column(encoding, wrong)
        with pytest.raises(CorruptData):
            kernels.parse_file_arrays(column, *([np.array([0]), np.array([len(column)])] * 2))


def test_a_column_of_several_pages_is_refused() -> None:
    column = struct.pack("BB", 0x12, 0) * 2
    with pytest.raises(CorruptData):
        kernels.parse_file_pages(column, *([np.array([0]), np.array([len(column)])] * 2))


@settings(max_examples=draws(60), deadline=None)
@given(st.binary(max_size=40), st.lists(st.tuples(st.integers(-1, 42), st.integers(-1, 42)), max_size=5))
def test_ranges_are_joined(data: bytes, ranges: list[tuple[int, int]]) -> None:
    offsets, sizes = np.array(ranges, np.int64).reshape(-1, 2).T.copy()
    if all(offset >= 0 and size >= 0 and offset + size <= len(data) for offset, size in ranges):
        expected = b"".join(data[offset : offset + size] for offset, size in ranges)
        assert bytes(kernels.join_ranges(data, offsets, sizes)) == expected
    else:
        with pytest.raises(CorruptData):
            kernels.join_ranges(data, offsets, sizes)


@settings(max_examples=draws(60), deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3)), min_size=1, max_size=3),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_chunks_of_pages_are_joined(pages: list[list[tuple[int, int]]], large: bool) -> None:
    """A page is a list of chunks: eights of bytes, and the logarithm of the values."""
    data, words, chunks, counts = b"", [], [], []
    bodies, position, first_value, num_chunks = b"", [0], [0], []
    for number, page in enumerate(pages):
        numbers = [(eights - 1) << 4 | log for eights, log in page]
        numbers[-1] &= ~15
        stored = values.integers(numbers, 32 if large else 16)
        body = bytes([number]) * sum(8 * eights for eights, _ in page)
        words += [len(data), len(stored)]
        chunks += [len(data) + len(stored), len(body) + number]  # the buffer may be longer
        data += stored + body + bytes(number)
        bodies += body
        for eights, log in page:
            position.append(position[-1] + 8 * eights)
            first_value.append(first_value[-1] + (1 << log))
        counts.append(sum(1 << log for _, log in page))
        num_chunks.append(len(page))
    arguments = [np.array(each, np.int64) for each in (words, chunks, counts)]
    joined, *found = kernels.join_chunks(data, *arguments, large)
    assert bytes(joined) == bodies
    assert [np.frombuffer(memoryview(block), np.int64).tolist() for block in found] == [
        position,
        first_value,
        num_chunks,
    ]
