"""Shallow clones: datasets that begin with the files of another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import DatasetExistsError, DatasetNotFoundError, StorageError, VersionNotFoundError
from lance_core.maintenance.clone import clone_table
from lance_core.storage import LocalStorage
from lance_core.table.snapshot import open_snapshot
from support.faults.failing_storage import FaultStorage, fails


def rows(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64()), "s": [f"row {value}" for value in values]})


def values(dataset: Any) -> list[int]:
    return sorted(dataset.to_table()["x"].to_pylist())


@pytest.fixture(params=[False, True], ids=["row addresses", "stable row ids"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Rows with deletions, an index, config and metadata; a tag, and a branch with a row of its own."""
    path = str(tmp_path / "source.lance")
    lance.write_dataset(rows(*range(50)), path, max_rows_per_file=20, enable_stable_row_ids=request.param)
    dataset = lance.dataset(path)
    dataset.create_scalar_index("x", "BTREE")
    dataset.delete("x % 10 = 3")
    dataset.update_config({"key": "value"})
    dataset.update_metadata({"note": "text"})
    dataset.tags.create("gold", 3)
    lance.write_dataset(rows(100), dataset.create_branch("dev", 5).uri, mode="append")
    return path


@pytest.mark.parametrize("reference", [1, "gold", (None, None), ("main", 4), ("dev", None), ("dev", 5)])
def test_a_clone_is_that_of_the_reference(source: str, reference: Any, tmp_path: Path) -> None:
    theirs = lance.dataset(source).shallow_clone(str(tmp_path / "theirs"), reference)
    ours = lance_core.dataset(source).shallow_clone(tmp_path / "ours", reference)
    assert not (tmp_path / "ours" / "data").exists()

    opened = lance.dataset(str(tmp_path / "ours"))
    opened.validate()
    assert opened.version == theirs.version == ours.version
    assert (opened.config(), opened.metadata) == (theirs.config(), theirs.metadata)
    columns = ["x", "s", "_rowid", "_rowaddr"]
    for dataset in (opened, ours, lance_core.dataset(theirs.uri)):
        assert dataset.to_table(columns=columns).equals(theirs.to_table(columns=columns))
    assert opened.to_table(filter="x = 17").equals(theirs.to_table(filter="x = 17"))
    messages = []
    for path in (opened.uri, theirs.uri):
        message = open_snapshot(LocalStorage(path)).manifest.message
        for name in (
            "timestamp",
            "writer_version",
            "transaction_file",
            "index_section",
            "transaction_section",
        ):
            message.ClearField(name)
        message.base_paths.sort(key=lambda base: base.id)
        messages.append(message)
    assert messages[0] == messages[1]
    indices = [dataset.describe_indices() for dataset in (ours, lance_core.dataset(theirs.uri))]
    assert indices[0] == indices[1]


def test_a_clone_goes_its_own_way(source: str, tmp_path: Path) -> None:
    clone = lance_core.dataset(source).shallow_clone(tmp_path / "clone", "gold")
    before = values(clone)
    clone.insert(rows(1000))
    lance.dataset(clone.uri).delete("x = 0")
    lance.write_dataset(rows(7), source, mode="overwrite")

    for library in (lance, lance_core):
        assert values(library.dataset(clone.uri)) == [*before[1:], 1000]
        assert values(library.dataset(clone.uri, 3)) == before
        assert values(library.dataset(source)) == [7]
    again = lance_core.dataset(clone.uri).shallow_clone(tmp_path / "again", (None, None))
    assert values(lance.dataset(again.uri)) == values(again) == [*before[1:], 1000]
    assert len(again.base_paths()) == 2


def test_a_clone_needs_a_place_and_a_version(source: str, tmp_path: Path) -> None:
    dataset = lance_core.dataset(source)
    dataset.shallow_clone(tmp_path / "clone", 1)
    with pytest.raises(DatasetExistsError):
        dataset.shallow_clone(tmp_path / "clone", 1)
    with pytest.raises(VersionNotFoundError):
        dataset.shallow_clone(tmp_path / "other", 99)
    with pytest.raises(DatasetNotFoundError, match="missing"):
        dataset.shallow_clone(tmp_path / "other", "missing")
    assert not (tmp_path / "other").exists()


def test_a_tag_protects_what_a_clone_needs(source: str, tmp_path: Path) -> None:
    clone = lance_core.dataset(source).shallow_clone(tmp_path / "clone", "gold")
    expected = values(clone)
    lance_core.write_dataset(rows(7), source, mode="overwrite")
    stats = lance_core.dataset(source).cleanup_old_versions(
        retain_versions=1, error_if_tagged_old_versions=False
    )
    assert stats.old_versions > 0
    assert values(lance.dataset(clone.uri)) == values(lance_core.dataset(clone.uri)) == expected


def test_cleanup_of_a_clone_leaves_the_source_alone(source: str, tmp_path: Path) -> None:
    clone = lance_core.dataset(source).shallow_clone(tmp_path / "clone", (None, None))
    before = {file.path for file in LocalStorage(source).list_files("")}
    clone.insert(rows(1))
    clone.insert(rows(2), mode="overwrite")
    clone.cleanup_old_versions(retain_versions=1, delete_unverified=True)
    assert {file.path for file in LocalStorage(source).list_files("")} == before
    assert values(lance.dataset(clone.uri)) == [2]


def test_a_fault_at_any_call_leaves_a_clone_or_none(source: str, tmp_path: Path) -> None:
    """T40"""
    snapshot = open_snapshot(LocalStorage(source))
    for at in range(10):
        target = tmp_path / f"clone-{at}"
        storage = FaultStorage(target, at, fails)
        try:
            clone_table(snapshot, storage)
        except StorageError:
            with pytest.raises(DatasetNotFoundError):
                lance_core.dataset(target)
            clone_table(snapshot, LocalStorage(str(target)))
        assert values(lance.dataset(str(target))) == values(lance.dataset(source))
    assert len(storage.calls) < 10
