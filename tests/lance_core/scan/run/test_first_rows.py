"""Scans with a small limit: their rows are taken, and are those that a scan without a limit begins with."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.scan.take.row_taker import RowTaker

ROWS = 900


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each scan with a small limit took its rows."""
    found = []
    of_live_rows = RowTaker.of_live_rows

    def noted(*arguments: object) -> pa.RecordBatch | None:
        rows = of_live_rows(*arguments)
        found.append(rows is not None)
        return rows

    monkeypatch.setattr(RowTaker, "of_live_rows", noted)
    return found


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    numbers = range(ROWS)
    table = pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "text": [None if k % 7 == 0 else "x" * (k % 50) for k in numbers],
            "list": [list(range(k % 4)) for k in numbers],
            "point": [{"x": k, "name": str(k)} for k in numbers],
            "vector": pa.array([[k, 0.5] for k in numbers], pa.list_(pa.float32(), 2)),
            "colour": pa.array([("red", "green")[k % 2] for k in numbers]).dictionary_encode(),
        }
    )
    path = tmp_path_factory.mktemp("first") / "t.lance"
    lance.write_dataset(table, path, max_rows_per_file=300, data_storage_version=request.param)
    lance.dataset(path).delete("id % 5 = 1 OR id BETWEEN 20 AND 90 OR id >= 600 AND id < 895")
    return path


@pytest.mark.parametrize("columns", [None, ["list", "id"], ["point", "colour"]], ids=str)
@pytest.mark.parametrize("offset", [None, 5, 180, 195, 360])
def test_first_rows_are_those_of_the_whole_scan(
    path: Path, taken: list[bool], columns: list[str] | None, offset: int | None
) -> None:
    """Deleted rows, rows of several fragments, and rows beyond the end."""
    dataset = lance_core.dataset(path)
    everything = dataset.to_table(columns)
    assert not taken
    for limit in (1, 100, 255):
        expected = everything.slice(offset or 0, limit)
        found = dataset.to_table(columns, limit=limit, offset=offset)
        assert found.schema.equals(expected.schema, check_metadata=True)
        assert found == expected
        streamed = list(dataset.to_batches(columns, limit=limit, offset=offset))
        assert pa.Table.from_batches(streamed, expected.schema) == expected
        if columns is None:
            reference = lance.dataset(path).to_table(limit=limit, offset=offset)
            assert found["id"] == reference["id"]
    assert len(taken) >= 3  # streams of rows of several fragments are scanned
    assert all(taken)


@pytest.mark.parametrize("is_strict", [False, True])
def test_batches_have_the_wanted_size(path: Path, taken: list[bool], is_strict: bool) -> None:
    scanner = lance_core.dataset(path).scanner(["id"], limit=100, batch_size=30, strict_batch_size=is_strict)
    assert [batch.num_rows for batch in scanner.to_batches()] == [30, 30, 30, 10]
    assert taken == [True]


def test_rows_without_columns(path: Path, taken: list[bool]) -> None:
    dataset = lance_core.dataset(path)
    assert dataset.to_table([], limit=100).num_rows == 100
    assert sum(batch.num_rows for batch in dataset.to_batches([], limit=100)) == 100
    assert taken == [True, True]


@pytest.mark.parametrize(
    "arguments",
    [
        {"columns": {"n": "id + 1"}},
        {"columns": ["point.x"]},
        {"columns": ["id"], "filter": "id > 100"},
        {"columns": ["id"], "order_by": ["id"]},
        {"with_row_id": True, "include_deleted_rows": True},
    ],
    ids=repr,
)
def test_other_limited_scans_are_scanned(path: Path, taken: list[bool], arguments: dict) -> None:
    dataset = lance_core.dataset(path)
    assert dataset.to_table(limit=7, **arguments) == dataset.to_table(**arguments).slice(0, 7)
    assert not taken


@pytest.mark.parametrize(
    "arguments",
    [{"columns": ["id"], "with_row_id": True}, {"columns": [], "with_row_address": True}],
    ids=repr,
)
def test_row_ids_and_addresses_are_taken_too(path: Path, taken: list[bool], arguments: dict) -> None:
    dataset = lance_core.dataset(path)
    assert dataset.to_table(limit=7, **arguments) == dataset.to_table(**arguments).slice(0, 7)
    assert taken == [True]


def test_a_stream_of_large_rows_is_scanned(tmp_path: Path, taken: list[bool]) -> None:
    """T33: rows that are not known to be small are not all in memory at once."""
    table = pa.table({"a": ["x" * 20_000] * 200})
    dataset = lance_core.write_dataset(table, tmp_path / "d")
    assert pa.Table.from_batches(dataset.to_batches(limit=100)) == table.slice(0, 100)
    assert pa.Table.from_batches(dataset.to_batches(limit=10)) == table.slice(0, 10)
    assert dataset.to_table(limit=100) == table.slice(0, 100)
    assert taken == [False, True, True]
