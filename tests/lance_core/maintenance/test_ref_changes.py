"""Tags and branches that are made here, beside the reference."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    RefConflictError,
    RefNotFoundError,
    StorageError,
    VersionNotFoundError,
)
from lance_core.maintenance.branches import create_branch
from lance_core.maintenance.tags import create_tag, update_tag
from lance_core.storage import LocalStorage
from lance_core.table.refs import read_branch, read_tag
from lance_core.table.snapshot import open_snapshot
from support.faults.failing_storage import FaultStorage, fails

BAD_NAMES = ["", ".", "..", "a..b", "../x", "a b", "x.lock", "a\0", "a\\b", "a\nb", "%2e", "x" * 300, "é"]


def rows(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def values(dataset: Any) -> list[int]:
    return sorted(dataset.to_table()["x"].to_pylist())


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Three versions on main."""
    place = str(tmp_path / "t.lance")
    for number in range(3):
        lance_core.write_dataset(rows(number), place, mode="append")
    return place


# What is done to the tags and branches of a dataset with three versions, by either library.
Act = Callable[[Any], object]
ACTS: dict[str, Act] = {
    "tag a version": lambda ds: ds.tags.create("new", 2),
    "tag what is open": lambda ds: ds.checkout_version(2).tags.create("new"),
    "tag the latest version": lambda ds: ds.checkout_version(1).tags.create("new", (None, None)),
    "tag a version of main": lambda ds: ds.tags.create("new", ("main", 2)),
    "tag what another tag names": lambda ds: ds.tags.create("new", "old"),
    "tag a version of a branch": lambda ds: ds.tags.create("new", ("dev", 2)),
    "tag the latest of a branch": lambda ds: ds.tags.create("new", ("dev", None)),
    "tag from a branch": lambda ds: ds.checkout_version(("dev", None)).tags.create("new"),
    "tag a number from a branch": lambda ds: ds.checkout_version(("dev", None)).tags.create("new", 2),
    "tag twice": lambda ds: ds.tags.create("old", 1),
    "tag a missing version": lambda ds: ds.tags.create("new", 9),
    "tag by a missing tag": lambda ds: ds.tags.create("new", "missing"),
    "move a tag": lambda ds: ds.tags.update("old", 3),
    "move a tag to what is open": lambda ds: ds.checkout_version(2).tags.update("old"),
    "move a tag to a branch": lambda ds: ds.tags.update("old", ("dev", 2)),
    "move a missing tag": lambda ds: ds.tags.update("missing", 1),
    "move a tag to a missing version": lambda ds: ds.tags.update("old", 9),
    "delete a tag": lambda ds: ds.tags.delete("old"),
    "delete a missing tag": lambda ds: ds.tags.delete("missing"),
    "note on a tag": lambda ds: ds.tags.replace_metadata("old", {"key": "value"}),
    "note on a missing tag": lambda ds: ds.tags.replace_metadata("missing", {}),
    "branch from what is open": lambda ds: ds.checkout_version(1).create_branch("new"),
    "branch from a version": lambda ds: ds.create_branch("new", 2),
    "branch from a tag": lambda ds: ds.create_branch("new", "old"),
    "branch from a branch": lambda ds: ds.create_branch("new", ("dev", None)),
    "branch below a branch": lambda ds: ds.create_branch("dev/new", ("dev", None)),
    "branch from a missing version": lambda ds: ds.create_branch("new", 9),
    "branch twice": lambda ds: ds.create_branch("dev", 1),
    "branch called main": lambda ds: ds.create_branch("main", 1),
    "delete a branch": lambda ds: ds.branches.delete("free"),
    "delete a branch that one stands on": lambda ds: ds.branches.delete("dev"),
    "delete a branch with a tag": lambda ds: ds.branches.delete("tagged"),
    "delete a missing branch": lambda ds: ds.branches.delete("missing"),
    "note on a branch": lambda ds: ds.branches.replace_metadata("dev", {"key": "value"}),
    "note on a missing branch": lambda ds: ds.branches.replace_metadata("missing", {}),
}


def prepared(place: Path) -> lance.LanceDataset:
    for number in range(3):
        dataset = lance.write_dataset(rows(number), str(place), mode="append")
    dataset.tags.create("old", 1)
    dev = dataset.create_branch("dev", 2)
    dev.insert(rows(100))
    dev.create_branch("standing")
    dataset.create_branch("free", 1)
    tagged = dataset.create_branch("tagged", 1)
    tagged.tags.create("of-tagged")
    return lance.dataset(str(place))


