"""Counts of reads and writes, of the process and since a dataset was asked."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.dataset.io_stats import IOStats

NOTHING = IOStats(0, 0, 0, 0)


@pytest.mark.parametrize("place", ["local", "memory"])
def test_every_way_to_read_and_write_is_counted(place: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "d") if place == "local" else f"memory://counted/{uuid4().hex}"
    table = pa.table({"id": range(10_000), "text": [f"{n * 7919:x}" * 12 for n in range(10_000)]})
    before = lance_core.iops_counter(), lance_core.bytes_read_counter()
    lance_core.write_dataset(table, uri).io_stats_incremental()
    ours = lance_core.dataset(uri)
    ours.io_stats_incremental()
    assert ours.to_table() == table
    scan = ours.io_stats_snapshot()
    assert scan == ours.io_stats_incremental()
    assert scan.read_iops > 0
    assert scan.read_bytes > 30_000
    assert scan.write_iops == scan.written_bytes == 0
    for _ in range(3):  # the first rows make the file be mapped
        assert ours.take([3, 9_999]).num_rows == 2
        taken = ours.io_stats_incremental()
        assert taken.read_iops > 0
        assert 0 < taken.read_bytes < scan.read_bytes
    ours.insert(table.slice(0, 10))
    assert ours.io_stats_incremental().written_bytes > 100
    assert ours.io_stats_incremental() == NOTHING
    after = lance_core.iops_counter(), lance_core.bytes_read_counter()
    assert after[0] > before[0] + 3
    assert after[1] > before[1] + 30_000


def test_counts_have_the_names_of_the_reference(tmp_path: Path) -> None:
    lance_core.write_dataset(pa.table({"a": [1]}), tmp_path / "d")
    for library in (lance, lance_core):
        dataset = library.dataset(str(tmp_path / "d"))
        dataset.to_table()
        stats = dataset.io_stats_snapshot()
        assert stats.read_iops > 0
        assert stats.read_bytes > 0
        assert stats.write_iops == dataset.io_stats_incremental().write_iops
        assert isinstance(library.iops_counter(), int)
        assert library.bytes_read_counter() > 0
