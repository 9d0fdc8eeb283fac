"""Changes of tags, branches and clones whose process is killed at every call to the storage."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import lance
import pytest

import lance_core
from lance_core.commit.transaction_lookup import find_committed
from lance_core.errors import DatasetExistsError, DatasetNotFoundError, RefConflictError, RefNotFoundError
from lance_core.storage import LocalStorage
from support.changes import ref_changes
from support.changes.ref_changes import ID, REF_CHANGES, SOURCE, make_change, make_table
from support.faults.killing import kill_at_every_call

RANDOM = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def rows(dataset: Any) -> list[int]:
    return sorted(dataset.to_table()["x"].to_pylist())


def seen(library: Any, path: Path) -> dict[str, object]:
    """Rows of all tags and branches, and what is noted on them."""
    dataset = library.dataset(str(path))
    refs: dict[str, object] = {"main": (dataset.version, rows(dataset))}
    for name, tag in dataset.tags.list().items():
        refs[f"tag {name}"] = (tag["version"], tag["metadata"], rows(dataset.checkout_version(name)))
    for name, branch in dataset.branches.list().items():
        opened = dataset.checkout_version((name, None))
        refs[f"branch {name}"] = (branch["parent_version"], branch["metadata"], rows(opened))
        assert opened.validate() is None
    return refs


def files(path: Path) -> list[str]:
    return sorted(RANDOM.sub("*", str(file.relative_to(path))) for file in path.rglob("*.*"))


def clean_up(path: Path) -> None:
    """Remove what no version of any branch names."""
    main = lance_core.dataset(path)
    for dataset in [main, *(main.checkout_version((name, None)) for name in main.branches.list())]:
        dataset.cleanup_old_versions(older_than=None, retain_versions=100, delete_unverified=True)


def make_again(path: Path, kind: str, *, made: bool) -> None:
    """Make a change that may have been made, or begun."""
    root = LocalStorage(str(path))
    if kind.startswith("create") and made:
        with pytest.raises(RefConflictError, match="already exists"):
            make_change(root, kind)
        return
    try:
        make_change(root, kind)
    except RefNotFoundError:
        if not (kind.startswith("delete") and made):
            raise
    except RefConflictError as error:  # the files of a branch that nothing names yet
        begun = re.fullmatch("branch '(.*)' is being created, or its creation was interrupted.*", str(error))
        if begun is None:
            raise
        lance_core.dataset(path).branches.delete(begun[1])
        make_change(root, kind)


@pytest.mark.parametrize("when", ["BEFORE", pytest.param("AFTER", marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", REF_CHANGES)
def test_killed_at_every_call(kind: str, when: str, tmp_path: Path) -> None:
    """T35: kill -9 leaves the refs as before or as after; the change can be made again, and nothing stays."""
    make_table(tmp_path / "before")
    before = seen(lance, tmp_path / "before")
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    make_change(LocalStorage(str(tmp_path / "after")), kind)
    after = seen(lance, tmp_path / "after")
    assert before != after

    count = kill_at_every_call(tmp_path, ref_changes.__name__, kind, when)
    assert count >= 2
    states = []
    for number in range(count):
        path = tmp_path / str(number)
        found = seen(lance, path)
        assert found == seen(lance_core, path)
        assert found in (before, after)
        states.append(found == after)
        make_again(path, kind, made=found == after)
        assert seen(lance, path) == seen(lance_core, path) == after
        clean_up(path)
        assert files(path) == files(tmp_path / "after")

    assert states == sorted(states), "a change that was there disappeared"
    assert states[-1]
    assert not states[0] or when == "AFTER"


@pytest.mark.parametrize("when", ["BEFORE", "AFTER"])
def test_clones_killed_at_every_call(when: str, tmp_path: Path) -> None:
    """T35: there is a clone or none; the same transaction again makes it, or is found in it."""
    make_table(tmp_path / SOURCE)
    expected = rows(lance.dataset(str(tmp_path / SOURCE)))
    count = kill_at_every_call(tmp_path, ref_changes.__name__, "clone", when)
    states = []
    for number in range(count):
        path = tmp_path / str(number)
        storage = LocalStorage(str(path))
        made = find_committed(storage, ID, {"clone"})
        states.append(made is not None)
        if made is None:
            with pytest.raises(DatasetNotFoundError):
                lance_core.dataset(path)
            with pytest.raises(ValueError, match="not found"):
                lance.dataset(str(path))
            make_change(storage, "clone")
        else:
            with pytest.raises(DatasetExistsError):
                make_change(storage, "clone")
        for library in (lance, lance_core):
            dataset = library.dataset(str(path))
            assert rows(dataset) == expected
            assert [version["version"] for version in dataset.versions()] == [3]
        lance_core.dataset(path).cleanup_old_versions(older_than=None, delete_unverified=True)
        assert files(path) == files(tmp_path / str(count - 1))

    assert states == sorted(states)
    assert not states[0]
    assert states[-1]
