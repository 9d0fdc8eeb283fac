"""Versions through a manifest store: the four steps, and whoever finishes them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

import lance_core
from lance_core.commit.transaction_lookup import find_committed
from lance_core.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CommitUnknownError,
    CorruptFileError,
    DatasetExistsError,
    DatasetNotFoundError,
    InvalidInputError,
    PutUnknownError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_core.maintenance.cleanup import CleanupPolicy, clean_up
from lance_core.storage import Storage, storage_for
from lance_core.table import versions
from lance_core.table.manifest_store import ManifestRow, ManifestStore, forget_table
from lance_core.table.manifest_store.sqlite import SqliteManifestStore
from lance_core.table.snapshot import open_snapshot, read_manifest
from lance_core.table.versions import latest_version, list_versions, publish_manifest
from lance_core.write.dataset import write_data
from lance_core.write.dataset_options import DatasetWriteOptions
from support.faults.failing_storage import FaultStorage
from support.stores.manifest_store_cases import ManifestStoreCases

STAGED = "_versions/*.manifest-*"


def rows(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def values(dataset: Any) -> list[int]:
    return sorted(dataset.to_table()["x"].to_pylist())


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/versions.db"


@pytest.fixture
def store(tmp_path: Path) -> SqliteManifestStore:
    return SqliteManifestStore(f"{tmp_path}/versions.db")


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Path of a dataset in a file system that can create no file exclusively."""
    return f"local://{tmp_path}/t.lance"


@pytest.fixture
def options(database: str) -> dict[str, str]:
    return {"manifest_store": database}


class TestSqliteRows(ManifestStoreCases):
    """One row per version."""


def test_without_a_manifest_store_no_version_is_made(place: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="manifest_store"):
        lance_core.write_dataset(rows(1), place)
    with pytest.raises(DatasetNotFoundError):
        lance_core.dataset(place)


@pytest.mark.parametrize("name", ["sqlite://relative.db", "sqlite", "mysql://x", "ddb://", ""])
def test_other_manifest_stores_are_refused(place: str, name: str) -> None:
    with pytest.raises(InvalidInputError, match="manifest_store"):
        lance_core.write_dataset(rows(1), place, storage_options={"manifest_store": name})


def test_a_database_that_cannot_be_opened_is_named(place: str, tmp_path: Path) -> None:
    missing = {"manifest_store": f"sqlite://{tmp_path}/missing/versions.db"}
    with pytest.raises(StorageError, match="manifest store"):
        lance_core.write_dataset(rows(1), place, storage_options=missing)
    (tmp_path / "broken.db").write_bytes(b"no database" * 1000)
    with pytest.raises(StorageError, match="manifest store"):
        lance_core.write_dataset(
            rows(1), place, storage_options={"manifest_store": f"sqlite://{tmp_path}/broken.db"}
        )


