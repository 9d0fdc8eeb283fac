"""Every change with every other one made wholly between two of its calls to the storage, at each place."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.dataset import LanceDataset
from lance_core.errors import CommitUnknownError, LanceError
from lance_core.table.snapshot import open_snapshot
from support.faults.failing_storage import CallStorage, before

Change = Callable[[LanceDataset], object]


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "value": pa.array(numbers, pa.int64())})


def upsert(dataset: LanceDataset) -> object:
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return merge.execute(pa.table({"id": [3, 50], "value": [300, 500]}))


CHANGES: dict[str, Change] = {
    "append": lambda dataset: lance_core.write_dataset(rows(100, 101), dataset, mode="append"),
    "delete": lambda dataset: dataset.delete("id IN (1, 6)"),
    "delete a fragment": lambda dataset: dataset.delete("id < 4"),
    "update": lambda dataset: dataset.update({"value": "value + 10"}, "id IN (2, 5, 6)"),
    "upsert": upsert,
    "compact": lambda dataset: dataset.optimize.compact_files(materialize_deletions_threshold=0.0),
    "add a column": lambda dataset: dataset.add_columns({"twice": "value * 2"}),
    "drop a column": lambda dataset: dataset.drop_columns(["value"]),
    "overwrite": lambda dataset: lance_core.write_dataset(rows(7), dataset, mode="overwrite"),
    "restore": lambda dataset: dataset.checkout_version(1).restore(),
    "config": lambda dataset: dataset.update_config({"key": "value"}),
    "tag": lambda dataset: dataset.tags.create("tag"),
    "move a tag": lambda dataset: dataset.tags.update("first"),
    "branch": lambda dataset: dataset.create_branch("branch"),
    "clean up": lambda dataset: dataset.cleanup_old_versions(
        older_than=timedelta(0), error_if_tagged_old_versions=False
    ),
}


def state(path: Path) -> Any:
    """Return the content of the newest version, the tags and the branches, as both libraries read it."""
    dataset = lance_core.dataset(path)
    dataset.validate()
    reference = lance.dataset(str(path))
    reference.validate()
    seen: dict[str, Any] = {"newest": dataset, "config": dataset.config().get("key")}
    for tag in dataset.tags.list():
        seen[f"tag {tag}"] = dataset.checkout_version(tag)
        assert reference.checkout_version(tag).count_rows() == seen[f"tag {tag}"].count_rows()
    for branch in dataset.branches.list():
        seen[f"branch {branch}"] = dataset.checkout_version((branch, None))
    assert reference.to_table().equals(dataset.to_table())
    return {name: _shown(each) for name, each in seen.items()}


def _shown(seen: Any) -> Any:
    if not isinstance(seen, LanceDataset):
        return seen
    return sorted(repr(sorted(row.items())) for row in seen.to_table().to_pylist())


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three versions of two fragments, with deleted rows in the last one, and a tag."""
    path = tmp_path_factory.mktemp("interleavings") / "old"
    lance_core.write_dataset(rows(*range(8)), path, max_rows_per_file=4)
    dataset = lance_core.dataset(path)
    dataset.tags.create("first")
    dataset.update({"value": "value + 1000"}, "id = 7")
    lance_core.dataset(path).delete("id = 0")
    return path


def serially(old: Path, path: Path, *names: str) -> Any:
    """Return the state after changes one by one; None if one is refused."""
    shutil.copytree(old, path)
    try:
        for name in names:
            CHANGES[name](lance_core.dataset(path))
        return state(path)
    except LanceError:
        return None
    finally:
        shutil.rmtree(path)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        pytest.param(
            mine, theirs, marks=[] if first <= second and (first + second) % 15 == 0 else pytest.mark.long
        )
        for (first, mine), (second, theirs) in itertools.product(enumerate(CHANGES), repeat=2)
    ],
)
def test_a_change_between_two_calls_of_another(old: Path, mine: str, theirs: str, tmp_path: Path) -> None:
    """T37: acknowledged changes exist once, as if one change had been made after the other."""
    only_theirs = serially(old, tmp_path / "theirs", theirs)
    orders = [
        serially(old, tmp_path / "orders", mine, theirs),
        serially(old, tmp_path / "orders", theirs, mine),
    ]
    outcomes = []
    for at in itertools.count():
        path = tmp_path / str(at)
        shutil.copytree(old, path)
        done: list[bool] = []

        def meanwhile(path: Path = path, done: list[bool] = done) -> None:
            try:
                CHANGES[theirs](lance_core.dataset(path))
                done.append(True)
            except CommitUnknownError:
                raise
            except LanceError:
                done.append(False)

        storage = CallStorage(path, at, before(meanwhile))
        try:
            CHANGES[mine](LanceDataset(str(path), snapshot=open_snapshot(storage)))
            is_made = True
        except CommitUnknownError:
            raise
        except LanceError:
            is_made = False
        calls = tuple(
            storage.calls
        )  # what was opened is kept, so that looking at it may call the storage again
        if len(calls) <= at:
            assert not done
            break
        found, place = state(path), calls[at]
        shutil.rmtree(path)
        if is_made and done[0]:
            assert found in orders, f"before {place}"
        elif done[0]:
            assert found == only_theirs, f"refused, before {place}"
        else:
            assert is_made, f"both refused, before {place}"
        outcomes.append(is_made)
    assert any(outcomes), "never made"
