"""Columns that several threads read first."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.encodings.v2_1.layouts.miniblock import MiniBlockPage


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_an_index_that_another_thread_reads_first(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread reads the index of a page between steps of the first, which then has nothing to read.

    That was an error of Python without a name.
    """
    rows = pa.table({"a": [number * 7 % 1000 for number in range(50_000)]})
    lance.write_dataset(rows, tmp_path / "d", data_storage_version=version)
    dataset = lance_core.dataset(tmp_path / "d")
    index_ranges: Any = MiniBlockPage.index_ranges
    read: set[int] = set()

    def after_another(page: MiniBlockPage) -> Sequence[tuple[int, int]]:
        if sys._getframe(1).f_code.co_name == "_chunk_index" and id(page) not in read:
            read.add(id(page))
            other = threading.Thread(target=dataset.to_table, kwargs={"limit": 5, "offset": 20})
            other.start()
            other.join()
        ranges: Sequence[tuple[int, int]] = index_ranges.fget(page)
        return ranges

    monkeypatch.setattr(MiniBlockPage, "index_ranges", property(after_another))
    assert dataset.to_table(limit=5, offset=10)["a"].to_pylist() == [70, 77, 84, 91, 98]
    assert dataset.to_table(filter="a = 7")["a"].to_pylist() == [7] * 50
    assert read
