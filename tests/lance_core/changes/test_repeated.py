"""A change that runs twice at the same time, under one transaction id, happens once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceDataset
from lance_core.changes import settings
from lance_core.changes.columns import alter as alter_columns
from lance_core.changes.columns import column_change
from lance_core.changes.columns import drop as drop_columns
from lance_core.changes.rows import row_change
from lance_core.errors import CommitConflictError, InvalidInputError, StorageError
from lance_core.write.dataset import write_data
from lance_core.write.dataset_options import DatasetWriteOptions
from support.faults.failing_storage import FaultStorage

CHANGES: dict[str, tuple[Any, Callable[[LanceDataset, str], object]]] = {
    "update": (row_change, lambda dataset, uuid: dataset.update({"x": "x + 1"}, transaction_id=uuid)),
    "delete": (row_change, lambda dataset, uuid: dataset.delete("id < 3", transaction_id=uuid)),
    "add columns": (
        column_change,
        lambda dataset, uuid: dataset.add_columns({"y": "x"}, transaction_id=uuid),
    ),
    "drop columns": (
        drop_columns,
        lambda dataset, uuid: dataset.drop_columns(["x"], transaction_id=uuid),
    ),
    "rename": (
        alter_columns,
        lambda dataset, uuid: dataset.alter_columns({"path": "x", "name": "z"}, transaction_id=uuid),
    ),
    "settings": (
        settings,
        lambda dataset, uuid: settings.update_settings(
            dataset.snapshot, config={"a": "b"}, transaction_id=uuid
        ),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_repetition_lands_between_two_attempts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both lose to a third writer and begin anew; the one that is slower begins on what the other made."""
    module, run = CHANGES[name]
    path = str(tmp_path / "t")
    slow = lance_core.write_dataset(pa.table({"id": range(10), "x": [0] * 10}), path)
    fast, uuid = lance_core.dataset(path), str(uuid4())
    commit = module.commit

    def losing(*arguments: Any, **named: Any) -> None:
        monkeypatch.setattr(module, "commit", commit)
        run(fast, uuid)
        raise CommitConflictError("another writer was faster", retryable=True)

    monkeypatch.setattr(module, "commit", losing)
    run(slow, uuid)

    newest = lance_core.dataset(path)
    assert newest.version == 2
    newest.validate()
    assert set(newest.to_table().to_pydict().get("x", [0])) <= {0, 1}
    used = {file.path for fragment in newest.get_fragments() for file in fragment.data_files()}
    assert {file.name for file in (tmp_path / "t" / "data").iterdir()} - used <= {
        file.path
        for fragment in lance_core.dataset(path, 1).get_fragments()
        for file in fragment.data_files()
    }


def test_a_repetition_that_fails_leaves_the_one_that_landed_its_name(tmp_path: Path) -> None:
    """T37: both use one transaction file, and the id is found by its name once others wrote."""
    path = str(tmp_path / "t.lance")
    lance_core.write_dataset(pa.table({"x": [1]}), path)
    uuid = str(uuid4())

    def lands_elsewhere(name: str, call: Callable[[], None]) -> None:
        lance_core.dataset(path).insert(pa.table({"x": [2]}), transaction_id=uuid)
        lance_core.dataset(path).insert(pa.table({"x": [3]}))
        raise StorageError("injected")

    storage = FaultStorage(path, 0, lands_elsewhere, only="put _versions/")
    options = DatasetWriteOptions(sync=False, transaction_id=uuid)
    with suppress(StorageError):
        write_data(storage, pa.table({"x": [2]}), None, "append", options)
    dataset = lance_core.dataset(path)
    dataset.insert(pa.table({"x": [2]}), transaction_id=uuid)
    assert dataset.version == 2
    assert sorted(lance_core.dataset(path).to_table()["x"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("in_between", [False, True], ids=["before", "in between"])
@pytest.mark.parametrize("name", CHANGES)
def test_an_id_of_another_operation_is_refused(
    name: str, in_between: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T37: to answer with the version of the other one would lose this change, though it is acknowledged."""
    module, run = CHANGES[name]
    path = str(tmp_path / "t")
    dataset = lance_core.write_dataset(pa.table({"id": range(10), "x": [0] * 10}), path)
    uuid, commit = str(uuid4()), module.commit

    def use_the_id() -> None:
        lance_core.dataset(path).insert(pa.table({"id": [10], "x": [0]}), transaction_id=uuid)

    def late(*arguments: Any, **named: Any) -> object:
        use_the_id()
        return commit(*arguments, **named)

    if in_between:
        monkeypatch.setattr(module, "commit", late)
    else:
        use_the_id()
    with pytest.raises(InvalidInputError, match=r"used before.*found append, which made version 2"):
        run(dataset, uuid)
    monkeypatch.undo()

    newest = lance_core.dataset(path)
    assert (newest.version, newest.count_rows()) == (2, 11)
    newest.validate()
    used = {file.path for fragment in newest.get_fragments() for file in fragment.data_files()}
    assert {file.name for file in (tmp_path / "t" / "data").iterdir()} == used
    run(newest, str(uuid4()))
    assert lance_core.dataset(path).version == 3


def test_an_append_under_the_id_of_an_overwrite_is_refused(tmp_path: Path) -> None:
    """T37: but who repeats the append that made the table gets it."""
    path, rows = str(tmp_path / "t"), pa.table({"x": [1]})
    uuid, other = str(uuid4()), str(uuid4())
    for _ in range(2):
        assert lance_core.write_dataset(rows, path, mode="append", transaction_id=uuid).version == 1
    with pytest.raises(InvalidInputError, match="used before"):
        lance_core.dataset(path).delete("x = 1", transaction_id=uuid)
    lance_core.dataset(path).insert(rows, transaction_id=other)
    with pytest.raises(InvalidInputError, match="used before"):
        lance_core.write_dataset(rows, path, mode="overwrite", transaction_id=other)
    assert lance_core.dataset(path).count_rows() == 2