def test_a_dataset_of_any_file_system(place: str, options: dict[str, str], tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(rows(1), place, storage_options=options)
    dataset.insert(rows(2))
    with pytest.raises(DatasetExistsError):
        lance_core.write_dataset(rows(1), place, storage_options=options)
    dataset.update_config({"key": "value"})
    dataset.tags.create("gold", 1)
    branch = dataset.create_branch("dev", 2)
    branch.insert(rows(3))
    clone = dataset.shallow_clone(f"local://{tmp_path}/clone", "gold")
    clone.insert(rows(4))

    opened = lance_core.dataset(place, storage_options=options)
    assert (opened.version, opened.latest_version, values(opened)) == (3, 3, [1, 2])
    assert [entry["version"] for entry in opened.versions()] == [1, 2, 3]
    assert values(opened.checkout_version("gold")) == [1]
    assert values(opened.checkout_version(("dev", None))) == [1, 2, 3]
    assert values(lance_core.dataset(f"local://{tmp_path}/clone", storage_options=options)) == [1, 4]
    assert values(lance_core.dataset(str(tmp_path / "t.lance"))) == [1, 2]
    assert not list(tmp_path.glob(f"**/{STAGED}"))
    with pytest.raises(VersionNotFoundError):
        opened.checkout_version(7)


def test_cleanup_leaves_rows_of_versions_that_are_gone(place: str, options: dict[str, str]) -> None:
    for number in range(4):
        dataset = lance_core.write_dataset(rows(number), place, mode="overwrite", storage_options=options)
    dataset.cleanup_old_versions(retain_versions=2)
    assert [entry["version"] for entry in dataset.versions()] == [3, 4]
    with pytest.raises(VersionNotFoundError):
        lance_core.dataset(place, 1, storage_options=options)
    dataset.insert(rows(9))
    assert (dataset.version, values(dataset)) == (5, [3, 9])


def test_a_dataset_can_take_the_place_of_one_that_is_dropped(place: str, options: dict[str, str]) -> None:
    lance_core.write_dataset(rows(1), place, storage_options=options).insert(rows(2))
    storage = storage_for(place, options)
    for directory in ("_versions", "_transactions", "data"):
        storage.delete_directory(directory)
    forget_table(storage)
    forget_table(storage_for(place))
    assert lance_core.write_dataset(rows(5), place, storage_options=options).version == 1


def test_a_repeated_commit_is_found_whatever_the_times_say(place: str, options: dict[str, str]) -> None:
    """The store uses no number twice. Times tell nothing: a reader may copy a manifest again when the next
    version exists.
    """
    dataset = lance_core.write_dataset(rows(1), place, storage_options=options)
    dataset.tags.create("gold", 1)
    for value in ("first", "second"):
        dataset.update_config({"key": value})
    storage = storage_for(place, options)
    made = read_manifest(storage, 2)
    found = find_committed(storage, made.transaction_uuid)
    assert found is not None
    assert found.version == 2


def test_versions_from_before_the_manifest_store_count(tmp_path: Path, options: dict[str, str]) -> None:
    lance_core.write_dataset(rows(1), tmp_path / "t.lance")
    lance_core.write_dataset(rows(2), tmp_path / "t.lance", mode="append")
    dataset = lance_core.dataset(f"local://{tmp_path}/t.lance", storage_options=options)
    assert dataset.version == 2
    dataset.insert(rows(3))
    assert (dataset.version, values(dataset), values(dataset.checkout_version(1))) == (3, [1, 2, 3], [1])


def test_a_version_that_was_made_around_the_manifest_store_is_not_overwritten(
    tmp_path: Path, place: str, options: dict[str, str]
) -> None:
    dataset = lance_core.write_dataset(rows(1), place, storage_options=options)
    lance_core.write_dataset(rows(2), tmp_path / "t.lance", mode="append")
    storage = storage_for(place, options)
    with pytest.raises(AlreadyExistsError):
        publish_manifest(storage, 2, b"mine", True)
    assert values(lance_core.dataset(tmp_path / "t.lance")) == [1, 2]
    assert dataset.version == 1


class Killed(BaseException):
    """Error that ends everything without any cleanup, like a killed process."""


class FaultStore(ManifestStore):
    """A store whose changes are counted among the calls of a storage."""

    def __init__(self, store: ManifestStore, storage: FaultStorage) -> None:
        self._real = store
        self._storage = storage
        self.place, self.get, self.latest, self.forget = store.place, store.get, store.latest, store.forget

    def place(self, storage: Storage) -> str: ...
    def get(self, place: str, version: int) -> ManifestRow | None: ...
    def latest(self, place: str) -> ManifestRow | None: ...
    def forget(self, place: str) -> None: ...

    def insert(self, place: str, row: ManifestRow) -> None:
        self._storage.change("insert", lambda: self._real.insert(place, row))

    def update(self, place: str, row: ManifestRow) -> None:
        self._storage.change("update", lambda: self._real.update(place, row))


Fault = Callable[[str, Callable[[], None]], None]


def killed_before(name: str, call: Callable[[], None]) -> None:
    raise Killed


def killed_after(name: str, call: Callable[[], None]) -> None:
    call()
    raise Killed


def fails(name: str, call: Callable[[], None]) -> None:
    raise StorageError("injected")


def answer_lost(name: str, call: Callable[[], None]) -> None:
    call()
    raise PutUnknownError("injected")


def request_lost(name: str, call: Callable[[], None]) -> None:
    raise PutUnknownError("injected")


class Table:
    """A table of one row per version in a local directory, whose storage is one that cannot decide."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.store = SqliteManifestStore(f"{path}.db")
        self._monkeypatch = monkeypatch
        self.storage()
        self.append(1)

    def storage(self, at: int = -1, fault: Fault = fails) -> FaultStorage:
        """Return a storage with a fault at one of its calls; it is used with its store from now on."""
        storage = FaultStorage(self.path, at, fault)
        store = FaultStore(self.store, storage)
        self._monkeypatch.setattr(versions, "manifest_store_of", lambda _: store)
        return storage

    def append(
        self, value: int, storage: FaultStorage | None = None, transaction_id: str | None = None
    ) -> None:
        options = DatasetWriteOptions(transaction_id=transaction_id, sync=False)
        write_data(storage or self.storage(), rows(value), None, "append", options)

    def values(self) -> list[int]:
        """Return the values that a reader finds, after it finished interrupted commits."""
        storage = self.storage()
        found = values(lance_core.LanceDataset(str(self.path), snapshot=open_snapshot(storage)))
        assert list_versions(storage)[-1] == latest_version(storage)
        return found


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    return (Table(tmp_path / f"t{number}", monkeypatch) for number in range(100))


@pytest.mark.parametrize("fault", [killed_before, killed_after])
def test_a_writer_that_dies_at_any_step_leaves_the_old_version_or_the_new(
    tables: Iterator[Table], fault: Fault
) -> None:
    """T35: the next reader finishes the steps of a dead writer, and the same transaction is not applied
    twice.
    """
    seen = []
    for at in range(30):
        table = next(tables)
        storage = table.storage(at, fault)
        number = str(uuid4())
        try:
            table.append(2, storage, number)
        except Killed:
            pass
        else:
            break
        is_made = table.store.get(table.store.place(storage), 2) is not None
        assert is_made == ("insert" in storage.calls[: len(storage.calls) - (fault is killed_before)])
        seen.append(is_made)
        place = table.store.place(storage)
        was_finished = is_made and ".manifest-" not in str(table.store.get(place, 2))
        assert table.values() == ([1, 2] if is_made else [1])
        if is_made:
            assert was_finished or not list(table.path.glob(STAGED))
            assert ".manifest-" not in str(table.store.get(place, 2))
        try:
            table.append(2, table.storage(), number)
        except CommitConflictError:
            # The transaction file is there, and nothing else: this id is used up, and nothing was applied.
            assert not is_made
        table.append(3)
        assert sorted(set(table.values())) in ([1, 2, 3], [1, 3])
        assert table.values().count(2) <= 1
        reader = table.storage()
        clean_up(open_snapshot(reader), reader, CleanupPolicy(versions=[], delete_unverified=True))
        assert not list(table.path.glob(STAGED))
    assert {"insert", "update"} <= set(storage.calls)
    assert True in seen
    assert False in seen


def test_a_fault_at_any_step_is_an_error_or_none(tables: Iterator[Table]) -> None:
    """T40: with the row, the version is there, and whatever fails then is done by the next reader."""
    for at in range(30):
        table = next(tables)
        storage = table.storage(at, fails)
        try:
            table.append(2, storage)
            expected = [1, 2]
        except StorageError:
            expected = [1]
            assert not list(table.path.glob(STAGED))
        assert table.values() == expected
        table.append(3)
        assert table.values() == [*expected, 3]
        if len(storage.calls) <= at:
            break


@pytest.mark.parametrize(("fault", "is_made"), [(answer_lost, True), (request_lost, False)])
def test_an_insert_whose_answer_is_lost_is_read_back(
    tables: Iterator[Table], fault: Fault, is_made: bool
) -> None:
    """T38"""
    table = next(tables)
    storage = FaultStorage(table.path, 0, fault, only="insert")
    store = FaultStore(table.store, storage)
    table._monkeypatch.setattr(versions, "manifest_store_of", lambda _: store)
    if is_made:
        table.append(2, storage)
        assert table.values() == [1, 2]
    else:
        with pytest.raises(CommitUnknownError):
            table.append(2, storage)
        assert list(table.path.glob(STAGED)), "may still be needed"
        assert table.values() == [1]


def test_an_insert_that_a_reader_finished_meanwhile_is_recognised(tables: Iterator[Table]) -> None:
    """T38: the answer is lost, and the row names the final manifest by now."""
    table = next(tables)

    def finished(name: str, call: Callable[[], None]) -> None:
        call()
        assert table.values() == [1, 2]
        raise AlreadyExistsError("as a client says that repeats a request")

    storage = FaultStorage(table.path, 0, finished, only="insert")
    store = FaultStore(table.store, storage)
    table._monkeypatch.setattr(versions, "manifest_store_of", lambda _: store)
    table.append(2, storage)
    assert table.values() == [1, 2]


def test_a_reader_that_may_not_write_reads_what_is_staged(
    tables: Iterator[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = next(tables)
    storage = FaultStorage(table.path, 0, killed_after, only="insert")
    store = FaultStore(table.store, storage)
    monkeypatch.setattr(versions, "manifest_store_of", lambda _: store)
    with pytest.raises(Killed):
        table.append(2, storage)
    reader = FaultStorage(table.path, 0, fails, only="replace")
    assert values(lance_core.LanceDataset(str(table.path), snapshot=open_snapshot(reader))) == [1, 2]
    assert table.values() == [1, 2]


@pytest.mark.parametrize(
    "path", ["elsewhere/_versions/1.manifest", "data/x.manifest", "../_versions/1.manifest"]
)
def test_rows_that_lead_elsewhere_are_refused(tables: Iterator[Table], path: str) -> None:
    """T9"""
    table = next(tables)
    storage = table.storage()
    place = table.store.place(storage)
    table.store.insert(place, ManifestRow(2, path if path.startswith("else") else f"{place}/{path}", 1))
    with pytest.raises(CorruptFileError, match="manifest store"):
        open_snapshot(storage)


def test_a_row_without_any_manifest_is_named(tables: Iterator[Table]) -> None:
    table = next(tables)
    storage = table.storage()
    place = table.store.place(storage)
    table.store.insert(place, ManifestRow(2, f"{place}/_versions/18446744073709551613.manifest-{uuid4()}", 1))
    with pytest.raises(CorruptFileError, match="missing"):
        open_snapshot(storage)
    assert open_snapshot(storage, 1).manifest.version == 1


def test_many_writers_make_one_history(place: str, options: dict[str, str]) -> None:
    """T37"""
    lance_core.write_dataset(rows(-1), place, storage_options=options)
    errors: list[BaseException] = []

    def write(first: int) -> None:
        try:
            for value in range(first, first + 8):
                lance_core.write_dataset(
                    rows(value), place, mode="append", storage_options=options, sync=False
                )
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number * 8,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    dataset = lance_core.dataset(place, storage_options=options)
    assert (dataset.version, values(dataset)) == (33, [*range(-1, 32)])
