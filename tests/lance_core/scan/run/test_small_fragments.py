"""Filters on many small fragments, whose rows are filtered together: the same rows as of a scan."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError
from lance_core.scan.run import small_fragments

ROWS = 900
FILTERS = [
    "id = 77",
    "id >= 200 AND id < 215",
    "value > 0.5",
    "value IS NULL",
    "text LIKE '%word12%' OR id % 97 = 3",
    "colour = 'red' AND array_length(list) = 2",
    "point.x > 300 AND point.name != '305'",
    "id < 0",
    "id >= 0",
    "twice > 40 AND id < 600",
    "absent IS NULL AND id > 890",
    "_rowid % 5 = 1",
    "1000 / divisor > 30",
    "true",
]


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 25 fragments, with deleted rows, and with columns in a second file."""
    numbers = range(ROWS)
    table = pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "text": [None if k % 7 == 0 else f"some word{k % 1000:03d} more" for k in numbers],
            "value": [None if k % 3 == 0 else k % 10 / 10 for k in numbers],
            "divisor": pa.array([max(k % 50, 1) for k in numbers], pa.int64()),
            "list": [None if k % 4 == 0 else list(range(k % 4)) for k in numbers],
            "point": [{"x": k, "name": str(k)} for k in numbers],
            "colour": pa.array([("red", "green")[k % 2] for k in numbers]).dictionary_encode(),
        }
    )
    path = tmp_path_factory.mktemp("small") / "t.lance"
    dataset = lance.write_dataset(table, path, max_rows_per_file=36, data_storage_version=request.param)
    dataset.add_columns({"twice": "id * 2"})
    dataset.add_columns(pa.field("absent", pa.string()))
    dataset.delete("id % 11 = 1 OR id BETWEEN 120 AND 165")
    return path


@pytest.fixture
def filtered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of rows of each group that was filtered together."""
    found: list[int] = []
    groups = small_fragments._SmallFragments.__iter__

    def noted(small: small_fragments._SmallFragments) -> Iterator[small_fragments._PassingRows]:
        for group in groups(small):
            found.append(group.num_rows)
            yield group

    monkeypatch.setattr(small_fragments._SmallFragments, "__iter__", noted)
    return found


def scanned(path: Path, **scan: object) -> pa.Table:
    """Return the rows that windows of a scan give."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_fragments, "has_small", lambda *_: False)
        return lance_core.dataset(path).to_table(**scan)


@pytest.mark.parametrize(
    ("path", "condition"),
    [("2.2", each) for each in FILTERS]
    + [("2.0", each) for each in FILTERS[::3]]
    + [("2.1", each) for each in FILTERS[1::3]],
    indirect=["path"],
)
def test_rows_are_those_of_a_scan(
    path: Path, filtered: list[int], condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_fragments, "_MOST_GROUP", 8)  # several groups
    dataset = lance_core.dataset(path)
    expected = scanned(path, filter=condition)
    assert not filtered
    if "_rowid" not in condition:
        assert expected.to_pylist() == lance.dataset(path).to_table(filter=condition).to_pylist()
    assert dataset.to_table(filter=condition) == expected
    assert len(filtered) > 1
    assert sum(filtered) == expected.num_rows
    filtered.clear()
    assert dataset.count_rows(condition) == expected.num_rows == sum(filtered)
    streamed = dataset.scanner(filter=condition, batch_size=7).to_batches()
    batches = list(streamed)
    assert pa.Table.from_batches(batches, expected.schema) == expected
    assert all(0 < batch.num_rows <= 7 for batch in batches)
    for columns, limit, offset in (
        (["colour", "id"], None, None),
        (["text"], 3, 2),
        ({"sum": "id + twice"}, 40, None),
        (["list"], None, 30),
        (["id"], 0, None),
    ):
        part = scanned(path, columns=columns, filter=condition).slice(offset or 0, limit)
        scan = {"columns": columns, "filter": condition, "limit": limit, "offset": offset}
        assert dataset.to_table(**scan) == part, scan
        assert dataset.scanner(**scan).to_reader().read_all() == part, scan
    numbered = {"columns": ["id"], "filter": condition, "with_row_id": True, "with_row_address": True}
    assert dataset.to_table(**numbered) == scanned(path, **numbered)
    ids = [fragment.fragment_id for fragment in dataset.get_fragments()][5:-3]
    assert dataset.scanner(filter=condition, fragments=dataset.get_fragments()[5:-3]).to_table() == scanned(
        path, filter=f"({condition}) AND _rowaddr >= {ids[0] << 32} AND _rowaddr < {(ids[-1] + 1) << 32}"
    )


def test_an_error_is_that_of_a_scan_behind_the_rows_before_it(path: Path, filtered: list[int]) -> None:
    """The condition fails for the last rows only."""
    condition = "1000 / (899 - id) >= 1"
    messages = []
    for patched in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if patched:
                patch.setattr(small_fragments, "has_small", lambda *_: False)
            batches = lance_core.dataset(path).to_batches(filter=condition, batch_size=10)
            assert next(batches).num_rows == 10
            with pytest.raises(InvalidInputError) as raised:
                list(batches)
            messages.append(str(raised.value))
    assert messages[0] == messages[1]
    assert filtered


def test_a_condition_is_evaluated_for_rows_that_meet_the_conditions_before(path: Path) -> None:
    condition = "id < 5 AND CAST(substr(point.name, 1, 1) AS BIGINT) / (id - 700) > -1"
    assert lance_core.dataset(path).to_table(filter=condition) == scanned(path, filter=condition)


