"""Counts of matching rows after deletes and updates, compared with the reference."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.process.counters import PAGE_READS
from lance_core.scan.run.filtering.filter_windows import FilterRead
from lance_core.scan.run.filtering.row_filter import Matches


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_counts_follow_deleted_and_updated_rows(tmp_path: Path, stable: bool) -> None:
    path = str(tmp_path / "d")
    table = pa.table({"x": range(100), "text": [str(n) for n in range(100)]})
    dataset = lance_core.write_dataset(table, path, max_rows_per_file=25, enable_stable_row_ids=stable)
    conditions = ["x < 50", "x >= 50", "x < 0", "x is not null", "x % 2 = 1 and x < 30", "text > '5'"]

    def check() -> None:
        reference = lance.dataset(path)
        for condition in conditions:
            assert dataset.count_rows(condition) == reference.count_rows(condition), condition

    check()
    dataset.delete("x in (10, 20, 30)")
    check()
    dataset.update({"x": "x + 95"}, where="x = 5 or x = 7")
    dataset.update({"x": "x - 52"}, where="x = 60")
    check()
    dataset.delete("x < 25")
    check()


def test_a_count_decodes_no_page_that_statistics_decide(tmp_path: Path) -> None:
    """Fragments in which all rows match, or none does, are counted from metadata, deleted rows too."""
    dataset = lance_core.write_dataset(pa.table({"x": range(100)}), tmp_path / "d", max_rows_per_file=25)
    dataset.delete("x = 3 or x = 40")
    assert dataset.count_rows("x < 60") == 58
    scan = dataset.scanner([], "x < 60")
    assert "Rows: 58" in scan.analyze_plan(count_rows=True)
    fragments = scan.explain(analyze=True).fragments
    assert [fragment.columns[0].read for fragment in fragments] == [0, 0, 1, 0]


@pytest.mark.parametrize(("rows", "asks"), [(1 << 14, False), ((1 << 14) + 1, True)])
def test_statistics_of_few_rows_are_gathered_and_not_asked(rows: int, asks: bool, tmp_path: Path) -> None:
    """Filtering so few rows takes less time. But statistics of them help to plan endpoints."""
    lance.write_dataset(pa.table({"x": range(rows)}), tmp_path / "d", max_rows_per_file=5000)
    dataset = lance_core.dataset(tmp_path / "d", session=lance_core.Session())

    def pages_of_a_count() -> int:
        before = sum(PAGE_READS.counts().values())
        assert dataset.count_rows("x < 100") == 100
        return sum(PAGE_READS.counts().values()) - before

    assert pages_of_a_count() == 4
    kept = [fragment.columns[0].planned for fragment in dataset.scanner([], "x < 100").explain().fragments]
    assert kept == [1, 0, 0, 0]
    assert pages_of_a_count() == (1 if asks else 4)


def test_statistics_come_in_between_reading_and_filtering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another scan may gather statistics of a page after a count has decoded the page."""
    values = np.random.default_rng(5).permutation(100_000)
    dataset = lance_core.write_dataset(pa.table({"x": values}), tmp_path / "d", max_rows_per_file=50_000)
    from_arrays = FilterRead.from_arrays
    others = []

    def after_another(self: FilterRead, arrays: list[pa.Array]) -> list[Matches]:
        monkeypatch.setattr(FilterRead, "from_arrays", from_arrays)
        others.append(dataset.count_rows("x < 7"))
        return from_arrays(self, arrays)

    monkeypatch.setattr(FilterRead, "from_arrays", after_another)
    assert dataset.count_rows("x < 7") == 7
    assert others == [7]
