"""Blobs as values to write, and as bytes to read, beside the reference."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lance_core
from lance_core.api import blob as blob_names
from support.runs.each_case import each_case

LIBRARIES = (lance, lance_core)
VALUES = [b"foo", None, b"", b"x" * 100, b"y" * 5000, b"last"]
KEYS = ("ids", "addresses", "indices")


def outcome(run: Callable[[], Any]) -> Any:
    """Return the result, or the built-in kind of the error."""
    try:
        return run()
    except Exception as error:
        kinds = (NotImplementedError, OverflowError, TypeError, ValueError)
        return next((kind for kind in kinds if isinstance(error, kind)), error)


def same(run: Callable[[ModuleType], Any]) -> Any:
    """Return the outcome of both libraries, which has to be the same."""
    expected, found = (outcome(lambda library=library: run(library)) for library in LIBRARIES)
    assert found == expected
    return found


def write(path: Path, *, writer: ModuleType = lance_core, **options: Any) -> tuple[Any, Any]:
    """Write blobs of every place. Return the dataset as both libraries open it."""
    limits = {"inline_size_threshold": 10, "dedicated_size_threshold": 1000}
    schema = pa.schema([pa.field("id", pa.int64()), writer.blob_field("b", **limits)])
    columns = [pa.array(range(len(VALUES))), writer.blob_array(VALUES)]
    writer.write_dataset(
        pa.table(columns, schema=schema),
        str(path),
        data_storage_version="2.2",
        max_rows_per_file=4,
        **options,
    )
    return lance.dataset(str(path)), lance_core.dataset(path)


@pytest.mark.parametrize("writer", LIBRARIES, ids=["theirs", "ours"])
def test_columns_of_blobs_are_read_by_both(tmp_path: Path, writer: ModuleType) -> None:
    reference, dataset = write(tmp_path / "d", writer=writer)
    assert dataset.to_table() == reference.to_table()
    assert dataset.to_table()["b"].combine_chunks().field("kind").to_pylist() == [0, 0, 0, 1, 2, 0]
    for opened in (reference, dataset):
        assert [data for _, data in opened.read_blobs("b", indices=range(len(VALUES)))] == VALUES
    name = b"lance-encoding:blob-inline-size-threshold"
    assert dataset.schema.field("b").metadata[name] == reference.schema.field("b").metadata[name] == b"10"


def test_a_column_is_made_of_bytes_uris_and_blobs(tmp_path: Path) -> None:
    def made(library: ModuleType) -> list[Any]:
        return library.blob_array(
            [
                b"bytes",
                bytearray(b"array"),
                memoryview(b"view"),
                None,
                "file:///some/file",
                library.Blob.from_bytes(memoryview(b"copied")),
                library.Blob.from_uri("file:///some/file", 3, 4),
                library.Blob.empty(),
            ]
        ).storage.to_pylist()

    assert same(made)[6] == {"data": None, "uri": "file:///some/file", "position": 3, "size": 4}
    assert same(lambda library: library.blob_array([]).storage.to_pylist()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"uri": ""},
        {"data": b"x", "uri": "file:///x"},
        {"data": b"x", "position": 1, "size": 1},
        {"uri": "file:///x", "position": 1},
        {"uri": "file:///x", "size": 1},
        {"uri": "file:///x", "position": 1, "size": 0},
    ],
)
def test_blobs_that_contradict_themselves_are_refused(arguments: dict[str, Any]) -> None:
    assert same(lambda library: library.Blob(**arguments)) is ValueError


def test_other_values_are_refused() -> None:
    for value in (1, [b"x"], {"data": b"x"}):
        assert same(lambda library, value=value: library.blob_array([value])) is TypeError
    assert same(lambda library: library.blob_array([""])) is ValueError
    assert same(lambda library: library.Blob.from_uri("file:///x", -1, 4)) is ValueError


@each_case("name", ["inline", "dedicated", "pack_file"])
@each_case("value", [None, 0, 1, 1 << 30, (1 << 64) - 1, 1 << 64, -1, True, 1.5, "1"])
def test_limits_of_a_field(name: str, value: Any) -> None:
    arguments = {f"{name}_size_threshold": value}
    same(lambda library: library.blob_field("b", nullable=False, **arguments).metadata)


def test_the_type_is_registered_without_the_reference(tmp_path: Path) -> None:
    """Columns keep the type through IPC and pickles. A struct of another form does not get the type."""
    code = """
