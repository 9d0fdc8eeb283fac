"""Single data files: written and read by both libraries, with the results of the reference."""

from __future__ import annotations

import itertools
import re
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import lance.file
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.api import file as ours
from lance_core.errors import (
    CorruptFileError,
    FileMissingError,
    InvalidInputError,
    StorageError,
    UnsupportedFeatureError,
)
from support.runs.each_case import each_case

VERSIONS = ["2.0", "2.1", "2.2"]
FIELD = pa.field("l", pa.list_(pa.field("weird", pa.int16(), metadata={"of": "item"})), metadata={"a": "b"})
ROWS = 5000
TABLE = pa.table(
    [
        pa.array(range(ROWS)),
        pa.array([{"x": n, "y": str(n)} for n in range(ROWS)]),
        pa.array([[n % 7] * (n % 4) if n % 5 else None for n in range(ROWS)], FIELD.type),
        pa.array([f"{n % 3}" for n in range(ROWS)]).dictionary_encode(),
    ],
    schema=pa.schema(
        [
            pa.field("a", pa.int64()),
            pa.field("s", pa.struct([("x", pa.int64()), ("y", pa.string())])),
            FIELD,
            pa.field("d", pa.dictionary(pa.int32(), pa.string())),
        ],
        {"k": "v"},
    ),
)


def write(library: ModuleType, path: Path | str, table: pa.Table = TABLE, **arguments: Any) -> str:
    """Write a table as one file. Return its path."""
    with library.LanceFileWriter(str(path), **arguments) as writer:
        writer.write_batch(table)
    return str(path)


def outcome(reader: Any, read: str, *arguments: Any, **named: Any) -> Any:
    """Return the sizes of the batches and the rows of a read, or that it raises a ValueError."""
    try:
        batches = list(getattr(reader, read)(*arguments, **named).to_batches())
    except (ValueError, OverflowError):
        return ValueError
    return [len(batch) for batch in batches if len(batch)], [row for b in batches for row in b.to_pylist()]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("writer", [ours, lance.file], ids=["ours", "reference"])
def test_files_are_read_by_both(tmp_path: Path, writer: ModuleType, version: str) -> None:
    path = write(writer, tmp_path / "f.lance", version=version)
    read = ours.LanceFileReader(path)
    assert read.read_all().to_table().equals(TABLE, check_metadata=True)
    theirs = lance.file.LanceFileReader(path)
    assert theirs.read_all().to_table().equals(TABLE)

    mine, expected = read.metadata(), theirs.metadata()
    assert mine.schema.equals(TABLE.schema, check_metadata=True)
    for name in (
        "num_rows",
        "major_version",
        "minor_version",
        "num_data_bytes",
        "num_column_metadata_bytes",
        "num_global_buffer_bytes",
    ):
        assert getattr(mine, name) == getattr(expected, name), name
    places = [
        [
            [[(buffer.position, buffer.size) for buffer in page.buffers] for page in column.pages]
            for column in described.columns
        ]
        for described in (mine, expected)
    ]
    assert places[0] == places[1]
    messages = [
        [re.findall(r"(\w+) \{", page.encoding) for column in described.columns for page in column.pages]
        for described in (mine, expected)
    ]
    assert messages[0] == messages[1]
    assert [(each.num_pages, each.size_bytes) for each in read.file_statistics().columns] == [
        (each.num_pages, each.size_bytes) for each in theirs.file_statistics().columns
    ]
    assert read.read_global_buffer(0) == theirs.read_global_buffer(0)


READS: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("read_all", [], {}),
    ("read_all", [], {"batch_size": 3000}),
    ("read_range", [10, 20], {"batch_size": 7}),
    ("read_range", [0, 0], {}),
    ("read_range", [ROWS - 5, 5], {}),
    ("read_range", [ROWS - 5, 6], {}),
    ("read_range", [ROWS + 1, 1], {}),
    ("read_range", [-1, 1], {}),
    ("take_rows", [[0, 77, 4999]], {}),
    ("take_rows", [np.arange(0, 100, 2)], {"batch_size": 20}),
    ("take_rows", [[]], {}),
    ("take_rows", [[3, 1]], {}),
    ("take_rows", [[1, 1]], {}),
    ("take_rows", [[0, ROWS]], {}),
    ("take_rows", [[-1]], {}),
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(ours, tmp_path_factory.mktemp("files") / "f.lance")


