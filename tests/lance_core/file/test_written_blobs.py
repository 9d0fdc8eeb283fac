"""Blob columns of files written here."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import LanceError, UnsupportedFeatureError
from lance_core.statistics.file_checksums import verify_file
from lance_core.storage.memory import MemoryFile

_SOURCE = np.random.default_rng(3)
VALUES = [b"abc", None, b"", _SOURCE.bytes(100_000), b"zz", None, _SOURCE.bytes(70_000), b"last"]
BLOB = {"lance-encoding:blob": "true"}


def write_blobs(path: Path) -> pa.Table:
    inside = pa.StructArray.from_arrays(
        [pa.array(VALUES, pa.large_binary())],
        fields=[pa.field("image", pa.large_binary(), metadata=BLOB)],
        mask=pa.array([row in (2, 7) for row in range(len(VALUES))]),
    )
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("image", pa.large_binary(), metadata=BLOB),
            pa.field("s", inside.type),
        ]
    )
    columns = [pa.array(range(len(VALUES))), pa.array(VALUES, pa.large_binary()), inside]
    table = pa.Table.from_arrays(columns, schema=schema)
    lance_core.write_dataset(table, str(path), data_storage_version="2.1")
    return table


def test_blobs_are_found_by_their_descriptors(tmp_path: Path) -> None:
    path = tmp_path / "blobs.lance"
    table = write_blobs(path)
    reference = lance.dataset(str(path))
    assert lance_core.dataset(str(path)).to_table().to_pylist() == reference.to_table().to_pylist()
    wanted = [row for row, value in enumerate(VALUES) if value is not None]
    for blobs in (
        reference.take_blobs("image", indices=wanted),
        lance_core.dataset(str(path)).take_blobs("image", indices=wanted),
    ):
        assert [blob.readall() for blob in blobs] == [VALUES[row] for row in wanted]
    assert reference.to_table(columns=["s"])["s"].null_count == table["s"].null_count


def test_every_byte_of_a_blob_is_covered(tmp_path: Path) -> None:
    """T26: values outside the pages are covered by the checksum of the page that describes them."""
    path = tmp_path / "blobs.lance"
    write_blobs(path)
    (file,) = (path / "data").glob("*.lance")
    whole = file.read_bytes()
    assert verify_file(MemoryFile(file.name, whole))
    for value in (VALUES[0], VALUES[3], VALUES[6]):
        assert value is not None
        changed = bytearray(whole)
        changed[whole.index(value) + len(value) // 2] ^= 4
        with pytest.raises(LanceError):
            verify_file(MemoryFile(file.name, bytes(changed)))


def test_every_byte_of_a_blob_below_others_is_covered_in_2_0(tmp_path: Path) -> None:
    """T26: structs and lists own columns in 2.0, so that a blob after them has a later one than its leaf."""
    path = tmp_path / "blobs.lance"
    image = pa.field("image", pa.large_binary(), metadata=BLOB)
    values = pa.array([b"abc", b"", None, b"last"], pa.large_binary())
    numbers = pa.array([[1], [2, 3], [], None])
    inside = pa.StructArray.from_arrays([numbers, values], fields=[pa.field("l", numbers.type), image])
    lists = pa.array([[b"in", None, b""], [], [b"a", b"list"], None], pa.list_(image))
    schema = pa.schema([("l", numbers.type), ("s", inside.type), ("b", lists.type), image])
    table = pa.Table.from_arrays([numbers, inside, lists, values], schema=schema)
    lance_core.write_dataset(table, path, data_storage_version="2.0").validate()

    assert lance_core.dataset(path).to_table(verify_checksums=True) == lance_core.dataset(path).to_table()
    (file,) = (path / "data").glob("*.lance")
    whole = file.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(LanceError):
            verify_file(MemoryFile(file.name, bytes(damaged)))


def blobs_v2() -> pa.Table:
    return pa.table({"id": range(len(VALUES)), "image": lance.blob_array(VALUES)})


def test_blobs_of_version_2(tmp_path: Path) -> None:
    """The reference takes, extends and compacts them; see also `test_side_files`."""
    path = str(tmp_path / "blobs.lance")
    lance_core.write_dataset(blobs_v2(), path, data_storage_version="2.2")
    reference = lance.dataset(path)
    assert reference.schema == blobs_v2().schema
    assert lance_core.dataset(path).to_table().to_pylist() == reference.to_table().to_pylist()
    assert reference.to_table()["image"].null_count == VALUES.count(None)
    lance.write_dataset(blobs_v2(), path, mode="append")
    lance_core.write_dataset(blobs_v2(), path, mode="append")
    lance_core.dataset(path).validate()
    expected = [(row, value) for row, value in enumerate(VALUES * 3) if value is not None]
    rows, values = [row for row, _ in expected], [value for _, value in expected]
    for dataset in (lance.dataset(path), lance_core.dataset(path)):
        assert [blob.readall() for blob in dataset.take_blobs("image", indices=rows)] == values
    lance.dataset(path).optimize.compact_files()
    found = lance_core.dataset(path).take_blobs("image", indices=rows)
    assert [blob.readall() for blob in found] == values


def test_every_byte_of_a_blob_of_version_2_is_covered(tmp_path: Path) -> None:
    """T26: values outside the pages are covered by the checksum of the page that describes them."""
    path = tmp_path / "blobs.lance"
    lance_core.write_dataset(blobs_v2(), str(path), data_storage_version="2.2")
    (file,) = (path / "data").glob("*.lance")
    whole = file.read_bytes()
    assert verify_file(MemoryFile(file.name, whole))
    changed = bytearray(whole)
    assert VALUES[7] is not None
    changed[whole.index(VALUES[7]) + 2] ^= 64
    with pytest.raises(LanceError):
        verify_file(MemoryFile(file.name, bytes(changed)))


def test_blobs_that_a_version_does_not_have(tmp_path: Path) -> None:
    field = pa.field("image", pa.large_binary(), metadata=BLOB)
    elsewhere = pa.table({"image": lance.blob_array([lance.Blob(uri="file:///a")])})
    lists = pa.table({"image": pa.array([[b"a"]], pa.list_(field))})
    for table, version in ((blobs_v2(), "2.1"), (blobs_v2(), "2.0"), (elsewhere, "2.2"), (lists, "2.1")):
        with pytest.raises(UnsupportedFeatureError, match="blobs"):
            lance_core.write_dataset(table, str(tmp_path / "a"), data_storage_version=version)
        assert not [each for each in tmp_path.rglob("*") if each.is_file()]
