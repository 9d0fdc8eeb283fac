"""Blob columns of every version beside the reference: descriptors in scans, values on demand."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core

VERSIONS = ("2.0", "2.1", "2.2")
_SOURCE = np.random.default_rng(3)
VALUES = [
    b"abc",
    None,
    b"",
    _SOURCE.bytes(100_000),
    b"zz",
    None,
    _SOURCE.bytes(70_000),
    _SOURCE.bytes(5_000_000),
    b"last",
]


def write_blobs(path: Path, version: str, **options: object) -> lance.LanceDataset:
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("image", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        ]
    )
    table = pa.Table.from_arrays(
        [pa.array(range(len(VALUES))), pa.array(VALUES, pa.large_binary())], schema=schema
    )
    return lance.write_dataset(table, str(path), data_storage_version=version, **options)


@pytest.mark.parametrize("version", VERSIONS)
def test_scans_give_the_descriptors_of_the_reference(tmp_path: Path, version: str) -> None:
    reference = write_blobs(tmp_path / "blobs.lance", version, max_rows_per_file=4)
    dataset = lance_core.dataset(reference.uri)
    assert dataset.schema.equals(reference.schema, check_metadata=True)
    for arguments in ({}, {"columns": ["image"]}, {"limit": 3, "offset": 2}, {"columns": ["id"]}):
        expected = reference.to_table(**arguments)
        found = dataset.to_table(**arguments)
        assert found.schema.equals(expected.schema, check_metadata=True)
        assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
def test_deleted_rows_are_left_out(tmp_path: Path, version: str) -> None:
    reference = write_blobs(tmp_path / "blobs.lance", version)
    reference.delete("id in (0, 3)")
    reference = lance.dataset(reference.uri)
    assert lance_core.dataset(reference.uri).to_table().to_pylist() == reference.to_table().to_pylist()


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_blobs_inside_structs(tmp_path: Path, version: str) -> None:
    child = pa.field("image", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    inside = pa.StructArray.from_arrays(
        [pa.array(VALUES, pa.large_binary())],
        fields=[child],
        # 2.0 files keep no validity of structs.
        mask=pa.array([version != "2.0" and row in (2, 8) for row in range(len(VALUES))]),
    )
    table = pa.table({"s": inside})
    reference = lance.write_dataset(table, str(tmp_path / "nested.lance"), data_storage_version=version)
    found = lance_core.dataset(reference.uri).to_table()
    expected = reference.to_table()
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.to_pylist() == expected.to_pylist()
