"""Renaming the manifests of old tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptFileError, StorageError, UnsupportedFeatureError
from lance_core.maintenance.manifest_names import rename_manifests
from lance_core.storage import LocalStorage
from lance_core.table.snapshot import open_snapshot
from lance_core.table.versions import latest_version, list_versions, version_path
from support.faults.failing_storage import FaultStorage


def rows(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that makes an old table with twelve versions, so that names have 1 or 2 digits."""

    def make(name: str) -> Path:
        dataset = lance.write_dataset(rows(1), str(tmp_path / name), enable_v2_manifest_paths=False)
        for _ in range(11):
            dataset.update_config({"a": "b"})
        dataset.tags.create("gold", 3)
        return tmp_path / name

    return make


def names(path: Path) -> set[str]:
    return {each.name for each in (path / "_versions").glob("*.manifest")}


def new_names(*versions: int) -> set[str]:
    return {version_path(version, True).rpartition("/")[2] for version in versions}


def test_all_versions_are_renamed_and_both_libraries_read_them(make: Callable[[str], Path]) -> None:
    path = make("t")
    opened = lance_core.dataset(path, version=2)
    opened.migrate_manifest_paths_v2()
    assert (opened.version, opened.latest_version) == (12, 12)
    assert names(path) == new_names(*range(1, 13))
    opened.migrate_manifest_paths_v2()
    for library in (lance, lance_core):
        dataset = library.dataset(str(path))
        assert [entry["version"] for entry in dataset.versions()] == list(range(1, dataset.version + 1))
        assert dataset.checkout_version("gold").version == 3
        assert dataset.checkout_version(7).to_table() == rows(1)
        library.write_dataset(rows(2), str(path), mode="append")
    assert lance.dataset(str(path)).version == 14
    detached = lance_core.LanceDataset.commit(path, lance_core.LanceOperation.Append([]), 14, detached=True)
    assert lance.dataset(str(path), version=detached.version).to_table() == rows(1, 2, 2)


def test_an_interrupted_renaming_loses_nothing_and_can_be_repeated(make: Callable[[str], Path]) -> None:
    """T40: a fault at any call leaves a table that is read, written and cleaned up like a whole one."""
    for at in itertools.count():
        path = make(f"t{at}")
        storage = FaultStorage(path, at)
        try:
            rename_manifests(storage)
            assert len(storage.calls) <= at
            break
        except StorageError:
            pass
        assert (latest_version(LocalStorage(str(path))), list_versions(LocalStorage(str(path)))) == (
            12,
            tuple(range(1, 13)),
        )
        for version in range(1, 13):
            assert open_snapshot(LocalStorage(str(path)), version).manifest.version == version
        found = lance_core.dataset(path).versions()
        assert [entry["version"] for entry in found] == list(range(1, 13))
        dataset = lance_core.write_dataset(rows(2), path, mode="append")
        assert dataset.version == 13
        dataset.migrate_manifest_paths_v2()
        assert names(path) == new_names(*range(1, 14))
        assert lance.dataset(str(path)).to_table() == rows(1, 2)
    assert at > 12


def test_an_interrupted_renaming_is_cleaned_up(make: Callable[[str], Path]) -> None:
    path = make("t")
    with pytest.raises(StorageError):
        rename_manifests(FaultStorage(path, 9))
    assert names(path) & new_names(*range(1, 13))
    assert "1.manifest" in names(path)
    dataset = lance_core.dataset(path)
    dataset.cleanup_old_versions(retain_versions=1, error_if_tagged_old_versions=False)
    assert [entry["version"] for entry in dataset.versions()] == [3, 12]


def test_a_version_with_two_different_manifests_is_refused(make: Callable[[str], Path]) -> None:
    path = make("t")
    (path / version_path(12, True)).write_bytes((path / version_path(11, False)).read_bytes())
    with pytest.raises(CorruptFileError, match="two manifests"):
        rename_manifests(LocalStorage(str(path)))
    assert "12.manifest" in names(path)


def test_names_in_a_manifest_store_stay(tmp_path: Path) -> None:
    options = {"manifest_store": f"sqlite://{tmp_path}/versions.db"}
    uri = f"local://{tmp_path}/t"
    dataset = lance_core.write_dataset(rows(1), uri, storage_options=options, enable_v2_manifest_paths=False)
    with pytest.raises(UnsupportedFeatureError, match="manifest store"):
        dataset.migrate_manifest_paths_v2()
    assert names(tmp_path / "t") == {"1.manifest"}