def test_few_large_and_unknown_fragments_are_scanned(path: Path, filtered: list[int], tmp_path: Path) -> None:
    table = scanned(path, columns=["id"])
    lance_core.write_dataset(table, tmp_path / "few", max_rows_per_file=200)
    assert lance_core.dataset(tmp_path / "few").count_rows("id > 5")
    wide = pa.table({"id": range(20), "bytes": pa.array([bytes([k]) * 700_000 for k in range(20)])})
    lance_core.write_dataset(wide, tmp_path / "wide", max_rows_per_file=1, data_storage_version="2.0")
    assert lance_core.dataset(tmp_path / "wide").count_rows("id > 5") == 14
    assert lance_core.dataset(path).scanner(filter="id = 5").explain(analyze=True)
    assert not filtered


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_groups_are_bounded_by_decoded_bytes(
    tmp_path: Path, filtered: list[int], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T33: texts that take 500 KB per fragment, and a few bytes of its file."""
    monkeypatch.setattr(small_fragments, "_GROUP_BYTES", small_fragments._GROUP_BYTES // 10)
    texts = pa.array(["x" * 1000, "y" * 1000])
    table = pa.table({"id": range(10_000), "text": texts.take(pa.array([k % 2 for k in range(10_000)]))})
    lance.write_dataset(table, tmp_path / "t", max_rows_per_file=500, data_storage_version=version)
    dataset = lance_core.dataset(tmp_path / "t")
    assert all(file.size < 1 << 18 for part in dataset.snapshot.manifest.fragments for file in part.files)
    for condition, count in {"id != 5": 9999, "id % 500 = 3": 20, "text LIKE 'x%'": 5000}.items():
        filtered.clear()
        scan = {"columns": ["id", "text"], "filter": condition}
        found = pa.Table.from_batches(dataset.to_batches(**scan))
        assert found.num_rows == count == sum(filtered)
        assert len(filtered) >= 3
        assert max(filtered) <= count // 2
        assert found.equals(scanned(tmp_path / "t", **scan))
        part = dataset.to_table(**scan, limit=count // 2, offset=7)
        assert part.equals(found.slice(7, count // 2))


@pytest.mark.parametrize(("fragments", "sizes"), [(10, [100]), (16, [160]), (30, [80, 160, 60])])
def test_few_fragments_are_one_group(
    fragments: int, sizes: list[int], tmp_path: Path, filtered: list[int]
) -> None:
    """A stream of more fragments begins with a small group, a table does not."""
    dataset = lance_core.write_dataset(
        pa.table({"id": range(10 * fragments)}), tmp_path / "t", max_rows_per_file=10
    )
    assert len(list(dataset.to_batches(filter="id >= 0"))) == len(sizes)
    assert filtered == sizes
    filtered.clear()
    assert dataset.to_table(filter="id >= 0").num_rows == dataset.count_rows("id >= 0") == sum(filtered) // 2
    assert filtered == [10 * fragments] * 2


def test_a_stream_holds_small_groups(tmp_path: Path, filtered: list[int]) -> None:
    """T33: decoded rows of a stream stay in memory while its client does not read."""
    chance = random.Random(1)
    table = pa.table({"id": range(60_000), "text": [chance.randbytes(50).hex() for _ in range(60_000)]})
    dataset = lance_core.write_dataset(table, tmp_path / "t", max_rows_per_file=1000)
    largest = []
    for read in (dataset.to_batches, dataset.to_table):
        filtered.clear()
        assert len(list(read(filter="id != 5")))
        assert sum(filtered) == 59_999
        largest.append(max(filtered) * table.nbytes / table.num_rows)
    assert largest[0] < 2.1 * (1 << 20) < largest[1]


def test_large_and_small_fragments_of_one_table(tmp_path: Path, filtered: list[int]) -> None:
    """Appends to a large table: large fragments are scanned, and the order stays."""
    table = pa.table({"id": range(30_000), "value": [k % 100 for k in range(30_000)]})
    path = tmp_path / "t"
    lance.write_dataset(table.slice(0, 20_000), path, max_rows_per_file=10_000)
    for start in range(20_000, 20_080, 10):
        lance.write_dataset(table.slice(start, 10), path, mode="append")
    lance.write_dataset(table.slice(20_080, 9_000), path, mode="append")
    for start in range(29_080, 29_110, 10):
        lance.write_dataset(table.slice(start, 10), path, mode="append")
    dataset = lance_core.dataset(path)
    for condition in ("value = 7", "id > 19990 AND id < 20085", "id >= 29075"):
        expected = scanned(path, filter=condition)
        filtered.clear()
        assert dataset.to_table(filter=condition) == expected
        assert pa.Table.from_batches(dataset.to_batches(filter=condition), expected.schema) == expected
        assert dataset.count_rows(condition) == expected.num_rows
        assert len(filtered) == 3, "eight small fragments, as table, stream and count"
        assert dataset.to_table(filter=condition, limit=5, offset=1) == expected.slice(1, 5)
        assert len(filtered) == 3


def test_changes_find_their_rows(path: Path, filtered: list[int], tmp_path: Path) -> None:
    rows = lance_core.dataset(path).to_table(["id", "value"])
    dataset = lance_core.write_dataset(rows, tmp_path / "t", max_rows_per_file=20)
    dataset.update({"value": "9.5"}, where="id % 100 = 3")
    dataset.delete("id > 850 AND value < 0.5")
    assert filtered
    expected = scanned(tmp_path / "t", filter="value = 9.5")["id"].to_pylist()
    assert expected == [id_ for id_ in rows["id"].to_pylist() if id_ % 100 == 3]
    assert dataset.count_rows("id > 850 AND value < 0.5") == 0
