"""Data files that stay open from scan to scan."""

import gc
import os
import shutil
import subprocess
import sys
import weakref

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.scan.files.cache import FileCache
from lance_core.scan.run import small_fragments
from support.processes.descriptors import open_below


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


def test_a_file_is_opened_once(dataset):
    cache = FileCache()
    assert all(
        first is second
        for first, second in zip(open_all(dataset, cache), open_all(dataset, cache), strict=True)
    )


def test_a_checked_scan_opens_a_file_once(tmp_path):
    """A scan remembers which pages of an open file it has checked. The next scan checks them again."""
    dataset = lance_core.write_dataset(pa.table({"id": range(60)}), tmp_path / "d", max_rows_per_file=5)
    cache = FileCache()
    files = cache.verified()
    first = open_all(dataset, files)
    assert all(file.checksums is not None for file in first)
    assert all(one is other for one, other in zip(first, open_all(dataset, files), strict=True))
    next_scan = open_all(dataset, cache.verified())
    assert not any(one is other for one, other in zip(first, next_scan, strict=True))
    last = weakref.ref(first[-1])
    del first, next_scan
    gc.collect()
    assert last() is None


def test_files_that_fall_out_are_closed_when_nobody_uses_them(dataset):
    """T33: the memory of files is bounded."""
    one = open_all(dataset, FileCache())[0].known_bytes
    cache = FileCache(max_bytes=3 * one + one // 2)
    used = open_all(dataset, cache)
    assert len(cache) == 3
    assert len(open_below(dataset.uri)) == len(used)
    assert used[0].reader.num_rows == 5
    del used
    gc.collect()
    assert len(open_below(dataset.uri)) == 3


def test_a_dataset_made_again_under_the_same_names_is_not_the_cached_one(tmp_path):
    """T14: files are known by what they are, not by where they are."""
    for name, first in (("a", 0), ("b", 100)):
        lance.write_dataset(pa.table({"id": range(first, first + 5)}), str(tmp_path / name))
    assert lance_core.dataset(tmp_path / "a").to_table()["id"].to_pylist() == list(range(5))
    old, new = (next((tmp_path / name / "data").iterdir()) for name in "ab")
    shutil.copy(new, old.with_suffix(".new"))
    os.replace(old.with_suffix(".new"), old)
    assert lance_core.dataset(tmp_path / "a").to_table()["id"].to_pylist() == list(range(100, 105))


def test_hits_are_counted(dataset, monkeypatch):
    cache = FileCache()
    used = open_all(dataset, cache)
    assert (cache.use().hits, cache.use().misses, cache.use().entries) == (0, len(used), len(used))
    open_all(dataset, cache)
    assert (cache.use().hits, cache.use().misses) == (len(used), len(used))
    assert 0 < cache.use().bytes <= cache.use().max_bytes
    before = lance_core.cache_stats()["files"]
    monkeypatch.setattr(small_fragments, "has_small", lambda *_: False)
    dataset.to_table()
    dataset.to_table()
    after = lance_core.cache_stats()["files"]
    assert after.hits - before.hits >= len(used)


def test_memory_is_counted_as_columns_are_read(tmp_path):
    """T33: the counted memory of a file is right within a factor of two, for wide files and for long ones."""
    code = """if True:
        import ctypes, gc, sys
        import numpy as np, pyarrow as pa, lance_core

        class Info(ctypes.Structure):
            names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
            _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

        allocator = ctypes.CDLL(None).mallinfo2
        allocator.restype = Info

        def used():
            gc.collect()
            info = allocator()
            return info.uordblks + info.hblkhd

        def use(dataset):
            rows = np.random.default_rng(1).integers(0, dataset.count_rows(), 500)
            for _ in range(3):
                dataset.to_table()
                dataset.take(rows)

        def measure(path):
            dataset = lance_core.dataset(path)
            before, counted = used(), lance_core.cache_stats()["files"].bytes
            use(dataset)
            return used() - before, lance_core.cache_stats()["files"].bytes - counted

        measure(sys.argv[1])  # what is made once is not counted
        for path in sys.argv[2:]:
            print(*measure(path))
        """
    rng = np.random.default_rng(2)
    for name in ("small", "wide", "long"):
        width, rows = {"small": (2, 10), "wide": (300, 3000), "long": (2, 600_000)}[name]
        columns = {f"c{number}": rng.random(rows) for number in range(width - 1)}
        table = pa.table({**columns, "flag": rng.random(rows) < 0.5})
        lance_core.write_dataset(table, tmp_path / name, max_page_bytes=400_000)
    done = subprocess.run(
        [sys.executable, "-c", code, *(str(tmp_path / name) for name in ("small", "wide", "long"))],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONMALLOC": "malloc"},
    )
    for line in done.stdout.splitlines():
        taken, counted = map(int, line.split())
        assert taken / 2 < counted < 2 * taken, done.stdout