@each_case(("read", "arguments", "named"), READS)
def test_reads_are_those_of_the_reference(
    stored: str, read: str, arguments: list[Any], named: dict[str, Any]
) -> None:
    expected = outcome(lance.file.LanceFileReader(stored), read, *arguments, **named)
    assert outcome(ours.LanceFileReader(stored), read, *arguments, **named) == expected


@pytest.mark.parametrize(
    "columns", [["a"], ["l", "a"], ["s.x"], ["s.y", "s.x"], ["a", "a"], ["s.x", "s"], ["d", "s.y"]], ids=str
)
def test_columns_are_those_of_the_reference(stored: str, columns: list[str]) -> None:
    mine = ours.LanceFileReader(stored, columns=columns)
    expected = lance.file.LanceFileReader(stored, columns=columns).read_all().to_table()
    assert mine.read_all().to_table().equals(expected.replace_schema_metadata(TABLE.schema.metadata))
    assert mine.take_rows([1, 4]).to_table().equals(expected.take([1, 4]))


def test_columns_that_files_lack_are_refused(stored: str) -> None:
    for columns in (["nope"], ["s.z"], ["A"], []):
        with pytest.raises(InvalidInputError):
            ours.LanceFileReader(stored, columns=columns)


@pytest.mark.parametrize("version", VERSIONS)
def test_global_buffers_and_metadata_are_read_by_both(tmp_path: Path, version: str) -> None:
    path = str(tmp_path / "f")
    with ours.LanceFileWriter(path, version=version) as writer:
        assert writer.add_global_buffer(b"one") == 1
        writer.add_schema_metadata("early", "1")
        writer.write_batch(TABLE)
        assert writer.add_global_buffer(b"") == 2
        assert writer.add_global_buffer(b"three") == 3
        writer.add_schema_metadata("k", "w")
        assert writer.close() == ROWS
    assert writer.close() is None
    assert writer.size_bytes == Path(path).stat().st_size
    for library in (ours, lance.file):
        reader = library.LanceFileReader(path)
        assert [bytes(reader.read_global_buffer(number)) for number in (1, 2, 3)] == [b"one", b"", b"three"]
        metadata = reader.metadata().schema.metadata
        assert (metadata[b"k"], metadata[b"early"]) == (b"w", b"1")
        with pytest.raises(ValueError, match="global buffer"):
            reader.read_global_buffer(99)
    with pytest.raises(InvalidInputError, match="closed"):
        writer.write_batch(TABLE)


def test_blobs_are_read_as_values(tmp_path: Path) -> None:
    values = [b"x" * 100, None, b"", b"y" * 300_000]
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table([pa.array(values, pa.large_binary())], schema=pa.schema([field]))
    for writer, version in itertools.product((ours, lance.file), VERSIONS):
        path = write(writer, tmp_path / "f", table, version=version)
        for library in (ours, lance.file):
            reader = library.LanceFileReader(path)
            assert reader.read_all().to_table()["b"].to_pylist() == values, (writer, version)
            assert reader.take_rows([1, 3]).to_table()["b"].to_pylist() == [None, values[3]]
        assert len(reader.metadata().columns[0].pages) == 1


def test_files_of_datasets_are_read(tmp_path: Path) -> None:
    """Rows that a deletion file removed are in the file, since a file knows no deletions."""
    dataset = lance_core.write_dataset(TABLE, str(tmp_path / "t"))
    dataset.delete("a < 10")
    (file,) = dataset.get_fragments()[0].data_files()
    for reader in (
        ours.LanceFileReader(tmp_path / "t" / "data" / file.path),
        dataset.new_file_session().open_reader(f"data/{file.path}"),
    ):
        assert reader.num_rows() == ROWS
        assert reader.read_range(0, 3).to_table()["a"].to_pylist() == [0, 1, 2]


