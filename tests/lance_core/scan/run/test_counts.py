"""Counts of matching rows after deletes and updates, compared with the reference."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core


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
