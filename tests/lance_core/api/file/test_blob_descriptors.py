"""Blobs that are stored before the data file that describes them: written by both libraries, read by both."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import lance.file
import pyarrow as pa
import pytest

import lance_core
from lance_core.api import file as ours
from lance_core.errors import InvalidInputError, UnsupportedFeatureError

LIBRARIES = pytest.mark.parametrize("library", [lance_core, lance], ids=["ours", "reference"])
VALUES = [b"packed", b"", None, b"inline", b"a dedicated value", b"from an array", None]


def session(library: ModuleType, path: Path) -> Any:
    files = ours if library is lance_core else lance.file
    return files.LanceFileSession(str(path / "data"))


def new_dataset(path: Path, num_rows: int = len(VALUES)) -> Any:
    schema = pa.schema([pa.field("id", pa.int32()), lance_core.blob_field("blob")])
    columns = [pa.array(range(num_rows), pa.int32()), lance_core.blob_array([b"old"] * num_rows)]
    return lance_core.write_dataset(pa.table(columns, schema=schema), path, data_storage_version="2.2")


def describe(library: ModuleType, files: Any, name: str) -> tuple[pa.Field, pa.StructArray]:
    """Write `VALUES` to side files. Return the column of their descriptors."""
    packed = files.open_packed_blob_writer(name, 1)
    packed.write_blob(b"packed")
    packed.write_blob(bytearray(b""))
    column = library.BlobDescriptorArrayBuilder("blob")
    column.extend(packed.finish())
    column.append_null()
    column.append_inline(b"inline")
    dedicated = files.open_dedicated_blob_writer(name, 2)
    dedicated.write(b"a dedicated ")
    dedicated.write(memoryview(b"value"))
    column.append(dedicated.finish())
    more = files.open_packed_blob_writer(name, 3)
    more.write_blobs(pa.chunked_array([pa.array([b"from an array"]), pa.array([None], pa.binary())]))
    column.extend(more.finish())
    return column.field, column.finish()


def write_file(files: Any, name: str, field: pa.Field, column: pa.Array) -> None:
    schema = pa.schema([pa.field("id", pa.int32()), field])
    ids = pa.array(range(100, 100 + len(column)), pa.int32())
    with files.open_writer(name, schema=schema, version="2.2") as writer:
        writer.write_batch(pa.record_batch([ids, column], schema=schema))


def replace_rows(library: ModuleType, path: Path, name: str) -> None:
    """Commit a data file in place of that of the only fragment."""
    dataset = library.dataset(str(path))
    file = (library if library is lance_core else lance.fragment).DataFile.create(dataset, name)
    group = library.LanceOperation.DataReplacementGroup(0, file)
    change = library.LanceOperation.DataReplacement([group])
    library.LanceDataset.commit(dataset.uri, change, read_version=dataset.version)


def read(library: ModuleType, path: Path) -> list[bytes | None]:
    dataset = library.dataset(str(path))
    found = dataset.take_blobs("blob", indices=list(range(dataset.count_rows())))
    return [None if blob is None else blob.readall() for blob in found]


@pytest.mark.parametrize("committer", [lance_core, lance], ids=["by us", "by the reference"])
@LIBRARIES
def test_described_blobs_replace_a_column(library: ModuleType, committer: ModuleType, tmp_path: Path) -> None:
    new_dataset(tmp_path)
    files = session(library, tmp_path)
    write_file(files, "new.lance", *describe(library, files, "new.lance"))
    replace_rows(committer, tmp_path, "new.lance")
    assert read(lance_core, tmp_path) == read(lance, tmp_path) == VALUES
    tables = [each.dataset(str(tmp_path)).to_table() for each in (lance_core, lance)]
    assert tables[0].to_pylist() == tables[1].to_pylist()
    lance_core.dataset(tmp_path).validate()
    lance_core.dataset(tmp_path).optimize.compact_files(target_rows_per_fragment=1000)
    assert read(lance, tmp_path) == VALUES


@LIBRARIES
def test_columns_of_descriptors_are_those_of_the_reference(library: ModuleType, tmp_path: Path) -> None:
    field, column = describe(library, session(library, tmp_path), "a.lance")
    assert field == describe(lance, session(lance, tmp_path), "b.lance")[0]
    assert field.metadata == {b"ARROW:extension:name": b"lance.blob.v2"}
    assert column.to_pylist()[0] == {
        "kind": 1,
        "data": None,
        "uri": None,
        "blob_id": 1,
        "blob_size": 6,
        "position": 0,
    }
    assert column.to_pylist() == describe(lance, session(lance, tmp_path), "c.lance")[1].to_pylist()
    builder = library.BlobDescriptorArrayBuilder("blob")
    builder.append_dedicated(7, 100)
    builder.extend_packed(1, [0, 3], [3, 4])
    rows = [
        (row["kind"], row["blob_id"], row["blob_size"], row["position"])
        for row in builder.finish().to_pylist()
    ]
    assert rows == [(2, 7, 100, None), (1, 1, 3, 0), (1, 1, 4, 3)]
    writer = session(library, tmp_path).open_packed_blob_writer("d.lance", 5)
    assert writer.path.endswith("data/d/10100000000000000000000000000000.blob")
    writer.write_blob(b"x")
    array = writer.finish_array("named")
    assert (writer.field.name, array.type) == ("named", writer.field.type)


@LIBRARIES
def test_files_with_blobs_are_read_without_their_dataset(library: ModuleType, tmp_path: Path) -> None:
    """The reference writes members of descriptors without ids into the schema of a file."""
    schema = pa.schema([pa.field("s", pa.struct([library.blob_field("blob")])), pa.field("after", pa.int8())])
    rows = [{"s": {"blob": b"x"}, "after": 1}, {"s": {"blob": None}, "after": 2}]
    blobs = pa.StructArray.from_arrays(
        [library.blob_array([b"x", None])], fields=list(schema.field("s").type)
    )
    table = pa.table([blobs, pa.array([1, 2], pa.int8())], schema=schema)
    library.write_dataset(table, str(tmp_path / "d"), data_storage_version="2.2")
    (file,) = (tmp_path / "d" / "data").glob("*.lance")
    reader = ours.LanceFileReader(str(file))
    assert reader.read_all().to_table().to_pylist() == rows
    assert reader.metadata().schema.names == ["s", "after"]


def test_side_files_appear_when_they_are_complete(tmp_path: Path) -> None:
    files = session(lance_core, tmp_path)
    writer = files.open_packed_blob_writer("a.lance", 1)
    writer.write_blob(b"x")
    side_files = tmp_path / "data" / "a"
    assert not list(side_files.glob("*.blob"))
    writer.finish()
    assert [file.read_bytes() for file in side_files.glob("*.blob")] == [b"x"]
    lost = files.open_packed_blob_writer("b.lance", 1)
    lost.write_blob(b"x")
    del lost
    assert not list((tmp_path / "data" / "b").iterdir())
    assert files.open_packed_blob_writer("c.lance", 1).finish() == []
    assert not (tmp_path / "data" / "c").exists()
    assert files.open_dedicated_blob_writer("d.lance", 1).finish().size == 0
    assert len(list((tmp_path / "data" / "d").iterdir())) == 1


def test_mistakes_are_refused(tmp_path: Path) -> None:
    files = session(lance_core, tmp_path)
    for path, number, text in (
        ("a", 1, "ends with .lance"),
        ("../a.lance", 1, "leaves the directory"),
        ("a.lance", 0, "blob_id"),
        ("a.lance", 1 << 32, "blob_id"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            files.open_packed_blob_writer(path, number)
    writer = files.open_packed_blob_writer("a.lance", 1)
    with pytest.raises(InvalidInputError, match="after finish_array"):
        _ = writer.field
    for value in ("text", None, 3):
        with pytest.raises(TypeError):
            writer.write_blob(value)
    for values in ([b"x"], pa.array(["x"])):
        with pytest.raises(InvalidInputError, match="array of binaries"):
            writer.write_blobs(values)
    writer.finish()
    for call in (
        writer.finish,
        lambda: writer.write_blob(b"x"),
        lambda: writer.write_blobs(pa.array([b"x"])),
    ):
        with pytest.raises(InvalidInputError, match="already finished"):
            call()
    builder = lance_core.BlobDescriptorArrayBuilder("b")
    with pytest.raises(InvalidInputError, match="same length"):
        builder.extend_packed(1, [0, 3], [3])
    with pytest.raises(InvalidInputError, match="offset"):
        builder.extend_packed(1, [-1], [3])
    with pytest.raises(TypeError, match="BlobDescriptor"):
        builder.append(b"x")
    with pytest.raises(UnsupportedFeatureError, match="append_managed"):
        builder.append_managed("uri", 0, 1)
    builder.finish()
    with pytest.raises(InvalidInputError, match="already finished"):
        builder.append_null()


def test_datasets_take_no_descriptors_as_rows(tmp_path: Path) -> None:
    """Rows with descriptors would name side files that the dataset does not have."""
    dataset = new_dataset(tmp_path / "d")
    files = session(lance_core, tmp_path)
    field, column = describe(lance_core, files, "a.lance")
    schema = pa.schema([pa.field("id", pa.int32()), field])
    table = pa.table([pa.array(range(len(column)), pa.int32()), column], schema=schema)
    with pytest.raises(UnsupportedFeatureError):
        dataset.insert(table)
    with pytest.raises(UnsupportedFeatureError, match="descriptors of stored blobs"):
        lance_core.write_dataset(table, tmp_path / "e", data_storage_version="2.2")
    for row in (
        {"kind": 3, "uri": "file:///etc/passwd"},
        {"kind": 1, "blob_id": 1},
        {"kind": 0},
        {"kind": None, "data": b"x"},
    ):
        wrong = pa.array([row], field.type)
        with pytest.raises(InvalidInputError, match="descriptor of a blob"):
            write_file(files, "b.lance", field, wrong)
