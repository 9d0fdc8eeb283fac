"""Blob columns of 2.1 files written here."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import LanceError
from lance_core.statistics.integrity import verify_file
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
