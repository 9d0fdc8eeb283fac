"""Cleanup beside writers, readers and whoever makes tags and branches, all at once."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import (
    CommitConflictError,
    CommitUnknownError,
    DatasetNotFoundError,
    FileMissingError,
)
from lance_core.write.dataset import write_data
from lance_core.write.dataset_options import DatasetWriteOptions
from support.faults.failing_storage import FaultStorage

ROUNDS = 60
LIMIT = timedelta(seconds=3)
"""Longer than a writer takes from looking at the newest version to making the next one: docs/history.md."""


def rows(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def values(dataset: Any) -> list[int]:
    return sorted(dataset.to_table()["x"].to_pylist())


class Race:
    """Several threads that change one dataset."""

    def __init__(self, path: str, seed: int) -> None:
        self.path = path
        self.random = random.Random(seed)
        self.written: set[int] = set()
        self.deleted: set[int] = set()
        self.named: dict[str, list[int]] = {}
        """Rows of the versions that got a tag or began a branch, by the name."""
        self.errors: list[BaseException] = []
        self.removed = 0
        self._lock = threading.Lock()
        self._writing = threading.Event()

    def append(self, library: Any, first: int) -> None:
        for value in range(first, first + ROUNDS):
            while True:
                try:
                    library.write_dataset(rows(value), self.path, mode="append")
                    break
                except CommitConflictError as error:
                    if not error.retryable:
                        raise
            with self._lock:
                self.written.add(value)

    def delete(self) -> None:
        for _ in range(ROUNDS):
            with self._lock:
                left = sorted(self.written - self.deleted)
            if left:
                value = left[0]
                lance_core.dataset(self.path).delete(f"x = {value}")
                with self._lock:
                    self.deleted.add(value)

    def name(self, kind: str) -> None:
        for number in range(ROUNDS):
            try:
                dataset = lance_core.dataset(self.path)
                versions = [entry["version"] for entry in dataset.versions()]
                version = versions[self.random.randrange(len(versions))]
                before = values(dataset.checkout_version(version))
                if kind == "tag":
                    dataset.tags.create(f"tag{number}", version)
                else:
                    dataset.create_branch(f"branch{number}", version)
            except (DatasetNotFoundError, FileMissingError):
                continue  # cleaned up before it had a name
            with self._lock:
                self.named[f"{kind}{number}"] = before

    def configure(self) -> None:
        for _ in range(ROUNDS):
            lance_core.dataset(self.path).update_config({"key": str(self.random.random())})

    def clean_up(self) -> None:
        while self._writing.is_set():
            stats = lance_core.dataset(self.path).cleanup_old_versions(
                LIMIT, error_if_tagged_old_versions=False
            )
            self.removed += stats.old_versions

    def run(self, *acts: Callable[[], None]) -> None:
        def guarded(act: Callable[[], None]) -> None:
            try:
                act()
            except BaseException as error:
                self.errors.append(error)

        self._writing.set()
        cleaner = threading.Thread(target=guarded, args=(self.clean_up,))
        threads = [threading.Thread(target=guarded, args=(act,)) for act in acts]
        for thread in [cleaner, *threads]:
            thread.start()
        for thread in threads:
            thread.join()
        self._writing.clear()
        cleaner.join()


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_no_row_tag_or_branch_is_lost(tmp_path: Path, seed: int) -> None:
    """T41"""
    path = str(tmp_path / "t.lance")
    lance.write_dataset(rows(-1), path)
    race = Race(path, seed)
    race.run(
        lambda: race.append(lance_core, 0),
        lambda: race.append(lance_core, 100),
        lambda: race.append(lance, 200),
        race.delete,
        race.configure,
        lambda: race.name("tag"),
        lambda: race.name("branch"),
    )
    assert not race.errors
    expected = sorted({-1, *race.written} - race.deleted)
    assert len(race.written) == 3 * ROUNDS
    assert race.removed > 0
    for library in (lance, lance_core):
        dataset = library.dataset(path)
        dataset.validate()
        assert values(dataset) == expected
        assert set(dataset.tags.list()) | set(dataset.branches.list()) == set(race.named)
        for name, content in race.named.items():
            reference: Any = name if name.startswith("tag") else (name, None)
            assert values(dataset.checkout_version(reference)) == content
        for entry in dataset.versions():
            values(dataset.checkout_version(entry["version"]))


@pytest.mark.parametrize("named", [None, "main", "dev"])
def test_a_version_in_the_place_of_one_that_was_cleaned_up_is_not_acknowledged(
    named: str | None, tmp_path: Path
) -> None:
    """T41: the version would lie below newer versions, where no reader sees it; also if the version before it
    has a tag.
    """
    path = place = str(tmp_path / "t.lance")
    dataset: Any = lance_core.write_dataset(rows(1), path)
    if named == "dev":
        dataset = dataset.create_branch("dev")
        place = f"{path}/tree/dev"
    if named:
        dataset.tags.create("gold", dataset.version if named == "main" else ("dev", None))

    def others_write_and_clean_up(name: str, call: Callable[[], None]) -> None:
        for value in (2, 3):
            lance_core.write_dataset(rows(value), place, mode="append")
        lance_core.dataset(place).cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
        call()

    storage = FaultStorage(place, 0, others_write_and_clean_up, only="put _versions/")
    number = str(uuid4())
    options = DatasetWriteOptions(sync=False, transaction_id=number)
    with pytest.raises(CommitUnknownError):
        write_data(storage, rows(4), None, "append", options)
    assert values(lance.dataset(place)) == values(lance_core.dataset(place)) == [1, 2, 3]
    with pytest.raises(CommitUnknownError):  # whoever asks again is not told that it is there
        lance_core.dataset(place).insert(rows(4), transaction_id=number)


def test_a_version_whose_parent_is_cleaned_up_at_once_counts(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    lance_core.write_dataset(rows(1), path)

    def cleaned_up(name: str, call: Callable[[], None]) -> None:
        call()
        lance.dataset(path).cleanup_old_versions(timedelta(0))

    storage = FaultStorage(path, 0, cleaned_up, only="put _versions/")
    write_data(storage, rows(2), None, "append", DatasetWriteOptions(sync=False))
    assert values(lance.dataset(path)) == [1, 2]


def test_a_version_that_cannot_be_looked_up_keeps_its_files(tmp_path: Path) -> None:
    """T39: if it is unknown whether an existing version is in the history, none of its files is deleted."""
    path = str(tmp_path / "t.lance")
    lance_core.write_dataset(rows(1), path)
    storage = FaultStorage(path, 0, only="put _versions/")

    def fails_from_here_on(name: str, call: Callable[[], None]) -> None:
        call()
        storage.lookups_fail = True

    storage.fault = fails_from_here_on
    with pytest.raises(CommitUnknownError):
        write_data(storage, rows(2), None, "append", DatasetWriteOptions(sync=False))
    assert values(lance.dataset(path)) == [1, 2]
