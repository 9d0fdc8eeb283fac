"""Filters for which indices find few rows: the rows are taken, and are those of a scan without indices."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError
from lance_core.scan.files.data_files import FragmentFiles
from lance_core.scan.plan.scan_plan import FragmentScan
from lance_core.scan.read.fragments import FragmentOpener
from lance_core.scan.take.row_taker import RowTaker

ROWS = 20_000
INDICES = {"id": "BTREE", "text": "NGRAM", "bloom": "BLOOMFILTER", "kind": "BITMAP"}
EXACT = ["id = 77", "id IN (3, 12345, 777)", "id >= 5000 AND id < 5010", "id = -1"]
"""Filters that an index answers alone."""
CHECKED = [
    "text LIKE '%word123%'",
    "text LIKE '%word12%' AND point.x > 9000",
    "id < 300 AND kind = 3 AND value > 0.5 AND point.name != '17'",
    "id < 200 AND list IS NOT NULL",
    "id < 200 AND value > 5 AND length(text) = 3",
    "text LIKE '%word777%' AND colour = 'red'",
    "id < 100 AND 1000 / divisor > 1",
    "id < 100 AND _rowid > 10",
]
"""Filters of which conditions are left for the rows that indices find."""


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of rows of takes."""
    found = []
    of_live = RowTaker.of_live

    def noted(taker: RowTaker, addresses: object) -> pa.RecordBatch:
        rows = of_live(taker, addresses)
        found.append(rows.num_rows)
        return rows

    monkeypatch.setattr(RowTaker, "of_live", noted)
    return found


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Ids of the fragments that scans open."""
    found = set()
    open_ = FragmentOpener.open

    def noted(opener: FragmentOpener, scan: FragmentScan, files: FragmentFiles | None = None) -> object:
        found.add(scan.fragment_id)
        return open_(opener, scan, files)

    monkeypatch.setattr(FragmentOpener, "open", noted)
    return found


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    numbers = range(ROWS)
    table = pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "text": [None if k % 7 == 0 else f"some word{k % 1000:03d} more" for k in numbers],
            "bloom": [f"b{k}" for k in numbers],
            "kind": pa.array([k % 5 for k in numbers], pa.int32()),
            "value": [None if k % 3 == 0 else k % 10 / 10 for k in numbers],
            "divisor": pa.array([max(k % 50, 1) for k in numbers], pa.int64()),
            "list": [None if k % 4 == 0 else list(range(k % 4)) for k in numbers],
            "point": [{"x": k, "name": str(k)} for k in numbers],
            "colour": pa.array([("red", "green")[k % 2] for k in numbers]).dictionary_encode(),
        }
    )
    path = tmp_path_factory.mktemp("found") / "t.lance"
    dataset = lance.write_dataset(table, path, max_rows_per_file=6000, data_storage_version=request.param)
    for column, kind in INDICES.items():
        dataset.create_scalar_index(column, kind)
    lance.dataset(path).delete("id % 11 = 1 OR id BETWEEN 20 AND 60")
    return path


@pytest.mark.parametrize("condition", EXACT + CHECKED)
def test_rows_are_those_of_a_scan(path: Path, taken: list[int], condition: str) -> None:
    dataset = lance_core.dataset(path)
    expected = dataset.to_table(filter=condition, use_scalar_index=False)
    assert not taken
    reference = lance.dataset(path).to_table(filter=condition)
    assert expected.to_pylist() == reference.to_pylist()
    assert dataset.to_table(filter=condition) == expected
    assert taken or not expected.num_rows
    taken.clear()
    streamed = list(dataset.to_batches(filter=condition))
    assert pa.Table.from_batches(streamed, expected.schema) == expected
    assert taken or not expected.num_rows
    for columns in (["colour", "id"], ["text"]):
        part = dataset.to_table(columns, filter=condition, limit=3, offset=2)
        assert part == expected.select(columns).slice(2, 3)


@pytest.fixture(scope="module")
def grown(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table with two more fragments, which no index covers."""
    copy = tmp_path_factory.mktemp("grown") / "t.lance"
    lance.dataset(path).shallow_clone(copy, lance.dataset(path).version)
    few = lance.dataset(path).to_table(filter="id IN (77, 100, 5000, 12345) OR id BETWEEN 150 AND 180")
    lance.write_dataset(few, copy, mode="append", max_rows_per_file=20)
    assert len(lance.dataset(copy).get_fragments()) == 6
    return copy


