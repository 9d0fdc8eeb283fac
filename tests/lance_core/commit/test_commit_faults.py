"""Changes of every kind that are killed, fail, or whose answers are lost, at every call to the storage."""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CommitUnknownError, LanceError, StorageError
from support.changes.every_change import CHANGES, make_change, make_table
from support.faults.failing_storage import FaultStorage, fails, loses_answer, loses_request
from support.faults.killing import kill_at_every_call

QUICK = ["delete", "add_columns"]
"""Changes of the default run. The other changes are similar, and run with the long tests."""
BY_HAND = ["by hand", "update columns", "replace data"]
"""Changes whose files the caller wrote and still has."""
KINDS = [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in CHANGES]


class Expected:
    """State of the dataset before a change and after it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.path = folder / "before"
        dataset = make_table(self.path)
        if kind == "restore":  # of a version without some rows that the newest one has
            lance_core.write_dataset(dataset.to_table().slice(0, 3), dataset, mode="append", sync=False)
        elif kind == "compact":
            dataset.delete("id % 5 = 0", sync=False)
        self.version = dataset.latest_version
        self.before = _rows(lance_core.dataset(self.path).to_table())
        shutil.copytree(self.path, folder / "after", copy_function=os.link)
        self.change(FaultStorage(folder / "after"))
        after = lance_core.dataset(folder / "after")
        assert after.version == self.version + 1
        self.after = _rows(after.to_table())
        self.config = after.config()

    def change(self, storage: FaultStorage) -> None:
        make_change(storage, self.kind)

    def copy(self, target: Path) -> Path:
        shutil.copytree(self.path, target, copy_function=os.link)
        return target

    def check(self, path: Path) -> bool:
        """Return whether the dataset is as after the change; both libraries find it either so or as
        before.
        """
        ours, theirs = lance_core.dataset(path), lance.dataset(str(path))
        is_after = ours.version == self.version + 1
        assert ours.version == theirs.version == self.version + is_after
        for opened in (ours, theirs):
            assert _rows(opened.to_table()).equals(self.after if is_after else self.before)
        assert theirs.validate() is None
        if is_after:
            assert ours.config() == self.config
        return is_after

    def check_repeated(self, path: Path) -> None:
        """Commit the transaction again: it makes its version or finds it, and leftover files are removed."""
        self.change(FaultStorage(path))
        assert self.check(path)
        lance_core.dataset(path).cleanup_old_versions(
            older_than=None, retain_versions=1, delete_unverified=True
        )
        assert self.check(path)
        named = {
            file.path
            for fragment in lance_core.dataset(path).get_fragments()
            for file in fragment.data_files()
        }
        assert {file.name for file in (path / "data").glob("*.lance")} == named


def _rows(table: pa.Table) -> pa.Table:
    """Return the rows in an order that does not depend on fragments."""
    key = "key" if "key" in table.column_names else "id"
    return table.sort_by(key).combine_chunks()


@pytest.mark.parametrize("when", ["BEFORE", pytest.param("AFTER", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "kind", [pytest.param(name, marks=() if name == "delete" else pytest.mark.long) for name in CHANGES]
)
def test_killed_at_every_call(kind: str, when: str, tmp_path: Path) -> None:
    """T35: kill -9 between any two calls leaves the old or the new version; the same again applies once."""
    expected = Expected(kind, tmp_path)
    count = kill_at_every_call(tmp_path, "support.changes.every_change", kind, when)
    assert count >= 2

    states = []
    for number in range(count):
        path = tmp_path / str(number)
        states.append(expected.check(path))
        expected.check_repeated(path)

    assert states == sorted(states), "a version that was there disappeared"
    assert not states[0]
    assert states[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_failing_at_every_call(kind: str, tmp_path: Path) -> None:
    """T40: an error at any call is reported and nothing of the change stays, or it is made all the same."""
    expected = Expected(kind, tmp_path)
    number = 0
    while True:
        path = expected.copy(tmp_path / str(number))
        files = sorted(path.rglob("*.*"))
        storage = FaultStorage(path, number, fails)
        error = None
        try:
            expected.change(storage)
        except StorageError as caught:
            error = caught
        if error is not None:
            assert "injected" in str(error)
            if kind not in BY_HAND:
                assert sorted(path.rglob("*.*")) == files, storage.calls[number]
        assert expected.check(path) is (error is None), storage.calls
        expected.check_repeated(path)
        if len(storage.calls) <= number:
            break
        number += 1
    assert number >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_answers_that_are_lost(kind: str, tmp_path: Path) -> None:
    """T38: after a lost answer, an existing manifest is found. A missing one has an unknown outcome: nothing
    is deleted or repeated.
    """
    expected = Expected(kind, tmp_path)
    landed = expected.copy(tmp_path / "landed")
    expected.change(FaultStorage(landed, 0, loses_answer, only="put _versions"))
    assert expected.check(landed)

    unknown = expected.copy(tmp_path / "unknown")
    calls: list[str] = []
    storage = FaultStorage(unknown, 0, loses_request, only="put _versions")
    original = storage.change

    def note(name: str, call: object) -> None:
        calls.append(name)
        original(name, call)  # type: ignore[arg-type]

    storage.change = note  # type: ignore[method-assign,assignment]
    with pytest.raises(CommitUnknownError):
        expected.change(storage)
    assert calls[-1].startswith("put _versions")
    assert sum(name.startswith("put _versions") for name in calls) == 1
    assert not expected.check(unknown)
    expected.check_repeated(unknown)


@pytest.mark.parametrize("kind", ["update", "merge_insert", "add_columns", "cast", "compact", "by hand"])
@pytest.mark.parametrize("room", [0, 300, 900])
def test_no_room_on_the_disk(kind: str, room: int, tmp_path: Path) -> None:
    """T40: the kernel refuses to let any file grow; the old version is readable, the next change succeeds."""
    expected = Expected(kind, tmp_path)
    path = expected.copy(tmp_path / "full")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        with pytest.raises(StorageError, match="File too large"):
            expected.change(FaultStorage(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not expected.check(path)
    expected.check_repeated(path)


def test_a_commit_that_loses_is_repeated_only_by_who_asks(tmp_path: Path) -> None:
    """T40: an error that is no storage error leaves no transaction behind either."""
    make_table(tmp_path)
    dataset = lance_core.dataset(tmp_path)
    files = sorted(tmp_path.rglob("*.*"))
    with pytest.raises(LanceError):
        lance_core.LanceDataset.commit(dataset, lance_core.LanceOperation.Delete([], [99], "x"), 1)
    assert sorted(tmp_path.rglob("*.*")) == files