import pickle, sys
import lance_core, pyarrow as pa
table = pa.table([lance_core.blob_array([b"x", None])], schema=pa.schema([lance_core.blob_field("b")]))
sink = pa.BufferOutputStream()
with pa.ipc.new_stream(sink, table.schema) as writer:
    writer.write_table(table)
again = pa.ipc.open_stream(sink.getvalue()).read_all()
assert isinstance(again["b"].chunk(0), lance_core.BlobArray), again.schema
assert pickle.loads(pickle.dumps(again)) == again == table
two = pa.struct([("data", pa.large_binary()), ("uri", pa.utf8())])
name = {"ARROW:extension:name": "lance.blob.v2", "ARROW:extension:metadata": ""}
resolved = pa.schema(pa.schema([pa.field("b", two, metadata=name)]))
assert isinstance(resolved.field("b").type, lance_core.BlobType)
for other in (pa.int64(), pa.struct([("data", pa.binary()), ("uri", pa.utf8())])):
    try:
        pa.schema(pa.schema([pa.field("b", other, metadata=name)]))
    except TypeError as error:
        assert "lance.blob.v2" in str(error)
    else:
        raise AssertionError(other)
lance_core.write_dataset(again, sys.argv[1], data_storage_version="2.2")
dataset = lance_core.dataset(sys.argv[1])
assert dataset.schema == table.schema, dataset.schema
assert dataset.read_blobs("b", indices=[0, 1]) == [(0, b"x"), (1, None)]
assert "lance" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "d")], check=True, timeout=60)


@pytest.mark.parametrize("stable", [False, True])
def test_bytes_of_chosen_rows(tmp_path: Path, stable: bool) -> None:
    reference, dataset = write(tmp_path / "d", enable_stable_row_ids=stable)
    columns = dataset.to_table(["_rowid", "_rowaddr"])
    keys = {
        "ids": columns["_rowid"].to_pylist(),
        "addresses": columns["_rowaddr"].to_pylist(),
        "indices": range(len(VALUES)),
    }
    for kind in KEYS:
        for rows in ([], [5, 3, 0, 3], [1, 2, 4]):
            wanted = {kind: [keys[kind][row] for row in rows]}
            expected = [(keys["addresses"][row], VALUES[row]) for row in rows]
            assert reference.read_blobs("b", **wanted) == expected
            assert dataset.read_blobs("b", **wanted, io_buffer_size=1024, preserve_order=False) == expected
            wanted[kind] = pa.array(wanted[kind], pa.uint64())
            assert dataset.read_blobs("b", **wanted) == expected


@pytest.mark.parametrize("stable", [False, True])
def test_rows_that_are_deleted_or_missing_are_refused(tmp_path: Path, stable: bool) -> None:
    """A result without them would not fit the keys."""
    write(tmp_path / "d", enable_stable_row_ids=stable)[1].delete("id = 2")
    opened = lance.dataset(str(tmp_path / "d")), lance_core.dataset(tmp_path / "d")
    for kind in KEYS:
        for rows in ([0, 2], [99], [9 << 32]):
            for method in ("take_blobs", "read_blobs"):
                expected, found = (
                    outcome(lambda each=each: len(getattr(each, method)("b", **{kind: rows})))  # noqa: B023
                    for each in opened
                )
                assert found == expected, (kind, rows, method)