def test_batches_are_matched_with_the_schema_by_name(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with ours.LanceFileWriter(path, pa.schema([("a", pa.int64()), ("b", pa.string())])) as writer:
        writer.write_batch(pa.table({"c": [0], "b": ["x"], "a": [1]}))
        for rows in ({"a": [1]}, {"a": ["1"], "b": ["x"]}):
            with pytest.raises(InvalidInputError):
                writer.write_batch(pa.table(rows))
        writer.write_batch(pa.record_batch({"a": [2], "b": [None]}, pa.schema({"a": "int64", "b": "string"})))
    expected = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert lance.file.LanceFileReader(str(path)).read_all().to_table().to_pylist() == expected


def test_required_columns_take_no_nulls(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    writer = ours.LanceFileWriter(tmp_path / "f", schema)
    with pytest.raises(InvalidInputError, match="null"):
        writer.write_batch(pa.table({"a": pa.array([None], pa.int64())}))


def test_a_file_appears_complete_or_never(tmp_path: Path) -> None:
    """T35: an older file stays until the new one is complete."""
    path = write(ours, tmp_path / "f", pa.table({"a": [1]}))
    writer = ours.LanceFileWriter(path)
    writer.write_batch(pa.table({"a": [2]}))
    assert ours.LanceFileReader(path).read_all().to_table().to_pylist() == [{"a": 1}]
    del writer
    with pytest.raises(TypeError), ours.LanceFileWriter(path) as writer:
        writer.write_batch([pa.table({"a": [3]})])
    assert ours.LanceFileReader(path).read_all().to_table().to_pylist() == [{"a": 1}]
    open_reader = ours.LanceFileReader(path)
    write(ours, path, pa.table({"a": [4]}))
    assert open_reader.read_all().to_table().to_pylist() == [{"a": 1}]
    assert ours.LanceFileReader(path).read_all().to_table().to_pylist() == [{"a": 4}]
    assert [file.name for file in tmp_path.iterdir()] == ["f"]
    with pytest.raises(ValueError, match="Schema is unknown"), ours.LanceFileWriter(tmp_path / "g"):
        pass
    with ours.LanceFileWriter(tmp_path / "h", TABLE.schema):
        pass
    assert lance.file.LanceFileReader(str(tmp_path / "h")).num_rows() == 0
    assert ours.LanceFileReader(tmp_path / "h").read_all().to_table().equals(TABLE.slice(0, 0))


def test_threads_share_a_writer(tmp_path: Path) -> None:
    with ours.LanceFileWriter(tmp_path / "f", pa.schema([("a", pa.int64())])) as writer:

        def append(number: int) -> None:
            for _ in range(20):
                writer.write_batch(pa.table({"a": [number] * 50}))

        threads = [threading.Thread(target=append, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    values = ours.LanceFileReader(tmp_path / "f").read_all().to_table()["a"].to_numpy().reshape(-1, 50)
    assert (values == values[:, :1]).all()
    assert np.bincount(values[:, 0]).tolist() == [20] * 4


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileMissingError):
        ours.LanceFileReader(tmp_path / "none")
    for content in (b"", b"x" * 100):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(CorruptFileError):
            ours.LanceFileReader(tmp_path / "bad")
    old = lance_core.write_dataset(TABLE.select(["a"]), str(tmp_path / "t"), data_storage_version="legacy")
    (file,) = old.get_fragments()[0].data_files()
    with pytest.raises(UnsupportedFeatureError, match=r"0\.1"):
        ours.LanceFileReader(tmp_path / "t" / "data" / file.path)


def test_other_arguments_are_refused(tmp_path: Path) -> None:
    assert ours.stable_version() == lance.file.stable_version()
    for version in ("legacy", "2.3"):
        with pytest.raises(UnsupportedFeatureError):
            ours.LanceFileWriter(tmp_path / "f", version=version)
    with pytest.raises(InvalidInputError, match="version"):
        ours.LanceFileWriter(tmp_path / "f", version="9")
    with pytest.raises(InvalidInputError, match="max_page_bytes"):
        ours.LanceFileWriter(tmp_path / "f", max_page_bytes=0)
    with pytest.raises(UnsupportedFeatureError, match="table_id"):
        ours.LanceFileReader(tmp_path / "f", table_id=["t"])
    with pytest.raises(InvalidInputError, match="path"):
        ours.LanceFileWriter("")


@pytest.mark.parametrize("version", VERSIONS)
def test_page_sizes(tmp_path: Path, version: str) -> None:
    """All columns share the bytes that may wait."""
    table = pa.table({"a": np.random.default_rng(1).integers(0, 1 << 60, 100_000), "b": range(100_000)})
    pages = {}
    cases: dict[str, Any] = {
        "none": {},
        "page": {"max_page_bytes": 1 << 17},
        "cache": {"data_cache_bytes": 1 << 18},
    }
    for name, arguments in cases.items():
        with ours.LanceFileWriter(tmp_path / "f", version=version, **arguments) as writer:
            writer.write_batch(table)
        reader = ours.LanceFileReader(tmp_path / "f")
        pages[name] = len(reader.metadata().columns[0].pages)
        assert reader.read_all().to_table().equals(table)
    assert pages["none"] == 1
    assert pages["page"] == pages["cache"] >= 4


@pytest.mark.parametrize("library", [ours, lance.file], ids=["ours", "reference"])
def test_a_session_lists_copies_and_removes_files(tmp_path: Path, library: ModuleType) -> None:
    session = library.LanceFileSession(str(tmp_path / "base"))
    assert session.list() == []
    for name in ("a.lance", "sub/b.lance", "sub/deep/c.lance"):
        with session.open_writer(name) as writer:
            writer.write_batch(pa.table({"a": [1]}))
    assert sorted(session.list()) == ["a.lance", "sub/b.lance", "sub/deep/c.lance"]
    assert sorted(session.list("sub/")) == ["sub/b.lance", "sub/deep/c.lance"]
    assert session.list("none") == []
    for path in ("sub", "sub/"):
        found = session.list_with_delimiter(path)
        assert (found.common_prefixes, found.objects) == (["sub/deep"], ["sub/b.lance"])
    top = session.list_with_delimiter()
    assert (top.common_prefixes, top.objects) == (["sub"], ["a.lance"])
    assert session.list_with_delimiter("none") == type(top)([], [])
    assert session.open_reader("sub/b.lance", columns=["a"]).read_all().to_table().num_rows == 1
    assert session.contains("sub/b.lance")
    assert not session.contains("sub")
    session.delete_file("a.lance")
    assert not session.contains("a.lance")

    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(bytes(range(256)) * 40_000)
    for _ in range(2):
        session.upload_file(source, "copies/x")
    session.download_file("copies/x", str(target))
    assert target.read_bytes() == source.read_bytes()
    assert session.read_range("copies/x", 254, 4) == b"\xfe\xff\x00\x01"
    assert session.read_range("copies/x", 7, 0) == b""
    failing: dict[str, Any] = {
        "read": lambda: session.read_range("none", 0, 1),
        "read too far": lambda: session.read_range("copies/x", 0, 1 << 30),
        "delete": lambda: session.delete_file("none"),
        "download": lambda: session.download_file("none", target),
        "download to nowhere": lambda: session.download_file("copies/x", tmp_path / "no" / "x"),
        "upload": lambda: session.upload_file(tmp_path / "none", "x"),
    }
    for call in failing.values():
        with pytest.raises(OSError):  # noqa: PT011, the messages differ
            call()


def test_a_session_stays_in_its_directory(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"x")
    session = ours.LanceFileSession(tmp_path / "base")
    for call in (session.contains, session.delete_file, session.open_reader, session.list):
        with pytest.raises(InvalidInputError, match="leaves"):
            call("../outside")
    assert session.list() == []


def test_a_copy_that_fails_says_which_file_is_to_blame(tmp_path: Path) -> None:
    """Errors of the session's own file are not taken for errors of the local file, which is no path of it."""
    (tmp_path / "local").write_bytes(b"x")
    session = ours.LanceFileSession(tmp_path / "base")
    session.upload_file(tmp_path / "local", "x")
    for copy in (
        lambda: session.upload_file(tmp_path / "local", "a/../../outside"),
        lambda: session.download_file("../local", tmp_path / "copy"),
    ):
        with pytest.raises(InvalidInputError, match="leaves"):
            copy()
    with pytest.raises(StorageError, match="local file cannot be read: No such file"):
        session.upload_file(tmp_path / "none", "x")
    with pytest.raises(StorageError, match="local file cannot be written: No such file"):
        session.download_file("x", tmp_path / "no" / "x")


@pytest.mark.parametrize("writer", [ours, lance.file], ids=["ours", "reference"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_written_file_replaces_a_column(tmp_path: Path, writer: ModuleType, version: str) -> None:
    path = str(tmp_path / "t")
    data = pa.table({"a": [1, 2], "s": [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}], "l": [[1], [2, 3]]})
    lance_core.write_dataset(data.select(["a"]), path, data_storage_version=version)
    dataset = lance_core.dataset(path)
    dataset.add_columns(data.select(["s", "l"]))
    new = pa.table({"s": [{"x": 7, "y": "c"}, {"x": 8, "y": "d"}], "l": [[5], []]})
    for name, columns in (("other.lance", ["l", "s"]), ("new.lance", ["s", "l"])):
        write(writer, f"{path}/data/{name}", new.select(columns), version=version)
        file = lance_core.DataFile.create(dataset, name)
        assert vars(file) == vars_of(lance.fragment.DataFile.create(lance.dataset(path), name))
    operation = lance_core.LanceOperation.DataReplacement(
        [lance_core.LanceOperation.DataReplacementGroup(0, file)]
    )
    changed = lance_core.LanceDataset.commit(path, operation, read_version=dataset.version)
    expected = data.set_column(1, "s", new["s"]).set_column(2, "l", new["l"]).to_pylist()
    assert changed.to_table().to_pylist() == lance.dataset(path).to_table().to_pylist() == expected


def vars_of(file: Any) -> dict[str, Any]:
    """Return the attributes of the reference's data file."""
    names = ("path", "fields", "column_indices", "file_major_version", "file_minor_version")
    return {name: getattr(file, name) for name in (*names, "file_size_bytes", "base_id")}


def test_files_that_do_not_fit_a_table_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    dataset = lance_core.write_dataset(pa.table({"a": [1], "s": [{"x": 1, "y": 2}]}), path)
    for table, message in (
        (pa.table({"z": [1]}), "z"),
        (pa.table({"a": ["1"]}), "another type"),
        (pa.table({"s": [{"x": 1}]}), "lacks fields"),
        (pa.table({"s": [{"x": 1, "y": 2, "z": 3}]}), r"s\.z"),
    ):
        write(ours, f"{path}/data/f.lance", table)
        with pytest.raises(InvalidInputError, match=message):
            lance_core.DataFile.create(dataset, "f.lance")
    with pytest.raises(FileMissingError):
        lance_core.DataFile.create(dataset, "none.lance")
    with pytest.raises(InvalidInputError, match="base_id"):
        lance_core.DataFile.create(dataset, "f.lance", base_id=7)
    with pytest.raises(InvalidInputError, match="path"):
        lance_core.DataFile.create(dataset, "../f.lance")


def test_single_files_may_have_the_names_of_computed_columns(tmp_path: Path) -> None:
    table = pa.table({"_rowid": pa.array([3, 5], pa.uint64()), "_rowaddr": pa.array([1, 2], pa.uint64())})
    for writer, reader in ((ours, lance.file), (lance.file, ours)):
        path = write(writer, tmp_path / writer.__name__, table, schema=table.schema)
        assert reader.LanceFileReader(path).read_all().to_table().to_pydict() == table.to_pydict()
