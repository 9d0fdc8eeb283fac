"""Data files that stay open from scan to scan."""

import gc
import os
import shutil
import subprocess
import sys

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.scan.files import FileCache


@pytest.fixture
def dataset(tmp_path):
    lance.write_dataset(pa.table({"id": range(60)}), str(tmp_path / "d"), max_rows_per_file=5)
    return lance_core.dataset(tmp_path / "d")


def open_all(dataset, cache):
    snapshot = dataset.snapshot
    return [
        cache.open(snapshot, fragment, data_file)
        for fragment in snapshot.manifest.fragments
        for data_file in fragment.files
    ]


def num_descriptors():
    gc.collect()  # files of other tests
    return len(os.listdir("/proc/self/fd"))


def test_a_file_is_opened_once(dataset):
    cache = FileCache()
    assert all(
        first is second
        for first, second in zip(open_all(dataset, cache), open_all(dataset, cache), strict=True)
    )


@pytest.mark.parametrize("limits", [{"max_files": 3}, {"max_bytes": 52 << 10}], ids=str)
def test_files_that_fall_out_are_closed_when_nobody_uses_them(dataset, limits):
    """T33: descriptors and memory of files are bounded."""
    before = num_descriptors()
    cache = FileCache(**limits)
    used = open_all(dataset, cache)
    assert len(cache) == 3
    assert num_descriptors() == before + len(used)
    assert used[0].reader.num_rows == 5
    del used
    assert num_descriptors() == before + 3


def test_most_descriptors_are_left_to_others():
    """T33: a process that may have few descriptors keeps fewer files open."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64));"
        "import lance_core.scan.files as files; print(files.FileCache().max_files)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "16"


def test_a_dataset_made_again_under_the_same_names_is_not_the_cached_one(tmp_path):
    """T14: files are known by what they are, not by where they are."""
    for name, first in (("a", 0), ("b", 100)):
        lance.write_dataset(pa.table({"id": range(first, first + 5)}), str(tmp_path / name))
    assert lance_core.dataset(tmp_path / "a").to_table()["id"].to_pylist() == list(range(5))
    old, new = (next((tmp_path / name / "data").iterdir()) for name in "ab")
    shutil.copy(new, old.with_suffix(".new"))
    os.replace(old.with_suffix(".new"), old)
    assert lance_core.dataset(tmp_path / "a").to_table()["id"].to_pylist() == list(range(100, 105))


def test_hits_are_counted(dataset):
    cache = FileCache()
    used = open_all(dataset, cache)
    assert (cache.use().hits, cache.use().misses, cache.use().entries) == (0, len(used), len(used))
    open_all(dataset, cache)
    assert (cache.use().hits, cache.use().misses) == (len(used), len(used))
    assert 0 < cache.use().bytes <= cache.use().max_bytes
    before = lance_core.cache_stats()["files"]
    dataset.to_table()
    dataset.to_table()
    after = lance_core.cache_stats()["files"]
    assert after.hits - before.hits >= len(used)