def test_ranges_of_blobs(tmp_path: Path) -> None:
    opened = write(tmp_path / "d")

    def both(requests: list[tuple[int, int, int]], selector: str = "indices", **options: Any) -> Any:
        expected, found = (
            outcome(lambda each=each: each.read_blob_ranges("b", requests, selector=selector, **options))
            for each in opened
        )
        assert found == expected
        return found

    assert both([(3, 90, 10), (1, 0, 4), (2, 0, 0), (3, 0, 2), (5, 1, 2)]) == [
        (0, 3, b"x" * 10),
        (1, 1, None),
        (2, 2, b""),
        (3, 3, b"xx"),
        (4, (1 << 32) + 1, b"as"),
    ]
    both([(0, 1, 1), (1 << 32, 10, 4)], "addresses", preserve_order=True, io_buffer_size=100)
    both([(0, 1, 1)], "ids")
    assert both([]) == []
    for requests in ([(0, 1, 3)], [(0, 4, 0)], [(9, 0, 1)]):
        assert both(requests) is ValueError
    assert both([(0, 0, 1)], "rows") is ValueError
    assert both([(0, 0, 1)], io_buffer_size=0) is ValueError
    with pytest.raises(lance_core.InvalidInputError, match=r"request 1 for row 5: range leaves the blob"):
        opened[1].read_blob_ranges("b", [(0, 0, 1), (5, 3, 9)], selector="indices")


def test_numbers_of_bytes_are_checked(tmp_path: Path) -> None:
    opened = write(tmp_path / "d")
    for arguments in ({"buffer_size": -1}, {"buffer_size": True}, {"buffer_size": "1"}, {"buffer_size": 0}):
        expected, found = (
            outcome(lambda each=each: len(each.take_blobs("b", indices=[0], **arguments)))  # noqa: B023
            for each in opened
        )
        assert found == expected
    with pytest.raises(lance_core.InvalidInputError, match="io_buffer_size must be greater than 0"):
        opened[1].read_blobs("b", indices=[0], io_buffer_size=0)


@pytest.mark.parametrize("buffer_size", [0, 7, 512 << 10])
def test_a_blob_is_a_buffered_file(tmp_path: Path, buffer_size: int) -> None:
    text = "".join(f"line {number}\n" for number in range(500)).encode()
    table = pa.table([lance_core.blob_array([text])], schema=pa.schema([lance_core.blob_field("b")]))
    lance_core.write_dataset(table, tmp_path / "d", data_storage_version="2.2")

    def opened() -> blob_names.BlobFile:
        (file,) = lance_core.dataset(tmp_path / "d").take_blobs("b", indices=[0], buffer_size=buffer_size)
        assert file is not None
        return file

    with opened() as file:
        assert file.read(3) == text[:3]
        assert file.read1(2) == text[3:5]
        into = np.zeros(6, np.uint8)
        assert file.readinto(into) == 6
        assert into.tobytes() == text[5:11]
        assert file.seek(2) == 2
        assert file.read(9) == text[2:11]
        assert file.seek(-4, io.SEEK_END) == len(text) - 4
        assert file.read(9) == text[-4:]
        assert file.seek(9, io.SEEK_END) == len(text) + 9
        assert file.read(1) == file.read() == b""
        assert file.seek(0) == 0
        assert file.readlines() == text.splitlines(keepends=True)
        with pytest.raises(TypeError, match="writable"):
            file.readinto(b"abc")
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"abc")
        with pytest.raises(TypeError):
            pickle.dumps(file)
    for use in (file.tell, file.read, lambda: file.seek(0), lambda: file.read_range(0, 1)):
        with pytest.raises(ValueError, match="closed"):
            use()
    assert file.size() == len(text)
    assert io.TextIOWrapper(opened()).read() == text.decode()


def test_small_reads_share_reads_of_the_storage(tmp_path: Path) -> None:
    write(tmp_path / "d")
    (file,) = lance_core.dataset(tmp_path / "d").take_blobs("b", indices=[4])
    assert file is not None
    assert file.read(1) == b"y"
    for side_file in (tmp_path / "d" / "data").glob("*/*.blob"):
        side_file.write_bytes(b"")
    assert file.read() == VALUES[4][1:]


