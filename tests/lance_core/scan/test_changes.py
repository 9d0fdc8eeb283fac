"""Changes between two versions, compared with the reference's answer and with the rows themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError, UnsupportedFeatureError, VersionNotFoundError
from lance_core.scan.changes import compare_versions

Step = Callable[[str], object]


def _append(path: str) -> None:
    lance.write_dataset(pa.table({"k": [50, 51], "v": [50, 51]}), path, mode="append")


def _upsert(path: str) -> None:
    source = pa.table({"k": [5, 90, 50], "v": [-5, 90, -50]})
    merge = lance_core.dataset(path).merge_insert("k").when_matched_update_all()
    merge.when_not_matched_insert_all().execute(source)


def _compact(path: str) -> None:
    lance.dataset(path).optimize.compact_files()


def _rewrite(path: str) -> None:
    lance.write_dataset(pa.table({"k": [7, 200], "v": [7, 200]}), path, mode="overwrite")


STEPS: dict[str, Step] = {
    "append": _append,
    "update": lambda path: lance_core.dataset(path).update({"v": "v + 100"}, "k % 4 = 2"),
    "delete": lambda path: lance.dataset(path).delete("k % 5 = 1"),
    "upsert": _upsert,
    "delete again": lambda path: lance_core.dataset(path).delete("k IN (50, 2) OR k > 80"),
    "compact": _compact,
    "config": lambda path: lance.dataset(path).update_config({"a": "b"}),
    "overwrite": _rewrite,
}


def _make(path: Path, *, stable: bool) -> str:
    rows = pa.table({"k": range(20), "v": range(20)})
    lance.write_dataset(rows, str(path), max_rows_per_file=6, enable_stable_row_ids=stable)
    return str(path)


def _keys(reader: pa.RecordBatchReader) -> list[int]:
    return sorted(reader.read_all()["k"].to_pylist())


def _rows_by_id(path: str, version: int) -> dict[int, tuple[int, int]]:
    rows = lance.dataset(path, version=version).to_table(with_row_id=True).to_pylist()
    return {row["_rowid"]: (row["k"], row["v"]) for row in rows}


def test_every_pair_of_versions_with_stable_row_ids(tmp_path: Path) -> None:
    path = _make(tmp_path / "d", stable=True)
    for step in STEPS.values():
        step(path)
    dataset = lance_core.dataset(path)
    latest = dataset.version
    assert latest >= len(STEPS)
    for begin in range(1, latest + 1):
        before = _rows_by_id(path, begin)
        for end in range(begin, latest + 1):
            after = _rows_by_id(path, end)
            delta = dataset.delta(begin_version=begin, end_version=end)
            inserted, updated = delta.get_inserted_rows().read_all(), delta.get_updated_rows().read_all()
            assert set(inserted["_rowid"].to_pylist()) == after.keys() - before.keys()
            changed = {number for number in after.keys() & before.keys() if after[number] != before[number]}
            assert set(updated["_rowid"].to_pylist()) == changed
            deleted = delta.get_deleted_row_ids().read_all()["_rowid"].to_pylist()
            assert len(deleted) == len(set(deleted))
            assert set(deleted) == before.keys() - after.keys()
            opened = lance.dataset(path, version=end)
            reference = opened.delta(begin_version=begin, end_version=end)
            named = [(each.uuid, type(each.operation).__name__) for each in delta.list_transactions()]
            assert named == [
                (each.uuid, type(each.operation).__name__) for each in reference.list_transactions()
            ]
            for ours, theirs in (
                (inserted, reference.get_inserted_rows()),
                (updated, reference.get_updated_rows()),
            ):
                expected = theirs.read_all()
                assert ours.schema.names == expected.schema.names
                assert sorted(map(repr, ours.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    assert _keys(dataset.delta(compared_against=latest - 1).get_inserted_rows()) == [7, 200]


def test_without_stable_row_ids_what_fragments_tell(tmp_path: Path) -> None:
    path = _make(tmp_path / "d", stable=False)
    for name in ("append", "delete", "config", "delete again"):
        STEPS[name](path)
    insert = lance_core.dataset(path).merge_insert("k").when_not_matched_insert_all()
    insert.execute(pa.table({"k": [3, 300], "v": [0, 0]}))
    dataset = lance_core.dataset(path)
    delta = dataset.delta(compared_against=1)
    assert _keys(delta.get_inserted_rows()) == [300]
    assert _keys(delta.get_updated_rows()) == []
    gone = delta.get_deleted_row_ids().read_all()["_rowid"]
    before = dataset.checkout_version(1)
    assert sorted(before._take_rows(gone)["k"].to_pylist()) == [1, 2, 6, 11, 16]
    assert _keys(dataset.delta(begin_version=1, end_version=2).get_inserted_rows()) == [50, 51]
    STEPS["overwrite"](path)
    dataset = lance_core.dataset(path)
    assert _keys(dataset.delta(compared_against=1).get_inserted_rows()) == [7, 200]
    assert dataset.delta(compared_against=1).get_deleted_row_ids().read_all().num_rows == 20


@pytest.mark.parametrize("step", ["update", "upsert", "compact"])
def test_moved_rows_need_stable_row_ids(step: str, tmp_path: Path) -> None:
    path = _make(tmp_path / "d", stable=False)
    STEPS["append"](path)
    STEPS[step](path)
    STEPS["append"](path)
    dataset = lance_core.dataset(path)
    with pytest.raises(UnsupportedFeatureError, match="without stable row ids"):
        dataset.delta(compared_against=1)
    assert _keys(dataset.delta(compared_against=dataset.version - 1).get_inserted_rows()) == [50, 51]


def test_versions_that_went_back_or_are_gone(tmp_path: Path) -> None:
    path = _make(tmp_path / "d", stable=True)
    STEPS["delete"](path)
    lance.dataset(path, version=1).restore()
    STEPS["append"](path)
    dataset = lance_core.dataset(path)
    with pytest.raises(UnsupportedFeatureError, match=r"version 3.*restore"):
        dataset.delta(compared_against=1)
    assert _keys(dataset.delta(compared_against=3).get_inserted_rows()) == [50, 51]
    version = next(p for p in (tmp_path / "d/_versions").iterdir() if p.name.startswith(f"{(1 << 64) - 3}"))
    version.unlink()
    with pytest.raises(UnsupportedFeatureError, match="version 2, which is gone"):
        dataset.delta(compared_against=1)


def test_which_versions_to_compare(tmp_path: Path) -> None:
    path = _make(tmp_path / "d", stable=True)
    dataset = lance_core.dataset(path)
    arguments: list[dict[str, Any]] = [
        {},
        {"begin_version": 1},
        {"end_version": 1},
        {"compared_against": 1, "begin_version": 1, "end_version": 1},
    ]
    for given in arguments:
        with pytest.raises(InvalidInputError, match="either compared_against"):
            dataset.delta(**given)
    with pytest.raises(VersionNotFoundError):
        dataset.delta(begin_version=1, end_version=2)
    STEPS["append"](path)
    with pytest.raises(InvalidInputError, match="older version to a newer"):
        lance_core.dataset(path).delta(begin_version=2, end_version=1)
    newest = lance_core.dataset(path).snapshot
    rows = compare_versions(dataset.snapshot, newest).inserted
    assert (rows.version, rows.fragments) == (2, (4,))