def refs(path: str) -> tuple[dict[str, object], dict[str, object]]:
    """Return the references that the reference lists, without times, sizes and random ids."""
    dataset = lance.dataset(path)
    tags = {
        name: (tag["branch"], tag["version"], tag["metadata"], tag["created_at"] == tag["updated_at"])
        for name, tag in dataset.tags.list().items()
    }
    branches = {
        name: (
            branch["parent_branch"],
            branch["parent_version"],
            [step[0] for step in branch["branch_identifier"]],
            branch["metadata"],
            values(dataset.checkout_version((name, None))),
        )
        for name, branch in dataset.branches.list().items()
    }
    return tags, branches


@pytest.mark.parametrize("name", ACTS)
def test_refs_change_as_by_the_reference(name: str, tmp_path: Path) -> None:
    outcomes = []
    for library in (lance, lance_core):
        place = tmp_path / f"{library.__name__}.lance"
        prepared(place)
        expected = (OSError, ValueError) if library is lance else LanceError
        try:
            ACTS[name](library.dataset(str(place)))
            failed = False
        except expected:
            failed = True
        outcomes.append((failed, refs(str(place))))
    assert outcomes[0] == outcomes[1]


def test_errors_say_what_is_wrong(path: str) -> None:
    dataset = lance_core.dataset(path)
    dataset.tags.create("gold", 2)
    dev = dataset.create_branch("dev")
    dev.tags.create("of-dev")
    dev.create_branch("child")
    with pytest.raises(RefConflictError, match="tag 'gold' already exists"):
        dataset.tags.create("gold", 1)
    with pytest.raises(VersionNotFoundError):
        dataset.tags.create("new", 9)
    with pytest.raises(RefNotFoundError, match="no tag 'missing'"):
        dataset.tags.delete("missing")
    with pytest.raises(RefConflictError, match="branch 'dev' already exists"):
        dataset.create_branch("dev")
    with pytest.raises(RefConflictError, match=r"base of other branches.*child"):
        dataset.branches.delete("dev")
    dataset.branches.delete("child")
    with pytest.raises(RefConflictError, match=r"tags.*of-dev"):
        dataset.branches.delete("dev")
    with pytest.raises(RefNotFoundError, match="no branch 'missing'"):
        dataset.branches.delete("missing")
    with pytest.raises(TypeError, match="text"):
        dataset.tags.replace_metadata("gold", {"key": 1})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_lead_elsewhere_are_refused(path: str, name: str) -> None:
    """T9"""
    dataset = lance_core.dataset(path)
    before = sorted(file.path for file in dataset.root.list_files(""))
    with pytest.raises(InvalidInputError):
        dataset.tags.create(name, 1)
    for branch in (name, f"dev/{name}", f"{name}/dev"):
        with pytest.raises(InvalidInputError):
            dataset.create_branch(branch, 1)
    with pytest.raises((InvalidInputError, RefNotFoundError)):
        dataset.branches.delete(name)
    assert sorted(file.path for file in dataset.root.list_files("")) == before


@pytest.mark.parametrize("part", ["_versions", "data", "_indices"])
def test_a_branch_does_not_take_the_place_of_a_part_of_another(path: str, part: str) -> None:
    with pytest.raises(InvalidInputError, match=part):
        lance_core.dataset(path).create_branch(f"dev/{part}")
    assert lance_core.dataset(path).create_branch(part).uri == f"{path}/tree/{part}"


def test_a_branch_is_a_table_of_its_own(path: str) -> None:
    dataset = lance_core.dataset(path)
    branch = dataset.create_branch("feature/one", 2)
    assert (branch.version, branch.uri) == (2, f"{path}/tree/feature/one")
    branch.insert(rows(100))
    lance.write_dataset(rows(200), branch.uri, mode="append")
    lance.dataset(branch.uri).delete("x = 0")

    assert values(lance_core.dataset(path)) == [0, 1, 2]
    for library in (lance, lance_core):
        opened = library.dataset(path).checkout_version(("feature/one", None))
        assert (opened.version, values(opened)) == (5, [1, 100, 200])
        assert values(library.dataset(branch.uri)) == [1, 100, 200]
        assert values(library.dataset(branch.uri).checkout_version(2)) == [0, 1]
    lance.dataset(branch.uri).validate()


def test_branches_of_branches_and_their_tags(path: str) -> None:
    dataset = lance_core.dataset(path)
    one = dataset.create_branch("one", 1)
    one.insert(rows(10))
    two = one.create_branch("two")
    two.insert(rows(20))
    two.tags.create("end")
    three = lance_core.dataset(two.uri).create_branch("one/three", "end")

    assert values(three) == [0, 10, 20]
    assert values(lance.dataset(path).checkout_version("end")) == [0, 10, 20]
    assert values(lance.dataset(path).checkout_version(("one/three", None))) == [0, 10, 20]
    steps = lance.dataset(path).branches.list()["one/three"]["branch_identifier"]
    assert [step[0] for step in steps] == [1, 2, 3]
    three.branches.delete("one/three")
    assert values(lance_core.dataset(path).checkout_version(("one", None))) == [0, 10]
    assert not (Path(path) / "tree" / "one" / "three").exists()


