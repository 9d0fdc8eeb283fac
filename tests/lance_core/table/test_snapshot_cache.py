"""Manifests that are kept for whoever opens their versions again."""

from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import DatasetNotFoundError
from lance_core.storage import LocalStorage
from lance_core.table.snapshot import open_snapshot
from lance_core.table.snapshot_cache import SnapshotCache


def write(path: Path, first: int, mode: str = "create") -> None:
    lance_core.write_dataset(pa.table({"id": range(first, first + 5)}), str(path), mode=mode)


def test_a_version_is_read_once(tmp_path: Path) -> None:
    """And the counters that users see tell of it."""
    write(tmp_path / "a", 0)
    write(tmp_path / "a", 5, "append")
    lance_core.dataset(tmp_path / "a")
    before = lance_core.cache_stats()["manifests"]
    opened = [lance_core.dataset(tmp_path / "a", version) for version in (None, 2, None)]
    after = lance_core.cache_stats()["manifests"]
    assert (after.hits - before.hits, after.misses - before.misses) == (3, 0)
    assert 0 < after.bytes <= after.max_bytes
    assert after.entries == before.entries
    assert len({id(dataset.snapshot) for dataset in opened}) == 1
    assert lance_core.dataset(tmp_path / "a", 1).count_rows() == 5
    assert lance_core.cache_stats()["manifests"].misses == before.misses + 1


def test_new_versions_are_seen(tmp_path: Path) -> None:
    """T14: a cached version is never returned for a newer one."""
    write(tmp_path / "a", 0)
    dataset = lance_core.dataset(tmp_path / "a")
    write(tmp_path / "a", 5, "append")
    assert lance_core.dataset(tmp_path / "a").count_rows() == 10
    dataset.checkout_latest()
    assert dataset.count_rows() == 10


def test_a_dataset_made_again_is_not_the_kept_one(tmp_path: Path) -> None:
    """T14: the cache identifies a manifest by its content, not by its path."""
    write(tmp_path / "a", 0)
    write(tmp_path / "b", 100)
    assert lance_core.dataset(tmp_path / "a").to_table()["id"].to_pylist() == list(range(5))
    (tmp_path / "a").rename(tmp_path / "old")
    with pytest.raises(DatasetNotFoundError):
        lance_core.dataset(tmp_path / "a")
    (tmp_path / "b").rename(tmp_path / "a")
    assert lance_core.dataset(tmp_path / "a").to_table()["id"].to_pylist() == list(range(100, 105))


def test_memory_is_bounded(tmp_path: Path) -> None:
    """T33: the entry that was not used for the longest time is dropped first."""
    write(tmp_path / "a", 0)
    for first in range(5, 50, 5):
        write(tmp_path / "a", first, "append")
    storage = LocalStorage(str(tmp_path / "a"))
    whole = SnapshotCache(1 << 20, open_snapshot)
    for version in range(1, 11):
        whole.open(storage, version)
    assert whole.use().entries == 10
    cache = SnapshotCache(whole.use().bytes // 2, open_snapshot)
    for version in (*range(1, 11), 10, 1):
        cache.open(storage, version)
        assert cache.use().bytes <= cache.use().max_bytes
    assert 0 < cache.use().entries < 10
    assert (cache.use().hits, cache.use().misses) == (1, 11)
