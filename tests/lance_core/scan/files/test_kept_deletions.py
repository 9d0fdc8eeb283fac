"""Deletion files that are kept from scan to scan."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.scan.files.cache import FileCache
from lance_core.scan.files.data_files import DataFiles
from lance_core.table import snapshot as snapshots
from lance_core.table.deletions import Offsets
from lance_core.table.fragment import Fragment


def make(path: Path, *deleted: int) -> lance_core.LanceDataset:
    dataset = lance_core.write_dataset(pa.table({"id": range(20)}), path)
    for number in deleted:
        dataset.delete(f"id = {number}")
    return dataset


def deletions(dataset: lance_core.LanceDataset, cache: DataFiles) -> Offsets:
    (fragment,) = dataset.snapshot.manifest.fragments
    return cache.deletions(dataset.snapshot, fragment)


def test_a_deletion_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, cache = make(tmp_path / "t", 3, 7), FileCache()
    found = deletions(dataset, cache)
    monkeypatch.setattr(snapshots, "read_deletions", None)
    assert found.tolist() == [3, 7]
    assert deletions(dataset, cache) is found
    assert deletions(lance_core.dataset(tmp_path / "t"), cache.verified()) is found


def test_a_deletion_file_that_a_change_wrote_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = make(tmp_path / "t", 3)
    monkeypatch.setattr(snapshots, "read_deletions", None)
    dataset.delete("id = 5")
    dataset.delete("id = 9")
    assert dataset.to_table()["id"].to_pylist() == [number for number in range(20) if number not in (3, 5, 9)]


def test_a_fragment_without_deletions_is_not_asked_for(tmp_path: Path) -> None:
    cache = FileCache()
    assert not len(deletions(make(tmp_path / "t"), cache))
    assert len(cache) == 0


def test_kept_rows_cannot_be_changed(tmp_path: Path) -> None:
    found = deletions(make(tmp_path / "t", 3), FileCache())
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 4


def test_a_later_deletion_is_seen(tmp_path: Path) -> None:
    dataset, cache = make(tmp_path / "t", 3), FileCache()
    before = dataset.snapshot
    assert deletions(dataset, cache).tolist() == [3]
    dataset.delete("id = 5")
    assert deletions(dataset, cache).tolist() == [3, 5]
    assert cache.deletions(before, before.manifest.fragments[0]).tolist() == [3]


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    """T14: deletion files are known by what they are, not by where they are."""
    dataset, other, cache = make(tmp_path / "t", 3), make(tmp_path / "u", 8), FileCache()
    assert deletions(dataset, cache).tolist() == [3]
    old, new = (next((tmp_path / name / "_deletions").iterdir()) for name in "tu")
    shutil.copy(new, old.with_suffix(".new"))
    os.replace(old.with_suffix(".new"), old)
    assert deletions(dataset, cache).tolist() == deletions(other, cache).tolist() == [8]


def test_the_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """T33: with no memory for files, deletion files are read again."""
    dataset, cache = make(tmp_path / "t", 3), FileCache(max_bytes=0)
    reads: list[int] = []
    reading = snapshots.Snapshot.read_deletions

    def read_noted(snapshot: snapshots.Snapshot, fragment: Fragment) -> Offsets:
        reads.append(fragment.id)
        return reading(snapshot, fragment)

    monkeypatch.setattr(snapshots.Snapshot, "read_deletions", read_noted)
    assert deletions(dataset, cache).tolist() == deletions(dataset, cache).tolist() == [3]
    assert (len(reads), len(cache)) == (2, 0)
    kept = FileCache()
    deletions(dataset, kept)
    assert kept.use().bytes >= 4