def test_deleting_a_branch_keeps_those_below_its_name(path: str) -> None:
    dataset = lance_core.dataset(path)
    dataset.create_branch("a", 1).insert(rows(1))
    dataset.create_branch("a/b", 2)
    dataset.branches.delete("a")

    assert values(lance_core.dataset(path).checkout_version(("a/b", None))) == [0, 1]
    assert sorted(entry.name for entry in (Path(path) / "tree" / "a").iterdir()) == ["b"]
    dataset.create_branch("a", 1)
    assert values(lance.dataset(path).checkout_version(("a", None))) == [0]


def test_indices_and_deletions_are_found_through_the_base(tmp_path: Path) -> None:
    place = str(tmp_path / "t.lance")
    theirs = lance.write_dataset(rows(*range(100)), place)
    theirs.create_scalar_index("x", "BTREE")
    theirs.delete("x = 7")
    branch = lance_core.dataset(place).create_branch("dev")

    opened = lance.dataset(branch.uri)
    assert opened.to_table(filter="x = 8")["x"].to_pylist() == [8]
    assert "ScalarIndexQuery" in opened.scanner(filter="x = 8").explain_plan()
    assert opened.count_rows() == 99
    opened.delete("x = 9")
    assert lance_core.dataset(branch.uri).count_rows() == 98


def test_times_are_those_of_the_changes(path: str) -> None:
    dataset = lance_core.dataset(path)
    dataset.tags.create("gold", 1)
    created = dataset.tags.list()["gold"]
    dataset.tags.replace_metadata("gold", {"a": "b"})
    dataset.tags.update("gold", 2)
    moved = lance.dataset(path).tags.list()["gold"]

    assert moved["created_at"] == created["created_at"] == created["updated_at"] < moved["updated_at"]
    assert (moved["version"], moved["metadata"]) == (2, {"a": "b"})
    assert moved["manifest_size"] == dataset.checkout_version(2).snapshot.manifest.size
    content = json.loads((Path(path) / "_refs/tags/gold.json").read_text())
    assert content["createdAt"].endswith("Z")


def test_a_ref_to_a_version_that_is_cleaned_up_meanwhile_is_taken_back(path: str) -> None:
    """T41: cleanup ran after the version was looked up."""
    storage = LocalStorage(path)
    target = open_snapshot(storage, 1)
    create_tag(storage, "old", open_snapshot(storage, 2))
    storage.delete_file(target.manifest.name)
    with pytest.raises(VersionNotFoundError):
        create_tag(storage, "gold", target)
    with pytest.raises(VersionNotFoundError):
        update_tag(storage, "old", target)
    with pytest.raises(VersionNotFoundError):
        create_branch(storage, "dev", target)

    assert read_tag(storage, "old").version == 2
    with pytest.raises(RefNotFoundError):
        read_tag(storage, "gold")
    with pytest.raises(RefNotFoundError):
        read_branch(storage, "dev")
    assert not (Path(path) / "tree" / "dev").exists()


def test_a_fault_at_any_call_leaves_a_branch_or_none(path: str) -> None:
    """T40: an incomplete branch can be deleted, and the branch can be created again."""
    for at in range(20):
        storage = FaultStorage(path, at, fails)
        try:
            create_branch(storage, "dev", open_snapshot(storage, 2))
        except StorageError:
            pass
        else:
            assert len(storage.calls) <= at
            break
        names = lance.dataset(path).branches.list()
        assert lance_core.dataset(path).branches.list() == names
        if not names and (Path(path) / "tree" / "dev" / "_versions").exists():
            lance_core.dataset(path).branches.delete("dev")
        elif names:
            assert values(lance.dataset(path).checkout_version(("dev", None))) == [0, 1]
            lance_core.dataset(path).branches.delete("dev")
    else:
        pytest.fail("creating a branch takes more calls than expected")
    assert values(lance.dataset(path).checkout_version(("dev", None))) == [0, 1]


def test_what_was_broken_off_is_named(path: str) -> None:
    dataset = lance_core.dataset(path)
    dataset.create_branch("dev", 2)
    (Path(path) / "_refs" / "branches" / "dev.json").unlink()
    with pytest.raises(RefConflictError, match="creation was interrupted"):
        dataset.create_branch("dev", 1)
    dataset.branches.delete("dev")
    assert values(dataset.create_branch("dev", 1)) == [0]


def test_checkout_of_a_branch_that_is_gone(path: str) -> None:
    dataset = lance_core.dataset(path)
    dataset.create_branch("dev")
    dataset.branches.delete("dev")
    with pytest.raises(DatasetNotFoundError, match="no branch 'dev'"):
        dataset.checkout_version(("dev", None))
    assert not (Path(path) / "tree" / "dev").exists()
