"""Deleting rows: what is written, what is refused, and what other readers see."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.errors import InvalidInputError


def make(path: Path, rows: int = 10, **options: object) -> lance_core.LanceDataset:
    numbers = pa.array(range(rows), pa.int64())
    table = pa.table({"id": numbers, "text": [f"t{number % 7}" for number in range(rows)]})
    lance.write_dataset(table, str(path), **options)
    return lance_core.dataset(path)


def files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def ids(path: Path) -> list[int]:
    """Return the ids, after checking that both libraries read the same."""
    found = lance.dataset(str(path)).to_table()["id"].to_pylist()
    assert lance_core.dataset(path).to_table()["id"].to_pylist() == found
    return found


def test_moves_to_the_new_version_and_says_how_many(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d")
    assert dataset.delete("id = 3 OR id > 7") == {"num_deleted_rows": 3}
    assert dataset.version == 2
    assert dataset.count_rows() == 7
    assert dataset.delete(pc.field("id") < 2) == {"num_deleted_rows": 2}
    assert ids(tmp_path / "d") == [2, 4, 5, 6, 7]


def test_nothing_to_delete_makes_a_version_as_in_the_reference(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d")
    before = files(tmp_path / "d")
    assert dataset.delete("id = 100") == {"num_deleted_rows": 0}
    assert dataset.version == 2
    assert {name.split("/")[0] for name in files(tmp_path / "d") - before} == {"_versions", "_transactions"}


def test_fragments_without_rows_are_dropped(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", 30, max_rows_per_file=10)
    dataset.delete("id % 2 = 0")
    assert dataset.delete("id BETWEEN 5 AND 25") == {"num_deleted_rows": 11}
    assert [fragment.fragment_id for fragment in dataset.get_fragments()] == [0, 2]
    assert ids(tmp_path / "d") == [1, 3, 27, 29]
    assert dataset.delete("true") == {"num_deleted_rows": 4}
    assert dataset.get_fragments() == []
    assert ids(tmp_path / "d") == []
    lance.write_dataset(pa.table({"id": [1], "text": ["again"]}), str(tmp_path / "d"), mode="append")
    assert ids(tmp_path / "d") == [1]


def test_the_kind_of_deletion_file_follows_its_size(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", 6000)
    dataset.delete("id < 4999")
    dataset.delete("id = 4999")
    dataset.delete("id = 5001")
    kinds = [path.suffix for path in sorted((tmp_path / "d/_deletions").iterdir(), key=lambda p: p.name)]
    assert kinds == [".arrow", ".bin", ".bin"]
    assert ids(tmp_path / "d") == [5000, *range(5002, 6000)]
    lance.dataset(str(tmp_path / "d")).delete("id = 5003")
    assert 5003 not in ids(tmp_path / "d")


@pytest.mark.parametrize("predicate", ["nosuch = 1", "id", "", "id =", "id = 'x'"])
def test_bad_predicates_change_nothing(predicate: str, tmp_path: Path) -> None:
    dataset = make(tmp_path / "d")
    before = files(tmp_path / "d")
    with pytest.raises(InvalidInputError):
        dataset.delete(predicate)
    assert dataset.version == 1
    assert files(tmp_path / "d") == before


def test_no_predicate_deletes_nothing(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d")
    with pytest.raises(TypeError, match="predicate"):
        dataset.delete(None)  # type: ignore[arg-type]
    assert dataset.latest_version == 1


def test_repeating_a_transaction_gives_its_first_result(tmp_path: Path) -> None:
    """T38: a client that did not hear the answer asks again."""
    dataset = make(tmp_path / "d")
    opened_before = lance_core.dataset(tmp_path / "d")
    name = str(uuid4())
    assert dataset.delete("id < 4", transaction_id=name) == {"num_deleted_rows": 4}
    dataset.delete("id = 9")
    for again in (dataset, opened_before):
        assert again.delete("id < 4", transaction_id=name) == {"num_deleted_rows": 4}
        assert again.version == 2
    assert lance_core.dataset(tmp_path / "d").version == 3


def test_deletes_of_an_old_handle_stand_beside_later_ones(tmp_path: Path) -> None:
    make(tmp_path / "d")
    first, second, third = (lance_core.dataset(tmp_path / "d") for _ in range(3))
    first.delete("id = 1")
    second.delete("id = 2", conflict_retries=0)
    lance.dataset(str(tmp_path / "d")).delete("id = 5")
    assert third.delete("id < 4") == {"num_deleted_rows": 2}  # done again, on what is left
    assert third.version == 5
    assert ids(tmp_path / "d") == [4, 6, 7, 8, 9]
    lance_core.dataset(tmp_path / "d").validate()


def test_a_clone_and_a_branch_keep_their_deletions(tmp_path: Path) -> None:
    make(tmp_path / "d", 20, max_rows_per_file=10).delete("id = 3")
    source = lance.dataset(str(tmp_path / "d"))
    source.shallow_clone(str(tmp_path / "clone"), reference=source.version)
    source.create_branch("side")
    branch = tmp_path / "d/tree/side"
    for path in (tmp_path / "clone", branch):
        dataset = lance_core.dataset(path)
        assert dataset.delete("id IN (4, 12)") == {"num_deleted_rows": 2}
        assert len(list((path / "_deletions").iterdir())) == 2
        assert ids(path) == [number for number in range(20) if number not in (3, 4, 12)]
    assert ids(tmp_path / "d") == [number for number in range(20) if number != 3]


def test_indices_of_the_reference_stay_right(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", 500, max_rows_per_file=100)
    lance.dataset(str(tmp_path / "d")).create_scalar_index("id", "BTREE")
    dataset.checkout_latest()
    dataset.delete("id % 5 = 0 OR id BETWEEN 100 AND 199")
    reference = lance.dataset(str(tmp_path / "d"))
    assert reference.describe_indices()
    assert "ScalarIndexQuery" in reference.scanner(filter="id < 210").explain_plan()
    expected = [number for number in range(210) if number % 5 and not 100 <= number < 200]
    for use_index in (True, False):
        found = reference.to_table(filter="id < 210", use_scalar_index=use_index)
        assert sorted(found["id"].to_pylist()) == expected


def test_one_fragment_without_a_version(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", 20, max_rows_per_file=10)
    fragment = dataset.get_fragments()[1]
    changed = fragment.delete("id IN (3, 12, 13)")
    assert changed is not None
    assert (changed.id, changed.num_deletions) == (1, 2)
    assert fragment.delete("id >= 10") is None
    assert fragment.delete("id < 5") == fragment.metadata
    assert dataset.latest_version == 1


def test_rows_that_an_index_finds(tmp_path: Path) -> None:
    """Rows come from the index, from fragments that it does not cover, and never from deleted rows."""
    path = tmp_path / "d"
    dataset = make(path, 40, max_rows_per_file=10)
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("text = 't3'")
    dataset.insert(pa.table({"id": pa.array(range(35, 45)), "text": ["new"] * 10}))
    left = ids(path)
    for predicate, is_deleted in (
        ("id IN (3, 11, 12, 36, 44)", lambda number: number in (3, 11, 12, 36, 44)),
        ("id < 8 AND text != 't0'", lambda number: number < 8 and number % 7),
        ("id >= 20 AND id < 30", lambda number: 20 <= number < 30),
    ):
        kept = [number for number in left if not is_deleted(number)]
        assert dataset.delete(predicate) == {"num_deleted_rows": len(left) - len(kept)}
        left = kept
        assert ids(path) == left
    (fragment,) = (each for each in dataset.get_fragments() if each.fragment_id == 1)
    changed = fragment.delete("id >= 15")
    assert changed is not None
    assert changed.num_deletions == 10 - fragment.count_rows("id < 15")


def test_rows_that_an_index_finds_are_not_read(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", 20)
    dataset.create_scalar_index("id", "BTREE")
    (file,) = (tmp_path / "d" / "data").iterdir()
    file.rename(tmp_path / "elsewhere")
    assert lance_core.dataset(tmp_path / "d").delete("id IN (3, 5)") == {"num_deleted_rows": 2}
    (tmp_path / "elsewhere").rename(file)
    assert ids(tmp_path / "d") == [number for number in range(20) if number not in (3, 5)]
