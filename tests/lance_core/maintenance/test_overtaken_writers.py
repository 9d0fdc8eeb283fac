"""Writers that other writers overtake, while a cleanup removes the version with the number that they make.

Such a version lies below newer versions that are not based on it, where no reader sees it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.dataset import LanceDataset
from lance_core.errors import CommitUnknownError
from lance_core.storage import StoredFile
from lance_core.table.snapshot import open_snapshot
from lance_core.write.dataset import write_data
from lance_core.write.dataset_options import DatasetWriteOptions
from support.faults.failing_storage import FaultStorage

NOW = timedelta(0)
OPTIONS = DatasetWriteOptions(sync=False)


def rows(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def append(path: str, *values: int) -> None:
    lance_core.write_dataset(rows(*values), path, mode="append")


def values(path: str, library: Any = lance_core) -> list[int]:
    return sorted(library.dataset(path).to_table()["x"].to_pylist())


class WholeSeconds(FaultStorage):
    """Local files that got their names within one second of a store that tells whole seconds."""

    def list_files(self, path: str) -> Iterator[StoredFile]:
        for file in super().list_files(path):
            yield file._replace(appeared=1.0)


def overtaken(
    path: str, meanwhile: Callable[[], None], storage: type[FaultStorage] = FaultStorage
) -> FaultStorage:
    """Return a storage whose first put of a manifest waits for others."""

    def fault(name: str, call: Callable[[], None]) -> None:
        meanwhile()
        call()

    return storage(path, 0, fault, only="put _versions/")


def opened(storage: FaultStorage) -> LanceDataset:
    return LanceDataset(storage.uri, snapshot=open_snapshot(storage))


CHANGES: dict[str, Callable[[FaultStorage], object]] = {
    "append": lambda storage: write_data(storage, rows(7), None, "append", OPTIONS),
    "delete rows": lambda storage: opened(storage).delete("x = 0"),
    "delete a fragment": lambda storage: opened(storage).delete("x < 2"),
    "overwrite": lambda storage: write_data(storage, rows(), None, "overwrite", OPTIONS),
    "settings": lambda storage: opened(storage).update_config({"key": "value"}),
}


def remove_second(library: Any) -> Callable[[str], None]:
    return lambda path: library.dataset(path).cleanup_old_versions(versions=[2])


def remove_what_has_no_tag(path: str) -> None:
    dataset = lance_core.dataset(path)
    dataset.tags.create("gold", 1)
    dataset.cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    dataset.tags.delete("gold")


REMOVALS: dict[str, Callable[[str], None]] = {
    "by its number": remove_second(lance_core),
    "by its number, by the reference": remove_second(lance),
    "above a tagged version": remove_what_has_no_tag,
    "below the newest": lambda path: lance_core.dataset(path).cleanup_old_versions(NOW),
}


# The reference leaves no sign of what it removed, and settings are in no file: then the times have to tell.
TELLING = [
    pytest.param(change, removal, storage, id=f"{change}-{removal}-{times}")
    for change, removal in itertools.product(CHANGES, REMOVALS)
    for times, storage in {"exact times": FaultStorage, "equal times": WholeSeconds}.items()
    if (change, removal, times) != ("settings", "by its number, by the reference", "equal times")
]


@pytest.mark.parametrize(("change", "removal", "storage"), TELLING)
def test_a_version_outside_the_history_is_not_acknowledged(
    change: str, removal: str, storage: type[FaultStorage], tmp_path: Path
) -> None:
    """T41: the version before is still there, and the version with this number was removed."""
    path = str(tmp_path / "t.lance")
    lance_core.write_dataset(rows(0, 1), path)

    def others() -> None:
        append(path, 2)
        append(path, 3)
        REMOVALS[removal](path)

    with pytest.raises(CommitUnknownError, match=r"version 2 may or may not exist .* later versions"):
        CHANGES[change](overtaken(path, others, storage))
    for library in (lance, lance_core):
        assert values(path, library) == [0, 1, 2, 3]
        assert "key" not in library.dataset(path).config()


def test_a_created_table_in_the_place_of_another_is_not_acknowledged(tmp_path: Path) -> None:
    """T41: the first version was removed, and is put again by a writer that saw no table."""
    path = str(tmp_path / "t.lance")

    def others() -> None:
        lance_core.write_dataset(rows(1), path)
        append(path, 2)
        lance_core.dataset(path).cleanup_old_versions(NOW)

    with pytest.raises(CommitUnknownError):
        write_data(overtaken(path, others), rows(7), None, "create", OPTIONS)
    assert values(path, lance) == values(path) == [1, 2]


def test_a_version_that_is_removed_at_once_is_not_acknowledged(tmp_path: Path) -> None:
    """T41: the version was outside the history, and a second cleanup removes it before its writer looks."""
    path = str(tmp_path / "t.lance")
    lance_core.write_dataset(rows(0, 1), path)

    def fault(name: str, call: Callable[[], None]) -> None:
        append(path, 2)
        append(path, 3)
        remove_second(lance_core)(path)
        call()
        remove_second(lance_core)(path)

    with pytest.raises(CommitUnknownError):
        write_data(FaultStorage(path, 0, fault, only="put _versions/"), rows(7), None, "append", OPTIONS)
    assert values(path, lance) == values(path) == [0, 1, 2, 3]


def test_the_next_version_may_be_outside_the_history_too(tmp_path: Path) -> None:
    """T41: two writers put versions that were removed, the one of the higher number last."""
    path = str(tmp_path / "t.lance")
    lance_core.write_dataset(rows(1), path)

    def others() -> None:
        append(path, 2)
        append(path, 3)

        def more() -> None:
            append(path, 4)
            append(path, 5)
            lance_core.dataset(path).cleanup_old_versions(NOW)
            resume()

        write_data(overtaken(path, more), rows(8), None, "append", OPTIONS)

    storage = overtaken(path, others)
    first_call = storage.fault
    calls: list[Callable[[], None]] = []

    def resume() -> None:
        calls.pop()()

    def fault(name: str, call: Callable[[], None]) -> None:
        calls.append(call)
        with pytest.raises(CommitUnknownError):
            first_call(name, lambda: None)

    storage.fault = fault
    with pytest.raises(CommitUnknownError):
        write_data(storage, rows(7), None, "append", OPTIONS)
    assert values(path, lance) == values(path) == [1, 2, 3, 4, 5]


def overtaking(path: str) -> FaultStorage:
    """Return a storage with whole seconds, on which another writer makes the next version at once."""

    def fault(name: str, call: Callable[[], None]) -> None:
        call()
        append(path, 2)

    return WholeSeconds(path, 0, fault, only="put _versions/")


@pytest.mark.parametrize("change", ["append", "delete rows"])
@pytest.mark.parametrize("sign", ["a file in _refs/removals", "a tag", "no version before"])
def test_a_version_on_which_the_next_one_is_based_counts(change: str, sign: str, tmp_path: Path) -> None:
    """The next version names the files that this one added, so nothing else matters."""
    path = str(tmp_path / "t.lance")
    dataset: Any = lance_core.write_dataset(rows(0, 1), path)
    if sign == "a tag":
        dataset.tags.create("gold", 1)
    elif sign == "a file in _refs/removals":
        removals = Path(path, "_refs", "removals")
        removals.mkdir(parents=True)
        (removals / "one").write_bytes(b"")
    storage = overtaking(path)
    if sign == "no version before":
        make_next = storage.fault

        def fault(name: str, call: Callable[[], None]) -> None:
            make_next(name, call)
            lance_core.dataset(path).cleanup_old_versions(versions=[1])

        storage.fault = fault
    CHANGES[change](storage)
    expected = [0, 1, 2, 7] if change == "append" else [1, 2]
    assert values(path, lance) == values(path) == expected


def test_a_delete_in_the_same_fragment_shows_on_what_it_is_based(tmp_path: Path) -> None:
    """The next delete replaces the deletion file of this one by a file that has its rows, too."""
    path = str(tmp_path / "t.lance")
    dataset: Any = lance_core.write_dataset(rows(0, 1, 2), path)
    dataset.tags.create("gold", 1)

    def fault(name: str, call: Callable[[], None]) -> None:
        call()
        lance_core.dataset(path).delete("x = 1")

    storage = WholeSeconds(path, 0, fault, only="put _versions/")
    opened(storage).delete("x = 0")
    assert values(path, lance) == values(path) == [2]
    versions = lance_core.dataset(path).versions()
    assert [each["version"] for each in versions] == [1, 2, 3]


SETTINGS: dict[str, Callable[[FaultStorage], object]] = {
    "settings": CHANGES["settings"],
    "settings of a column": lambda storage: opened(storage).update_field_metadata({"x": {"key": "value"}}),
    "drop a column": lambda storage: opened(storage).drop_columns(["y"]),
}


@pytest.mark.parametrize("change", SETTINGS)
def test_settings_show_on_what_the_next_version_is_based(change: str, tmp_path: Path) -> None:
    """The next version has the new settings. So it does not matter that a tag may keep the version before."""
    path = str(tmp_path / "t.lance")
    dataset: Any = lance_core.write_dataset(rows(0).append_column("y", rows(1)["x"]), path)
    dataset.tags.create("gold", 1)

    def fault(name: str, call: Callable[[], None]) -> None:
        call()
        lance_core.dataset(path).update_config({"other": "value"})

    SETTINGS[change](WholeSeconds(path, 0, fault, only="put _versions/"))
    assert [each["version"] for each in lance_core.dataset(path).versions()] == [1, 2, 3]


@pytest.mark.parametrize("change", SETTINGS)
def test_other_settings_are_no_sign(change: str, tmp_path: Path) -> None:
    """T41: the later versions do not have the new settings."""
    path = str(tmp_path / "t.lance")
    dataset: Any = lance_core.write_dataset(rows(0).append_column("y", rows(1)["x"]), path)
    dataset.tags.create("gold", 1)

    def others() -> None:
        for key in ("one", "two"):
            lance_core.dataset(path).update_config({key: "value"})
        remove_second(lance)(path)

    with pytest.raises(CommitUnknownError):
        SETTINGS[change](overtaken(path, others, WholeSeconds))


@pytest.mark.parametrize("storage", [FaultStorage, WholeSeconds])
def test_a_delete_of_other_rows_is_no_sign(storage: type[FaultStorage], tmp_path: Path) -> None:
    """T41: the later version has a deletion file of the fragment, without the rows of this delete."""
    path = str(tmp_path / "t.lance")
    lance_core.write_dataset(rows(0, 1, 2), path)

    def others() -> None:
        lance_core.dataset(path).delete("x = 1")
        append(path, 3)
        remove_second(lance_core)(path)

    with pytest.raises(CommitUnknownError):
        opened(overtaken(path, others, storage)).delete("x = 0")
    assert values(path, lance) == values(path) == [0, 2, 3]


@pytest.mark.parametrize("storage", [FaultStorage, WholeSeconds])
def test_a_restored_file_is_no_sign(storage: type[FaultStorage], tmp_path: Path) -> None:
    """T41: a restore adds files that another restore may add, too."""
    path = str(tmp_path / "t.lance")
    lance_core.write_dataset(rows(1), path)
    append(path, 2)
    lance_core.write_dataset(rows(9), path, mode="overwrite")

    def others() -> None:
        lance_core.dataset(path, version=2).restore()
        append(path, 3)
        lance_core.dataset(path).cleanup_old_versions(NOW)

    slow = overtaken(path, others, storage)
    with pytest.raises(CommitUnknownError):
        LanceDataset(slow.uri, snapshot=open_snapshot(slow, 1)).restore()
    assert values(path, lance) == values(path) == [1, 2, 3]


OTHERS: dict[str, tuple[Callable[[LanceDataset], object], list[int]]] = {
    "delete rows": (lambda dataset: dataset.delete("x = 1"), [2, 3, 4]),
    "add a column": (lambda dataset: dataset.add_columns({"y": "x * 2"}), [1, 2, 3, 4]),
}
"""Changes of a fragment, and the rows after all changes of the test."""


@pytest.mark.parametrize("theirs", OTHERS)
def test_a_version_outside_the_history_hides_no_change_of_its_fragments(theirs: str, tmp_path: Path) -> None:
    """T41: the number was that of a change of the fragment, which a third writer has to find out."""
    path = str(tmp_path / "t.lance")
    held = lance_core.write_dataset(rows(0, 1, 2, 3), path, max_rows_per_file=2)
    change, expected = OTHERS[theirs]

    def others() -> None:
        change(lance_core.dataset(path))
        append(path, 4)
        lance_core.dataset(path).cleanup_old_versions(NOW)

    with pytest.raises(CommitUnknownError):
        CHANGES["append"](overtaken(path, others))
    held.delete("x = 0")
    assert values(path, lance) == values(path) == expected
    if theirs == "add a column":
        found = lance_core.dataset(path).to_table().to_pydict()
        assert dict(zip(found["x"], found["y"], strict=True)) == {1: 2, 2: 4, 3: 6, 4: None}