@pytest.mark.parametrize("condition", EXACT + CHECKED)
def test_only_fragments_beside_an_index_are_scanned(
    grown: Path, taken: list[int], scanned: set[int], condition: str
) -> None:
    dataset, reference = lance_core.dataset(grown), lance.dataset(grown)
    options = {"filter": condition, "with_row_id": True, "with_row_address": True}
    expected = dataset.to_table(**options, use_scalar_index=False)
    rows = expected.to_pylist()
    assert rows == reference.to_table(**options).to_pylist()
    scanned.clear()
    taken.clear()
    found = dataset.to_table(**options)
    assert (found.schema, found.to_pylist()) == (expected.schema, rows)
    assert [row for batch in dataset.to_batches(**options) for row in batch.to_pylist()] == rows
    assert dataset.count_rows(condition) == len(rows)
    part = dataset.scanner(["id"], **options, limit=2, offset=1).to_table()
    assert part == expected.slice(1, 2).select(["id", "_rowid", "_rowaddr"])
    assert scanned <= {4, 5}
    assert taken or not expected.num_rows


def test_deleted_rows_are_found_beside_an_index(grown: Path, scanned: set[int], tmp_path: Path) -> None:
    dataset = lance_core.dataset(grown).shallow_clone(tmp_path / "t", lance_core.dataset(grown).version)
    condition = "id < 200 AND value > 0.5"
    count = dataset.count_rows(condition)
    scanned.clear()
    assert dataset.delete(condition)["num_deleted_rows"] == count > 10
    assert scanned <= {4, 5}
    assert lance.dataset(tmp_path / "t").count_rows(condition) == 0


def test_an_error_is_that_of_a_scan(path: Path) -> None:
    dataset = lance_core.dataset(path)
    condition = "id < 100 AND value IS NOT NULL AND CAST(text AS BIGINT) > 2"
    messages = []
    for with_index in (False, True):
        with pytest.raises(InvalidInputError) as raised:
            dataset.to_table(filter=condition, use_scalar_index=with_index)
        messages.append(str(raised.value))
    with pytest.raises(InvalidInputError) as raised:
        dataset.count_rows(condition)
    messages.append(str(raised.value))
    assert len(set(messages)) == 1


def test_many_bytes_are_streamed_by_a_scan(tmp_path: Path, taken: list[int]) -> None:
    table = pa.table({"id": pa.array(range(100), pa.int64()), "text": ["x" * 100_000] * 100})
    dataset = lance_core.write_dataset(table, tmp_path / "t.lance")
    dataset.create_scalar_index("id", "BTREE")
    dataset = lance_core.dataset(tmp_path / "t.lance")
    for num_rows, takes in ((5, [5]), (50, [])):
        taken.clear()
        batches = list(dataset.to_batches(filter=f"id < {num_rows}"))
        assert sum(batch.num_rows for batch in batches) == num_rows
        assert taken == takes
    assert dataset.to_table(filter="id < 50").num_rows == 50
    assert taken == [50]


@pytest.mark.parametrize("is_strict", [False, True])
def test_batches_have_the_wanted_size(path: Path, taken: list[int], is_strict: bool) -> None:
    scanner = lance_core.dataset(path).scanner(
        ["id"], filter="id >= 5000 AND id < 5011", batch_size=4, strict_batch_size=is_strict
    )
    assert [batch.num_rows for batch in scanner.to_batches()] == [4, 4, 2]
    assert taken