def test_binary_columns_as_files() -> None:
    for data_type in (pa.binary(), pa.large_binary()):
        values = pa.chunked_array([pa.array([b"foo", None], data_type), pa.array([b""], data_type)])
        found = list(lance_core.BlobColumn(values))
        assert [file and file.read() for file in found] == [b"foo", None, b""]
    for other in (pa.array([1]), pa.array(["text"]), [b"list"]):
        assert same(lambda library, other=other: library.BlobColumn(other)) is ValueError


def nested_dataset(path: Path, version: str) -> tuple[Any, Any]:
    """Write blobs at the top and below structs. Return the dataset as both libraries open it."""
    image = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    below = pa.struct([pa.field("name", pa.string()), image])
    rows = [{"name": "a", "blob": b"foo"}, {"name": "b", "blob": None}, {"name": "c", "blob": b""}, None]
    if version == "2.0":  # 2.0 files keep no validity of structs
        rows[3] = {"name": None, "blob": None}
    table = pa.table(
        [pa.array(range(4)), pa.array([b"1", b"2", None, b""], pa.large_binary()), pa.array(rows, below)],
        schema=pa.schema([pa.field("id", pa.int64()), image, pa.field("info", below)]),
    )
    lance.write_dataset(table, str(path), data_storage_version=version, max_rows_per_file=3)
    return lance.dataset(str(path)), lance_core.dataset(path)


def plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame with the bytes of blob files."""

    def value(each: Any) -> Any:
        if isinstance(each, dict):
            return {name: value(inner) for name, inner in each.items()}
        return ("file", each.readall()) if hasattr(each, "readall") else each

    return [{name: value(each) for name, each in row.items()} for row in frame.to_dict("records")]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("blob_mode", ["lazy", "bytes", "descriptions"])
def test_frames_have_files_bytes_or_descriptors(tmp_path: Path, version: str, blob_mode: str) -> None:
    reference, dataset = nested_dataset(tmp_path / "d", version)
    for arguments in (
        {},
        {"columns": ["id"]},
        {"columns": ["blob"]},
        {"columns": ["info", "blob", "id"], "with_row_id": True, "with_row_address": True},
        {"columns": {"x": "blob", "y": "id + 1", "z": "info"}},
        {"columns": {"x": "info.blob"}},
        {"columns": ["id", "blob"], "filter": "id > 0", "limit": 2, "offset": 1, "batch_size": 1},
        {"columns": ["id", "blob"], "filter": "id > 10"},
    ):
        expected = reference.to_pandas(**arguments, blob_mode=blob_mode)
        rows = plain(expected)
        for found in (
            dataset.to_pandas(**arguments, blob_mode=blob_mode),
            dataset.scanner(**arguments).to_pandas(blob_mode=blob_mode),
        ):
            assert list(found.columns) == list(expected.columns)
            assert plain(found) == rows, arguments
        found, expected = (
            each.get_fragments()[0].to_pandas(columns=["info", "blob"], blob_mode=blob_mode)
            for each in (dataset, reference)
        )
        assert plain(found) == plain(expected)
    (projected,) = dataset.to_pandas(columns=["info.blob"], filter="id = 0", blob_mode="lazy")["info.blob"]
    assert projected.readall() == b"foo"


def test_frames_of_scans_with_bytes_have_bytes(tmp_path: Path) -> None:
    for opened in nested_dataset(tmp_path / "d", "2.2"):
        frame = opened.scanner(["blob"], blob_handling="all_binary").to_pandas()
        assert frame["blob"].tolist() == [b"1", b"2", None, b""]


def test_other_arguments_of_frames_go_to_arrow(tmp_path: Path) -> None:
    _, dataset = nested_dataset(tmp_path / "d", "2.2")
    frame = dataset.to_pandas(columns=["id", "blob"], types_mapper=pd.ArrowDtype)
    assert frame.dtypes["id"] == pd.ArrowDtype(pa.int64())
    assert frame["blob"][0].read() == b"1"
    with pytest.raises(TypeError, match="no_such_argument"):
        dataset.to_pandas(no_such_argument=1)
    with pytest.raises(lance_core.InvalidInputError, match="blob_mode must be one of lazy, bytes"):
        dataset.to_pandas(blob_mode="inline")
