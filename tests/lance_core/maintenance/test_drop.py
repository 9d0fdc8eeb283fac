"""Removing a table, with faults at every step."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import DatasetNotFoundError, StorageError
from lance_core.maintenance.drop import drop_table, remove_leftovers, withdraw_table
from lance_core.storage import LocalStorage, storage_for
from support.faults.failing_storage import FaultStorage, before

ROWS = pa.table({"n": range(10)})


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that makes a table with three versions, a tag and a branch."""

    def make(name: str) -> Path:
        dataset = lance.write_dataset(ROWS, tmp_path / name)
        lance.write_dataset(ROWS, tmp_path / name, mode="append")
        dataset.tags.create("gold", 1)
        dataset.create_branch("dev")
        dataset.checkout_latest()
        dataset.delete("n = 3")
        return tmp_path / name

    return make


def test_a_removal_that_fails_leaves_the_newest_version_or_nothing(make: Callable[[str], Path]) -> None:
    """T40: if any call fails, no reader sees half a table, and a table that still exists can be dropped
    again.
    """
    outcomes = set()
    for at in itertools.count():
        path = make(f"t{at}")
        storage = FaultStorage(path, at)
        try:
            drop_table(storage)
            assert len(storage.calls) <= at
            break
        except StorageError:
            pass
        try:
            rows = lance_core.dataset(path).to_table()
        except DatasetNotFoundError:
            outcomes.add("gone")
            # A new table at the same place has nothing of the old one but files that its cleanup removes.
            made = lance_core.write_dataset(ROWS.slice(0, 1), path)
            assert made.to_table() == ROWS.slice(0, 1)
            assert (made.tags.list(), made.branches.list()) == ({}, {})
            made.cleanup_old_versions(retain_versions=1, delete_unverified=True)
            left = {file.relative_to(path).parts[0] for file in path.rglob("*") if file.is_file()}
            assert len(list((path / "data").iterdir())) == 1
            assert left <= {"data", "_versions", "_transactions", "tree"}
        else:
            outcomes.add("whole")
            assert rows.num_rows == 18
            drop_table(LocalStorage(str(path)))
            assert not path.exists()
    assert outcomes == {"gone", "whole"}
    assert not path.exists()


def test_a_commit_that_lands_meanwhile_is_removed(make: Callable[[str], Path]) -> None:
    path = make("t")

    def commit() -> None:
        lance_core.write_dataset(ROWS, path, mode="overwrite")

    storage = FaultStorage(path, 0, before(commit), only="delete data/")
    drop_table(storage)
    assert not path.exists()
    with pytest.raises(DatasetNotFoundError):
        drop_table(storage_for(str(path)))


def test_a_table_with_damaged_manifests_is_removed(make: Callable[[str], Path]) -> None:
    path = make("t")
    for manifest in (path / "_versions").iterdir():
        manifest.write_bytes(b"x")
    (path / "_versions" / "1.manifest").write_bytes(b"by another scheme")
    withdraw_table(LocalStorage(str(path)))
    remove_leftovers(LocalStorage(str(path)))
    assert not path.exists()
