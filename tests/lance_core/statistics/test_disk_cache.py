"""Statistics on disk: found by the next process, never believed when damaged, never in anybody's way."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_core.statistics.cache import ColumnKey, StatisticsCache
from lance_core.statistics.disk_cache import StatisticsDirectory
from support.faults.statistics_writer import start
from support.processes.waiting import wait_until
from support.tables.arrays import Spec, make_array
from support.tables.types import ORDERED

KEY = ColumnKey("store", "data/a.lance", "1", "0")
ROWS = 100_000


def column(seed: int = 0) -> pa.Array:
    return pa.array(np.random.default_rng(seed).integers(0, 1000, ROWS))


def gather(directory: Path, key: ColumnKey = KEY, array: pa.Array | None = None) -> pa.Table:
    """Return the statistics that a process gathers and leaves behind."""
    array = column() if array is None else array
    cache = StatisticsCache(directory=StatisticsDirectory(directory))
    cache.gather(key, array.type, len(array), 0, [array])
    table = cache.gathered(key, array.type, len(array))
    assert table is not None
    return table


def load(directory: Path, key: ColumnKey = KEY, data_type: pa.DataType | None = None) -> pa.Table | None:
    """Return the statistics that a new process finds."""
    cache = StatisticsCache(directory=StatisticsDirectory(directory))
    return cache.gathered(key, data_type or pa.int64(), ROWS)


def entry(directory: Path) -> Path:
    (path,) = directory.glob("v1/*/*.statistics")
    return path


@pytest.mark.parametrize("data_type", ORDERED, ids=str)
def test_the_next_process_knows(data_type: pa.DataType, tmp_path: Path) -> None:
    array = make_array(
        pa.field("x", data_type), ROWS // 10, Spec("extremes", "half"), np.random.default_rng(1)
    )
    gathered = gather(tmp_path, array=array)
    cache = StatisticsCache(directory=StatisticsDirectory(tmp_path))
    found = cache.gathered(KEY, data_type, len(array))
    assert found is not None
    assert found.combine_chunks().equals(gathered.combine_chunks())


def test_only_whole_columns_are_kept(tmp_path: Path) -> None:
    cache = StatisticsCache(directory=StatisticsDirectory(tmp_path))
    cache.gather(KEY, pa.int64(), ROWS, 0, [column().slice(0, ROWS // 2)])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "other",
    [
        KEY._replace(identity="2"),
        KEY._replace(file="data/b.lance"),
        KEY._replace(storage="elsewhere"),
        KEY._replace(column="1"),
        KEY._replace(storage="stor", file="edata/a.lance"),
    ],
)
def test_another_file_is_another_entry(other: ColumnKey, tmp_path: Path) -> None:
    """T14: a file that was replaced, moved, or lies in another dataset."""
    gather(tmp_path)
    assert load(tmp_path, other) is None
    assert load(tmp_path) is not None


def test_an_entry_under_a_wrong_name(tmp_path: Path) -> None:
    """T14: copied or renamed by hand."""
    gather(tmp_path)
    path = entry(tmp_path)
    other = KEY._replace(identity="2")
    data = path.read_bytes()
    gather(tmp_path, other)
    (path,) = (found for found in tmp_path.glob("v1/*/*.statistics") if found.read_bytes() != data)
    path.write_bytes(data)
    assert load(tmp_path, other) is None


def test_damage_is_ignored_and_written_again(tmp_path: Path) -> None:
    """T26: every cut and a thousand flipped bits."""
    expected = gather(tmp_path).combine_chunks()
    path = entry(tmp_path)
    data = path.read_bytes()
    rng = random.Random(1)
    damaged = [data[: rng.randrange(len(data))] for _ in range(200)]
    for _ in range(1000):
        flipped = bytearray(data)
        bit = rng.randrange(8 * len(data))
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(flipped))
    for content in damaged:
        path.write_bytes(content)
        assert load(tmp_path) is None
    gather(tmp_path)
    found = load(tmp_path)
    assert found is not None
    assert found.combine_chunks().equals(expected)


def test_statistics_of_another_shape(tmp_path: Path) -> None:
    """T22: a valid entry that does not fit the column is ignored."""
    gather(tmp_path)
    assert load(tmp_path, data_type=pa.int32()) is None
    assert load(tmp_path, data_type=pa.string()) is None
    directory = StatisticsDirectory(tmp_path)
    assert directory.load(KEY, pa.int64(), ROWS + 1) is None
    table = directory.load(KEY, pa.int64(), ROWS)
    assert table is not None
    directory.store(KEY, table.slice(1))
    assert directory.load(KEY, pa.int64(), ROWS) is None


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    """T40: a file in its place, no permission; scans go on without it."""
    blocked = tmp_path / "file"
    blocked.write_text("x")
    assert gather(blocked) is not None
    assert load(blocked) is None
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1").chmod(0o500)
    try:
        assert gather(tmp_path) is not None
    finally:
        (tmp_path / "v1").chmod(0o700)


def test_deleted_while_in_use(tmp_path: Path) -> None:
    gather(tmp_path)
    entry(tmp_path).unlink()
    assert load(tmp_path) is None
    gather(tmp_path)
    entry(tmp_path).parent.rmdir() if not any(entry(tmp_path).parent.iterdir()) else None
    assert load(tmp_path) is not None


def test_the_directory_is_bounded(tmp_path: Path) -> None:
    """T33: entries that were not used longest go first, and temporary files of writers that died."""
    table = gather(tmp_path)
    size = entry(tmp_path).stat().st_size
    directory = StatisticsDirectory(tmp_path, max_bytes=16 * size)
    left_behind = entry(tmp_path).with_suffix(".tmp")
    left_behind.write_bytes(b"x")
    os.utime(left_behind, (1, 1))
    began = time.time()
    keys = [KEY._replace(column=str(number)) for number in range(100)]
    for number, each in enumerate(keys):
        directory.store(each, table)
        now = began - 10_000 + number
        for path in tmp_path.glob("v1/*/*.statistics"):
            if path.stat().st_mtime > began - 5_000:  # used since the last time
                os.utime(path, (now, now))
        assert directory.load(keys[0], pa.int64(), ROWS) is not None  # used all the time
        assert sum(path.stat().st_size for path in tmp_path.glob("v1/*/*")) <= 16 * size
    assert directory.load(keys[-1], pa.int64(), ROWS) is not None
    assert directory.load(keys[1], pa.int64(), ROWS) is None
    assert not left_behind.exists()


def test_writers_that_are_killed(tmp_path: Path) -> None:
    """T35: at any moment there is an entry as a whole, or none."""
    expected = gather(tmp_path / "other")
    rng = random.Random(2)
    found = 0
    for number in range(6):
        process = start(tmp_path, KEY, expected, 1 << 30)
        if number == 0:
            wait_until(lambda: load(tmp_path, KEY._replace(column="1")) is not None)
        time.sleep(rng.random() * 0.05)
        process.kill()
        process.join()
        for path in tmp_path.glob("v1/*/*.statistics"):
            assert path.stat().st_size > 0
        for number in range(20):
            table = load(tmp_path, KEY._replace(column=str(number)))
            if table is not None:
                assert table.combine_chunks().equals(expected.combine_chunks())
                found += 1
    assert found


def test_two_processes_at_once(tmp_path: Path) -> None:
    """Two servers over one directory, and a reader that never sees half of an entry."""
    gathered = gather(tmp_path)
    expected = gathered.combine_chunks()
    processes = [start(tmp_path, KEY, gathered, 300) for _ in range(2)]
    are_alive = True
    while are_alive:
        are_alive = any(process.is_alive() for process in processes)
        table = load(tmp_path)
        assert table is not None
        assert table.combine_chunks().equals(expected)
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert not list(tmp_path.glob("v1/*/*.tmp"))
