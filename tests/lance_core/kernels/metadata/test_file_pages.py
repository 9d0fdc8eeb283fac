"""Pages of many files: the kernels against parsing and locating one file after the other."""

from __future__ import annotations

import struct
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.encodings.v2_1.file_pages import FilePages
from lance_core.file.metadata import read_file_metadata
from lance_core.kernels import CorruptData
from lance_core.proto import encodings_v2_1_pb2
from lance_core.storage.local import LocalStorage
from support.runs.draws import draws
from support.twins import values

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
    storage = LocalStorage(str(tmp_path / "t"))
    files = [storage.open_file(f"data/{path.name}") for path in sorted((tmp_path / "t" / "data").iterdir())]
    data = b"".join(bytes(memoryview(file.read(0, file.size))) for file in files)
    sizes = np.array([file.size for file in files])
    starts = np.cumsum(sizes) - sizes
    metadata = [read_file_metadata(file) for file in files]
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
