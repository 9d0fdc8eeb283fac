"""Locks of the caller that are held while a version is made."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock
from types import TracebackType

import lance
import pyarrow as pa
import pytest
from fsspec.implementations.local import LocalFileSystem

import lance_core
from lance_core.errors import CommitConflictError, CommitUnknownError, StorageError, UnsupportedFeatureError

TABLE = pa.table({"x": pa.array([1, 2, 3], pa.int64())})


class Notes:
    """Lock that notes when it is taken and released, and which manifests there were."""

    def __init__(self, path: Path) -> None:
        self.versions = path / "_versions"
        self.events: list[tuple[str, int, int]] = []

    def __call__(self, version: int) -> AbstractContextManager[None]:
        return self.held(version)

    @contextmanager
    def held(self, version: int) -> Iterator[None]:
        self.events.append(("taken", version, self.num_manifests()))
        yield
        self.events.append(("released", version, self.num_manifests()))

    def num_manifests(self) -> int:
        return len(list(self.versions.glob("*.manifest")))


CHANGES: dict[str, Callable[[lance_core.LanceDataset, Notes], object]] = {
    "delete": lambda dataset, lock: dataset.delete("x = 1"),
    "update_config": lambda dataset, lock: dataset.update_config({"a": "b"}),
    "insert": lambda dataset, lock: dataset.insert(TABLE),
    "write_dataset": lambda dataset, lock: lance_core.write_dataset(TABLE, dataset, mode="append"),
    "by path": lambda dataset, lock: lance_core.write_dataset(
        TABLE, dataset.uri, mode="append", commit_lock=lock
    ),
    "commit": lambda dataset, lock: lance_core.LanceDataset.commit(
        dataset.uri, lance_core.LanceOperation.Append([]), read_version=1, commit_lock=lock
    ),
    "commit of the dataset": lambda dataset, lock: lance_core.LanceDataset.commit(
        dataset, lance_core.LanceOperation.Append([]), read_version=1
    ),
    "compaction": lambda dataset, lock: dataset.optimize.compact_files(materialize_deletions_threshold=0),
    "another version": lambda dataset, lock: dataset.checkout_version(1).delete("x = 1"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_lock_is_held_while_the_version_is_made(change: str, tmp_path: Path) -> None:
    lock = Notes(tmp_path / "t")
    lance_core.write_dataset(TABLE, tmp_path / "t")
    num_versions = 1
    if change == "compaction":
        lance_core.dataset(tmp_path / "t").insert(TABLE)
        num_versions = 2
    CHANGES[change](lance_core.dataset(tmp_path / "t", commit_lock=lock), lock)
    made = num_versions + 1
    assert lock.events[-2:] == [("taken", made, made - 1), ("released", made, made)]
    assert lance.dataset(str(tmp_path / "t")).version == made


def test_the_dataset_of_a_write_keeps_the_lock(tmp_path: Path) -> None:
    lock = Notes(tmp_path / "t")
    dataset = lance_core.write_dataset(TABLE, tmp_path / "t", commit_lock=lock)
    branch = dataset.create_branch("b")
    branch.delete("x = 1")
    dataset.delete("x = 1")
    # The branch begins with version 1, whose number its own first manifest gets.
    assert [event[:2] for event in lock.events if event[0] == "taken"] == [
        ("taken", 1),
        ("taken", 1),
        ("taken", 2),
        ("taken", 2),
    ]


def files(path: Path) -> list[Path]:
    return sorted(each for each in path.rglob("*") if each.is_file())


def refuse(version: int) -> AbstractContextManager[None]:
    raise RuntimeError(f"no lock for {version}")


def lose(version: int) -> AbstractContextManager[None]:
    raise CommitConflictError


@pytest.mark.parametrize(("lock", "reason"), [(refuse, "no lock for 2"), (lose, "CommitConflictError")])
def test_a_lock_that_refuses_leaves_nothing(
    lock: Callable[[int], AbstractContextManager[None]], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    lance_core.write_dataset(TABLE, path)
    before = files(path)
    with pytest.raises(StorageError, match=f"refused version 2.*{reason}"):
        lance_core.write_dataset(TABLE, path, mode="append", commit_lock=lock)
    with pytest.raises(OSError, match=reason):
        lance_core.dataset(path, commit_lock=lock).delete("x = 1")
    assert files(path) == before
    with pytest.raises(OSError, match="no lock for 2"):  # the reference raises an OSError, too
        lance.write_dataset(TABLE, str(path), mode="append", commit_lock=refuse)


def test_a_lock_that_fails_after_the_version_was_made_is_told_apart(tmp_path: Path) -> None:
    """The version exists, so nothing may be removed, and a caller must not repeat the change blindly."""

    @contextmanager
    def fail_at_the_end(version: int) -> Iterator[None]:
        yield
        raise RuntimeError("too late")

    lance_core.write_dataset(TABLE, tmp_path / "t")
    with pytest.raises(CommitUnknownError, match=r"version 2 was made.*RuntimeError: too late"):
        lance_core.write_dataset(TABLE, tmp_path / "t", mode="append", commit_lock=fail_at_the_end)
    assert lance.dataset(str(tmp_path / "t")).count_rows() == 6


def test_a_lost_race_tells_the_lock_and_goes_on(tmp_path: Path) -> None:
    seen: list[type[BaseException] | None] = []

    class Racing:
        """Lock before whose first use another writer makes the version."""

        def __init__(self, version: int) -> None:
            self.version = version

        def __enter__(self) -> None:
            if self.version == 2:
                lance.write_dataset(TABLE, str(tmp_path / "t"), mode="append")

        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            traceback: TracebackType | None,
        ) -> None:
            seen.append(kind)
            if kind is not None:
                raise RuntimeError("hides nothing")

    made = lance_core.write_dataset(TABLE, tmp_path / "t")
    made = lance_core.write_dataset(TABLE, tmp_path / "t", mode="append", commit_lock=Racing)
    assert made.version == 3
    assert made.count_rows() == 9
    assert [kind and kind.__name__ for kind in seen] == ["AlreadyExistsError", None]


def test_what_is_no_function_is_refused(tmp_path: Path) -> None:
    lance_core.write_dataset(TABLE, tmp_path / "t")
    wrong: lance_core.api.commit.CommitLock = 3  # type: ignore[assignment]
    for call in (
        lambda: lance_core.dataset(tmp_path / "t", commit_lock=wrong),
        lambda: lance_core.write_dataset(TABLE, tmp_path / "t", mode="append", commit_lock=wrong),
        lambda: lance_core.LanceDataset.commit(
            tmp_path / "t", lance_core.LanceOperation.Append([]), 1, commit_lock=wrong
        ),
    ):
        with pytest.raises(TypeError, match="commit_lock must be a function, got int"):
            call()


def test_a_pickled_dataset_has_no_lock(tmp_path: Path) -> None:
    lock = Notes(tmp_path / "t")
    dataset = pickle.loads(pickle.dumps(lance_core.write_dataset(TABLE, tmp_path / "t", commit_lock=lock)))
    lock.events.clear()
    dataset.delete("x = 1")
    assert not lock.events


def test_a_lock_makes_a_storage_without_an_exclusive_put_writable(tmp_path: Path) -> None:
    """Threads append, each with the lock, and no version is lost."""
    uri = f"local://{tmp_path}/t"
    with pytest.raises(UnsupportedFeatureError, match="a commit lock"):
        lance_core.write_dataset(TABLE, uri)
    mutex = Lock()

    def lock(version: int) -> AbstractContextManager[object]:
        return mutex

    lance_core.write_dataset(TABLE, uri, commit_lock=lock)
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(
                lambda _: lance_core.write_dataset(TABLE, uri, mode="append", commit_lock=lock), range(8)
            )
        )
    assert (lance.dataset(f"{tmp_path}/t").version, lance.dataset(f"{tmp_path}/t").count_rows()) == (9, 27)


def test_a_version_appears_whole_in_a_storage_that_shows_unfinished_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers do not take the lock. A rename that fails leaves no version and no file."""
    uri = f"local://{tmp_path}/t"
    versions = tmp_path / "t" / "_versions"
    mutex = Lock()
    rename = LocalFileSystem.mv
    seen: list[int] = []

    def observed(files: LocalFileSystem, source: str, target: str, **arguments: object) -> None:
        if target.endswith(".manifest"):
            seen.append(lance_core.dataset(uri).version if list(versions.glob("*.manifest")) else 0)
        rename(files, source, target, **arguments)

    def failed(files: LocalFileSystem, source: str, target: str, **arguments: object) -> None:
        raise OSError("no rename")

    monkeypatch.setattr(LocalFileSystem, "mv", observed)
    lance_core.write_dataset(TABLE, uri, commit_lock=lambda version: mutex)
    lance_core.write_dataset(TABLE, uri, mode="append", commit_lock=lambda version: mutex)
    assert seen == [0, 1]
    before = files(tmp_path)
    monkeypatch.setattr(LocalFileSystem, "mv", failed)
    with pytest.raises(StorageError):
        lance_core.write_dataset(TABLE, uri, mode="append", commit_lock=lambda version: mutex)
    assert files(tmp_path) == before
