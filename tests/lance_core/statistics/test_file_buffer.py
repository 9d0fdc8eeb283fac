"""The buffer of page statistics in our files: it is read as it was written, and damaged content
is refused.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.errors import CorruptFileError
from lance_core.file.data_file import open_data_file
from lance_core.statistics.checksummed_batch import seal
from lance_core.statistics.collect import PageSummary, merge_bounds, page_bounds
from lance_core.statistics.file_buffer import PageEntry, buffer_of, from_buffer, to_buffer
from lance_core.statistics.page_recorder import FilePageRecorder
from lance_core.storage.memory import MemoryFile
from support.files.written import write_file
from support.runs.each_case import each_case
from support.tables.arrays import Spec, make_array
from support.tables.types import ORDERED

ROWS = 40


def entries(arrays: list[pa.Array | None]) -> list[PageEntry]:
    """Pages of 40 rows."""
    return [
        PageEntry(
            number * ROWS, ROWS, None if array is None else PageSummary.of(page_bounds(array)), 1000 + number
        )
        for number, array in enumerate(arrays)
    ]


def pages_of(data_type: pa.DataType, count: int) -> list[pa.Array]:
    rng = np.random.default_rng(3)
    nulls = ("none", "half", "all", "sparse")
    field = pa.field("c", data_type)
    return [make_array(field, ROWS, Spec("extremes", nulls[i % 4]), rng) for i in range(count)]


@each_case("data_type", ORDERED)
def test_what_goes_in_comes_out(data_type: pa.DataType) -> None:
    pages = pages_of(data_type, 6)
    others = pages_of(pa.string(), 3)
    data = to_buffer({4: entries(pages), 0: entries(others), 2: entries([None, None])})
    found = from_buffer(data, "f")
    table = found.column(4, data_type)
    assert table is not None
    expected = pa.Table.from_batches([page_bounds(page) for page in pages])
    for name in ("rows", "null_count", "nan_count", "min", "max"):
        assert table[name].combine_chunks().equals(expected[name].combine_chunks()), name
    table.validate(full=True)
    assert table["first_row"].to_pylist() == [number * ROWS for number in range(6)]
    assert table["page"].to_pylist() == list(range(6))
    assert set(table["column"].to_pylist()) == {4}
    assert found.checksums(4) == [1000 + number for number in range(6)]
    assert found.column(3, data_type) is None
    assert list(found.checksums(3)) == []
    nothing = found.column(2, pa.int32())
    assert nothing is not None
    assert nothing.select(["null_count", "min"]).to_pylist() == [{"null_count": None, "min": None}] * 2


def test_a_file_without_pages() -> None:
    assert from_buffer(to_buffer({0: []}), "f").column(0, pa.int32()) is None


@each_case("data_type", ORDERED)
def test_bounds_of_parts_are_those_of_the_whole(data_type: pa.DataType) -> None:
    """A page that is put together from several batches."""
    pages = pages_of(data_type, 4)
    whole = page_bounds(pa.concat_arrays(pages))
    assert merge_bounds([page_bounds(page) for page in pages]).equals(whole)
    zones = page_bounds(pa.concat_arrays(pages), rows_per_zone=ROWS)
    for number, page in enumerate(pages):
        assert zones.slice(number, 1).equals(page_bounds(page))


def test_no_upper_bound_stays_none() -> None:
    parts = [page_bounds(pa.array([b"a"])), page_bounds(pa.array([b"\xff" * 70]))]
    assert merge_bounds(parts).to_pylist()[0] | {"min": None} == {
        "rows": 2,
        "null_count": 0,
        "nan_count": 0,
        "min": None,
        "max": None,
    }
    nothing = page_bounds(pa.array([None], pa.binary()))
    assert merge_bounds([parts[0], nothing])["max"].to_pylist() == [b"a"]
    empty = page_bounds(pa.array([], pa.binary()))
    assert merge_bounds([empty])["rows"].to_pylist() == [0]


def sealed(stream: bytes) -> pa.Buffer:
    """With the right checksum."""
    return pa.py_buffer(stream + struct.pack("<I", kernels.crc32c(stream)))


def stream(batches: list[pa.RecordBatch], schema: pa.Schema, **options: Any) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sealed(sink.getvalue().to_pybytes())


def good() -> pa.Table:
    return from_buffer(to_buffer({0: entries(pages_of(pa.int32(), 3)), 1: entries([None] * 3)}), "f").table


def changed(name: str, values: list[Any]) -> pa.Buffer:
    table = good()
    position = table.schema.get_field_index(name)
    table = table.set_column(
        position, table.schema.field(name), pa.array(values, table.schema.field(name).type)
    )
    return stream(table.combine_chunks().to_batches(), table.schema)


@each_case(
    "data",
    [
        pa.py_buffer(b""),
        pa.py_buffer(b"abc"),
        sealed(b""),
        sealed(b"some text"),
        stream([], good().schema),
        stream(good().select(["column"]).to_batches(), good().select(["column"]).schema),
        stream(good().to_batches(), good().schema, compression="zstd"),
        changed("column", [1, 1, 1, 0, 0, 0]),
        changed("column", [-1, -1, -1, 0, 0, 0]),
        changed("page", [1, 2, 3, 0, 1, 2]),
        changed("page", [0, 1, 3, 0, 1, 2]),
        changed("first_row", [1, 40, 80, 0, 40, 80]),
        changed("first_row", [0, 40, 90, 0, 40, 80]),
        changed("rows", [40, 40, -1, 40, 40, 40]),
        changed("null_count", [-1, 0, 0, 0, 0, 0]),
        changed("nan_count", [-1, 0, 0, 0, 0, 0]),
    ],
)
def test_what_contradicts_itself_is_refused(data: pa.Buffer) -> None:
    """T22, T24: unsound statistics would hide rows; compressed ones could be of any size."""
    with pytest.raises(CorruptFileError, match="statistics"):
        from_buffer(data, "f")


def test_bounds_of_another_type_are_refused() -> None:
    """T22"""
    found = from_buffer(
        to_buffer({0: entries([pa.array(["\u00e9"])]), 1: entries([pa.array([b"\xff"])])}), "f"
    )
    for number, data_type in ((0, pa.int64()), (0, pa.bool_()), (1, pa.string())):
        with pytest.raises(CorruptFileError, match="another type"):
            found.column(number, data_type)


def test_every_flipped_bit_is_found() -> None:
    """T26"""
    data = to_buffer({0: entries([pa.array([1, 2])])}).to_pybytes()
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptFileError, match="checksum"):
            from_buffer(pa.py_buffer(bytes(damaged)), "f")


def test_any_bytes_are_statistics_or_corrupt() -> None:
    """T22: with a checksum that fits."""
    data = bytes(memoryview(to_buffer({0: entries(pages_of(pa.string(), 3))}))[:-4])
    rng = np.random.default_rng(1)
    survived = 0
    for _ in range(3000):
        damaged = bytearray(data)
        for _ in range(rng.integers(1, 4)):
            damaged[rng.integers(len(data))] = rng.choice([0, 1, 127, 128, 255, rng.integers(256)])
        try:
            found = from_buffer(sealed(bytes(damaged[: rng.integers(len(data) // 2, 2 * len(data))])), "f")
            found.column(0, pa.string())
            survived += 1
        except CorruptFileError:
            continue
    assert 0 < survived < 3000


@pytest.mark.parametrize(
    ("number", "expected"),
    [(None, None), ("1", (5, 6)), ("2", (7, 8)), ("0", ""), ("3", ""), ("-1", ""), ("x", "")],
)
def test_where_the_buffer_is(number: str | None, expected: Any) -> None:
    metadata = {} if number is None else {"lance_flight:page_statistics": number}
    buffers = [(1, 2), (5, 6), (7, 8)]
    if expected == "":
        with pytest.raises(CorruptFileError, match="no such buffer"):
            buffer_of(metadata, buffers, "f")
    else:
        assert buffer_of(metadata, buffers, "f") == expected


SUMMARIES = st.none() | st.builds(
    PageSummary,
    st.none() | st.integers(0, 2**40),
    st.none() | st.integers(0, 2**40),
    st.none() | st.binary(max_size=70),
    st.none() | st.binary(max_size=70),
)


@settings(deadline=None)  # the machine may be busy
@given(st.lists(SUMMARIES, max_size=40))
def test_the_stream_is_the_one_that_arrow_writes(summaries: list[PageSummary | None]) -> None:
    pages = [PageEntry(7 * number, 7, each, 2**32 - 1 - number) for number, each in enumerate(summaries)]
    data = to_buffer({0: pages})
    (batch,) = from_buffer(data, "f").table.to_batches() or [None]
    assert batch is None or bytes(data) == seal(batch)
    with pa.ipc.open_stream(data.slice(0, data.size - 4)) as stream:
        found = stream.read_all().to_pydict()
    known = [each or PageSummary(None, None, None, None) for each in summaries]
    assert found["min"] == [each.least for each in known]
    assert found["null_count"] == [each.null_count for each in known]
    assert found["crc32c"] == [page.crc32c for page in pages]


WORDS = [t for t in ORDERED if pa.types.is_integer(t) or pa.types.is_temporal(t)]


@each_case("shape", ["around zero", "small", "runs", "nulls"])
@each_case("data_type", WORDS)
def test_bounds_that_the_encoder_finds_are_those_of_the_values(
    tmp_path: Path, data_type: pa.DataType, shape: str
) -> None:
    """T26: a wrong bound would prune rows that pass."""
    rng = np.random.default_rng(5)
    bits = data_type.bit_width
    low = -(1 << bits - 1) if pa.types.is_signed_integer(data_type) or pa.types.is_temporal(data_type) else 0
    high = low + (1 << bits) - 1
    if data_type in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.date64()):
        low, high = 0, 86399  # Arrow knows what such values may be
    numbers = rng.integers(low, high, 3000, endpoint=True, dtype=np.uint64 if low == 0 else np.int64)
    if shape == "small":
        numbers = numbers // (1 << bits // 2)
    if shape == "runs":
        numbers = np.sort(numbers)[np.repeat(np.arange(30), 100)]
    mask = rng.random(3000) < 0.1 if shape == "nulls" else None
    kind = pa.from_numpy_dtype(np.dtype(f"{'u' if low == 0 else ''}int{bits}"))
    values = pa.array(numbers.astype(kind.to_pandas_dtype()), mask=mask).view(data_type)
    table = pa.table({"v": values})
    path = tmp_path / "v.lance"
    write_file(path, table.to_batches(), table.schema, "2.2", recorder=FilePageRecorder)
    file = MemoryFile("v", path.read_bytes())
    opened = open_data_file(file)
    place = buffer_of(opened.schema.metadata, opened.metadata.global_buffers, "v")
    assert place is not None
    found = from_buffer(file.read(*place), "v").column(0, data_type)
    assert found is not None
    expected = page_bounds(values)
    for name in ("null_count", "min", "max"):
        assert found[name].combine_chunks().equals(expected[name]), name
