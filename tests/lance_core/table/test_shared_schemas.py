"""Schemas of versions of a table: equal ones are one object."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import LanceError
from lance_core.proto import table_pb2
from lance_core.scan.session import session_of
from lance_core.schema import Schema
from lance_core.storage.local import LocalStorage
from lance_core.table.snapshot import open_snapshot
from support.files.manifests import edit_manifest


def schema_of(path: Path) -> Schema:
    return lance_core.dataset(path).snapshot.manifest.schema


def test_versions_with_equal_schemas_share_one(tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = pa.table({"id": [1, 2], "text": ["a", "b"]})
    first = lance_core.write_dataset(rows, path).snapshot.manifest.schema
    assert lance_core.write_dataset(rows, path, mode="append").snapshot.manifest.schema is first
    assert schema_of(path) is first
    dataset = lance_core.dataset(path)
    dataset.update_schema_metadata({"owner": "x"}, replace=True)
    described = schema_of(path)
    assert described is not first
    assert described.metadata == {"owner": "x"}
    dataset = lance_core.dataset(path)
    dataset.add_columns({"twice": "id * 2"})
    assert schema_of(path).to_arrow().names == ["id", "text", "twice"]
    assert first.to_arrow().names == ["id", "text"]


def test_columns_that_were_opened_serve_the_next_version(tmp_path: Path) -> None:
    path = tmp_path / "t"
    session = lance_core.Session()
    lance_core.write_dataset(pa.table({"id": range(10)}), path)
    before = lance_core.dataset(path, session=session)
    assert before.to_table(filter="id > 3").num_rows == 6
    lance_core.write_dataset(pa.table({"id": [11]}), path, mode="append")
    after = lance_core.dataset(path, session=session)
    assert after.version > before.version
    files = session_of(after.snapshot).files
    (kept,) = files._files.values()
    num_kept = len(kept.projected._kept)
    assert after.to_table(filter="id > 3").num_rows == 7
    assert len(kept.projected._kept) == num_kept


def test_an_error_names_the_manifest_of_its_own_version(tmp_path: Path) -> None:
    """Both tables have the same field, whose type is unknown."""
    schemas = []  # keeps both in use
    for number, name in enumerate(("a", "b")):
        path = tmp_path / name
        dataset = lance_core.write_dataset(pa.table({"id": [1]}), path)
        for _ in range(number):
            dataset.insert(pa.table({"id": [2]}))

        def damage(message: table_pb2.Manifest) -> None:
            message.fields[0].logical_type = "unheard of"

        edit_manifest(path, damage)
        manifest = open_snapshot(LocalStorage(str(path))).manifest
        schemas.append(manifest.schema)
        with pytest.raises(LanceError, match=re.escape(manifest.name)):
            manifest.schema.to_arrow()


def test_extension_types_may_be_registered_at_any_time(tmp_path: Path) -> None:
    class Celsius(pa.ExtensionType):
        def __init__(self) -> None:
            super().__init__(pa.float64(), "test.celsius")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Celsius:
            return cls()

    metadata = {"ARROW:extension:name": "test.celsius", "ARROW:extension:metadata": ""}
    rows = pa.table([[20.5]], schema=pa.schema([pa.field("heat", pa.float64(), metadata=metadata)]))
    before = lance_core.write_dataset(rows, tmp_path / "t")
    assert before.to_table().schema.field("heat").type == pa.float64()
    pa.register_extension_type(Celsius())
    try:
        before.insert(rows)
        found = lance_core.dataset(tmp_path / "t").to_table()
        assert found.schema.field("heat").type == Celsius()
        assert found["heat"].to_pylist() == [20.5, 20.5]
    finally:
        pa.unregister_extension_type("test.celsius")
