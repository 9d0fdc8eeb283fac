"""Several writers change rows of the same fragments at once: nothing acknowledged is lost, nothing twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import lance
import pyarrow as pa
import pytest

import lance_core
from support.changes.racing import race
from support.changes.racing_changes import change_rows, expected

WRITERS = ["ours", "ours", "reference"]


def _run(path: Path, changes: int) -> list[list[str]]:
    """Return the answers that all writers got, split into number and outcome."""
    arguments = [(library, str(path), n * 100, changes) for n, library in enumerate(WRITERS)]
    return [answer.split(maxsplit=1) for answers in race(change_rows, arguments) for answer in answers]


@pytest.mark.parametrize(
    ("stable", "changes"),
    [
        (True, 9),
        pytest.param(False, 9, marks=pytest.mark.long),
        pytest.param(True, 60, marks=pytest.mark.long),
    ],
)
def test_changes_of_one_fragment_by_both_libraries(stable: bool, changes: int, tmp_path: Path) -> None:
    """T37: deletes, updates and merges of other rows of a fragment stand beside each other."""
    rows = range(300)
    table = pa.table({"id": rows, "value": rows})
    lance.write_dataset(table, str(tmp_path), enable_stable_row_ids=stable)
    lines = _run(tmp_path, changes)
    assert len(lines) == changes * len(WRITERS)
    refused = [line for line in lines if line[1] != "ok"]
    ours = [line for line in refused if int(line[0]) < 200]
    assert not ours, ours  # every conflict can be solved by doing it again
    assert len(lines) - len(refused) > changes

    wanted: dict[int, int | None] = {row: row for row in rows}
    for n in range(len(WRITERS)):
        done = [int(row) for row, answer in lines if answer == "ok" and int(row) // 100 == n]
        wanted |= expected(n * 100, done)
    alive = {row: value for row, value in wanted.items() if value is not None}
    for opened in (lance_core.dataset(tmp_path), lance.dataset(str(tmp_path))):
        found = opened.to_table(with_row_id=True)
        assert len(found) == len(alive)
        assert dict(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True)) == alive
        assert len(set(found["_rowid"].to_pylist())) == len(alive)
        assert opened.version == 1 + len(lines) - len(refused)
        opened.validate()
    if stable:
        kept = [row for row in found.to_pylist() if row["id"] < 300]
        assert all(row["_rowid"] == row["id"] for row in kept)


def test_one_transaction_asked_for_by_many_at_once(tmp_path: Path) -> None:
    """T38: clients that ask again before the first answer is there change the rows once."""
    rows = range(50)
    lance.write_dataset(pa.table({"id": rows, "value": rows}), str(tmp_path), enable_stable_row_ids=True)
    name = "5e7c9d10-2f4b-4a6e-8c11-0d9b7a3f6e21"
    barrier = Barrier(6)

    def ask(_: int) -> dict[str, int]:
        dataset = lance_core.dataset(tmp_path)
        barrier.wait()
        return dict(dataset.update({"value": "value + 100"}, "id < 7", transaction_id=name))

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(ask, range(6)))
    assert answers == [{"num_rows_updated": 7}] * 6
    for opened in (lance_core.dataset(tmp_path), lance.dataset(str(tmp_path))):
        assert opened.version == 2
        found = {row["id"]: row["value"] for row in opened.to_table().to_pylist()}
        assert found == {row: row + 100 * (row < 7) for row in rows}
        opened.validate()
