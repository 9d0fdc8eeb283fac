"""The reference changes datasets that we wrote, and we change the results, in every file version."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core

VERSIONS = ["0.1", "2.0", "2.1", "2.2"]
ROWS = 300


def _rows(start: int, count: int = ROWS) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "text": [f"text {number}" for number in numbers],
            "kind": [f"kind {number % 3}" for number in numbers],
            "vector": pa.array([[number, 1.0] for number in numbers], pa.list_(pa.float32(), 2)),
        }
    )


@pytest.fixture(params=[(version, ids) for version in VERSIONS for ids in (False, True)], ids=str)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A dataset of ours with two fragments and two versions."""
    version, stable_row_ids = request.param
    for start in (0, ROWS):
        lance_core.write_dataset(
            _rows(start),
            tmp_path,
            mode="append",
            data_storage_version=version,
            enable_stable_row_ids=stable_row_ids,
        )
    return str(tmp_path)


def check(path: str, expected: pa.Table) -> None:
    """Both libraries read the same, and the dataset is whole."""
    reference = lance.dataset(path)
    ours = lance_core.dataset(path)
    assert ours.to_table().sort_by("id").equals(expected.sort_by("id"))
    assert reference.to_table().sort_by("id").equals(expected.sort_by("id"))
    assert ours.to_table(with_row_id=True).equals(reference.to_table(with_row_id=True))
    assert ours.count_rows() == reference.count_rows() == len(expected)
    assert reference.validate() is None


def test_read(path: str) -> None:
    reference, expected = lance.dataset(path), pa.concat_tables([_rows(0), _rows(ROWS)])

    assert reference.to_table(filter="id > 250 and id < 350").equals(expected.slice(251, 99))
    assert reference.to_table(filter="kind = 'kind 1'", columns=["id"])["id"].to_pylist() == [
        *range(1, 600, 3)
    ]
    indices = [599, 0, 300, 7, 299]
    assert reference.take(indices).to_pylist() == expected.take(indices).to_pylist()
    assert reference.count_rows(filter="id >= 590") == 10
    assert reference.to_table(limit=5, offset=298).equals(expected.slice(298, 5))
    assert [version["version"] for version in reference.versions()] == [1, 2]
    assert reference.checkout_version(1).to_table().equals(_rows(0))
    check(path, expected)


def test_rows_come_and_go(path: str) -> None:
    lance.dataset(path).delete("id % 2 = 0 and id < 400")
    expected = pa.concat_tables([_rows(0), _rows(ROWS)])
    kept = pa.array([not (number % 2 == 0 and number < 400) for number in range(600)])
    expected = expected.filter(kept)
    check(path, expected)

    lance_core.dataset(path).insert(_rows(600, 10))
    expected = pa.concat_tables([expected, _rows(600, 10)])
    check(path, expected)

    lance.write_dataset(_rows(610, 5), path, mode="append")
    lance.dataset(path).delete("id >= 605 and id < 612")
    expected = pa.concat_tables([expected.slice(0, len(expected) - 5), _rows(612, 3)])
    check(path, expected)

    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=1000)
    check(path, expected)
    lance_core.dataset(path).insert(_rows(700, 3))
    check(path, pa.concat_tables([expected, _rows(700, 3)]))


def test_rows_change(path: str) -> None:
    lance.dataset(path).update({"text": "'changed'"}, where="id < 5")
    merge = lance.dataset(path).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(_rows(598, 4))
    expected = lance.dataset(path).to_table()
    assert len(expected) == 602

    lance_core.dataset(path).insert(_rows(900, 2))

    check(path, pa.concat_tables([expected, _rows(900, 2)]))


def test_columns_come_and_go(path: str) -> None:
    lance.dataset(path).add_columns({"twice": "id * 2"})
    lance.dataset(path).drop_columns(["kind"])
    expected = lance.dataset(path).to_table()
    given = _rows(900, 2).drop_columns(["kind"])
    more = given.append_column("twice", pa.array([None, None], pa.int64()))
    if lance.dataset(path).data_storage_version == "0.1":  # which keeps no nulls and wants all columns
        given = more = given.append_column("twice", pa.array([1800, 1802]))
    lance_core.dataset(path).insert(given)

    check(path, pa.concat_tables([expected, more]))
    with pytest.raises(ValueError, match="column kind"):
        lance_core.dataset(path).insert(_rows(900, 2))


def test_tags_and_branches(path: str) -> None:
    reference = lance.dataset(path)
    reference.tags.create("first", 1)
    branch = reference.create_branch("work", 2)
    lance_core.dataset(path).insert(_rows(600, 1))
    opened = lance_core.dataset(path).checkout_version(("work", None))
    lance_core.write_dataset(_rows(700, 2), opened, mode="append")

    check(path, pa.concat_tables([_rows(0), _rows(ROWS), _rows(600, 1)]))
    assert lance_core.dataset(path, version="first").to_table().equals(_rows(0))
    branch.checkout_latest()
    on_branch = pa.concat_tables([_rows(0), _rows(ROWS), _rows(700, 2)])
    assert branch.to_table().equals(on_branch)
    assert branch.validate() is None
    assert lance_core.dataset(path).checkout_version(("work", None)).to_table().equals(on_branch)


def test_an_index_stays_right(path: str) -> None:
    lance.dataset(path).create_scalar_index("id", "BTREE")
    lance_core.dataset(path).insert(_rows(600, 10))

    reference = lance.dataset(path)
    assert len(reference.describe_indices()) == 1
    for number in (5, 305, 605):
        assert reference.to_table(filter=f"id = {number}")["id"].to_pylist() == [number]
    statistics = reference.stats.index_stats("id_idx")
    assert statistics["num_unindexed_rows"] == 10
    reference.optimize.optimize_indices()
    assert lance.dataset(path).to_table(filter="id = 605")["id"].to_pylist() == [605]

    lance_core.write_dataset(_rows(0, 3), path, mode="overwrite")
    assert lance.dataset(path).describe_indices() == []
    assert lance.dataset(path).to_table(filter="id = 2")["id"].to_pylist() == [2]
