"""Look-ups on a table with small fragments that its index does not cover."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.scan.files.opened import OpenFile
from lance_core.scan.session import session_of
from lance_core.scan.take import candidates

ROWS = 3000
FILTERS = [
    "id = 5",
    "id = 17",
    "id IN (3, 5, 700, 2999, 2500, 3004, 3017, 9999)",
    "id IN (5, 17, 18) AND kind > 3",
    "id BETWEEN 2995 AND 3012",
    "id = 2999 OR id = 3011",
    "id = 3003",
    "id > 2000",
    "kind = 3 AND id < 40",
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose rows were deleted, updated, merged and added after its index was built."""
    path = tmp_path_factory.mktemp("table") / "t"
    dataset = lance_core.write_dataset(some_rows(0, ROWS), path, max_rows_per_file=ROWS // 2)
    dataset.create_scalar_index("id", "BTREE")
    for number in (5, 1700, 2999):
        dataset.update({"kind": "kind + 100"}, where=f"id = {number}")
    dataset.delete("id IN (17, 1600)")
    ids = [3, 700, 2500]
    changed = pa.table({"id": ids, "kind": [7] * 3, "text": ["new"] * 3})
    dataset.merge_insert("id").when_matched_update_all().execute(changed)
    dataset = lance_core.write_dataset(some_rows(ROWS, 20), path, mode="append")
    dataset.delete("id = 3004")
    return path


def some_rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    texts = [f"text {number}" for number in numbers]
    return pa.table({"id": numbers, "kind": [number % 10 for number in numbers], "text": texts})


@pytest.mark.parametrize("most", [0, 1 << 15], ids=["scanned", "taken"])
@pytest.mark.parametrize("condition", FILTERS)
def test_rows_are_those_of_a_scan_in_its_order(
    condition: str, most: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "_MOST_BESIDE", most)
    dataset = lance_core.dataset(path)
    for columns in (None, ["text", "id"]):
        for limit, offset in ((None, None), (2, None), (3, 1), (None, 2)):
            scan = {"columns": columns, "filter": condition, "limit": limit, "offset": offset}
            found = dataset.to_table(**scan)
            assert found.equals(dataset.to_table(**scan, use_scalar_index=False)), scan
    count = dataset.to_table(filter=condition, use_scalar_index=False).num_rows
    assert dataset.count_rows(filter=condition) == count
    assert dataset.aggregate({"n": "count(*)"}, filter=condition)["n"].to_pylist() == [count]


def test_rows_of_the_index_alone_are_left_alone(path: Path) -> None:
    dataset = lance_core.dataset(path)
    for condition, left in {"id IN (5, 6)": [6], "id IN (2998, 2999, 3003)": [2998]}.items():
        found = dataset.to_table(filter=condition, fast_search=True)
        assert found["id"].to_pylist() == left


def test_other_columns_are_opened_where_rows_are_found(path: Path) -> None:
    """No statistics rule out the fragment of the merge, because 2400 lies between its keys."""
    dataset = lance_core.dataset(path, session=lance_core.Session())
    assert dataset.to_table(filter="id = 2400").num_rows == 1
    kept = session_of(dataset.snapshot).files._files.values()
    opened = [
        {field.name for field, _ in file._columns._readers} for file in kept if isinstance(file, OpenFile)
    ]
    assert [names for names in opened if "kind" in names] == [{"id", "kind", "text"}]


def test_wide_values_of_many_candidates_are_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A take has the values of all candidates in memory, a scan those of a window."""
    numbers = range(1000)
    chance = random.Random(1)
    table = pa.table({"id": numbers, "text": [f"{chance.randbytes(10_000).hex()} {n}" for n in numbers]})
    dataset = lance_core.write_dataset(table.slice(0, 10), tmp_path / "t")
    dataset.create_scalar_index("id", "BTREE")
    dataset = lance_core.write_dataset(table.slice(10), tmp_path / "t", mode="append")
    taken = []
    passing = candidates.passing_candidates
    monkeypatch.setattr(
        candidates, "passing_candidates", lambda *arguments: taken.append(True) or passing(*arguments)
    )
    for condition, takes in {"id = 500": [True], "id = 500 AND text LIKE '%500'": []}.items():
        taken.clear()
        assert dataset.to_table(["id"], filter=condition)["id"].to_pylist() == [500]
        assert taken == takes
