"""Deep clones: datasets with copies of all files of a version of another dataset."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core import DatasetBasePath
from lance_core.errors import DatasetExistsError, DatasetNotFoundError, StorageError, VersionNotFoundError
from lance_core.maintenance.deep_clone import copy_table
from lance_core.storage import LocalStorage
from lance_core.table.snapshot import open_snapshot
from support.faults.failing_storage import FaultStorage, fails

COLUMNS = ["x", "_rowid", "_rowaddr"]


@pytest.fixture(params=[False, True], ids=["row addresses", "stable row ids"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Rows with deletions, an index and a setting; a tag, and a branch whose rows are in two directories."""
    path = str(tmp_path / "source.lance")
    rows = pa.table({"x": range(50)})
    dataset = lance.write_dataset(rows, path, max_rows_per_file=20, enable_stable_row_ids=request.param)
    dataset.create_scalar_index("x", "BTREE")
    dataset.delete("x % 10 = 3")
    dataset.update_config({"key": "value"})
    dataset.tags.create("gold", 2)
    branch = lance.write_dataset(pa.table({"x": [100]}), dataset.create_branch("dev", 4).uri, mode="append")
    branch.delete("x = 4")
    return path


@pytest.mark.parametrize("reference", [1, "gold", (None, None), ("dev", None)])
def test_a_clone_is_that_of_the_reference(source: str, reference: Any, tmp_path: Path) -> None:
    theirs = lance.dataset(source).deep_clone(str(tmp_path / "theirs"), reference)
    ours = lance_core.dataset(source).deep_clone(tmp_path / "ours", reference)
    expected = theirs.to_table(columns=COLUMNS)
    found = theirs.to_table(filter="x = 17")
    shutil.rmtree(source)

    opened = lance.dataset(str(tmp_path / "ours"))
    opened.validate()
    assert opened.version == theirs.version == ours.version
    assert opened.config() == theirs.config()
    assert opened.to_table(columns=COLUMNS) == expected == ours.to_table(columns=COLUMNS)
    assert opened.to_table(filter="x = 17") == found
    assert ours.describe_indices() == lance_core.dataset(theirs.uri).describe_indices()
    assert len(opened.describe_indices()) == len(theirs.describe_indices())
    assert not open_snapshot(LocalStorage(ours.uri)).manifest.base_paths
    listed = [
        sorted(file.path for file in LocalStorage(str(tmp_path / name)).list_files("data"))
        for name in ("ours", "theirs")
    ]
    assert listed[0] == listed[1]
    ours.insert(pa.table({"x": [7]}))
    assert lance.dataset(ours.uri).count_rows() == len(expected) + 1


def test_files_of_base_paths_and_blobs_are_copied(tmp_path: Path) -> None:
    bases = [DatasetBasePath(str(tmp_path / "plain"), "plain", id=1)]
    values = [b"small", None, b"x" * (100 << 10), b"y" * (5 << 20)]
    rows = pa.table({"x": pa.array(range(4)), "b": lance_core.blob_array(values)})
    rows = rows.cast(pa.schema([pa.field("x", pa.int64()), lance_core.blob_field("b")]))
    dataset = lance_core.write_dataset(
        rows, tmp_path / "d", initial_bases=bases, target_bases=["plain"], max_rows_per_file=3
    )
    clone = dataset.deep_clone(tmp_path / "clone", dataset.version)
    shutil.rmtree(tmp_path / "d")
    shutil.rmtree(tmp_path / "plain")
    for library in (lance_core, lance):
        opened = library.dataset(str(tmp_path / "clone"))
        blobs = opened.take_blobs("b", indices=range(4))
        assert [None if blob is None else blob.readall() for blob in blobs] == values
    clone.validate()


def test_a_clone_of_a_shallow_clone_needs_no_other_dataset(source: str, tmp_path: Path) -> None:
    shallow = lance_core.dataset(source).shallow_clone(tmp_path / "shallow", "gold")
    deep = shallow.deep_clone(tmp_path / "deep", shallow.version)
    shutil.rmtree(source)
    assert deep.to_table().num_rows == lance.dataset(deep.uri).count_rows() == 50


def test_a_clone_needs_a_place_and_a_version(source: str, tmp_path: Path) -> None:
    dataset = lance_core.dataset(source)
    dataset.deep_clone(tmp_path / "clone", 1)
    before = {file.path for file in LocalStorage(str(tmp_path / "clone")).list_files("")}
    with pytest.raises(DatasetExistsError):
        dataset.deep_clone(tmp_path / "clone", 1)
    assert {file.path for file in LocalStorage(str(tmp_path / "clone")).list_files("")} == before
    with pytest.raises(VersionNotFoundError):
        dataset.deep_clone(tmp_path / "other", 99)
    with pytest.raises(DatasetNotFoundError, match="missing"):
        dataset.deep_clone(tmp_path / "other", "missing")
    assert not (tmp_path / "other").exists()


def test_a_missing_file_ends_the_clone(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(pa.table({"x": range(9)}), tmp_path / "d", max_rows_per_file=3)
    lost = sorted((tmp_path / "d" / "data").iterdir())[1]
    lost.unlink()
    with pytest.raises(StorageError, match=lost.name):
        dataset.deep_clone(tmp_path / "clone", 1)
    assert not [path for path in (tmp_path / "clone").rglob("*") if path.is_file()]


def test_a_fault_at_any_call_leaves_a_clone_or_none(source: str, tmp_path: Path) -> None:
    """T40"""
    snapshot = open_snapshot(LocalStorage(source))
    expected = lance.dataset(source).to_table()
    for at in range(60):
        target = tmp_path / f"clone-{at}"
        storage = FaultStorage(target, at, fails)
        try:
            copy_table(snapshot, storage)
        except StorageError:
            with pytest.raises(DatasetNotFoundError):
                lance_core.dataset(target)
            copy_table(snapshot, LocalStorage(str(target)))
        assert lance.dataset(str(target)).to_table() == expected
        if len(storage.calls) <= at:
            break
    else:
        raise AssertionError("the fault never went past the last call")
