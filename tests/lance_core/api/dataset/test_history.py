"""Random histories with tags, branches, restored and cleaned up versions, made by both libraries in turn."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lance_core
from lance_core.errors import DatasetNotFoundError
from support.runs.draws import draws

LIBRARIES = (lance, lance_core)
ACTS = [
    "append",
    "append",
    "delete",
    "update",
    "overwrite",
    "configure",
    "restore",
    "compact",
    "tag",
    "move tag",
    "delete tag",
    "branch",
    "delete branch",
    "clean up",
    "clean up",
]


class Step(NamedTuple):
    act: str
    library: int
    first: int
    second: int


steps = st.lists(
    st.builds(Step, st.sampled_from(ACTS), st.integers(0, 1), st.integers(0, 99), st.integers(0, 99)),
    min_size=6,
    max_size=16,
)


def values(dataset: Any) -> list[int]:
    return sorted(dataset.to_table()["x"].to_pylist())


class World:
    """A dataset, and what is known of it. `None` is the main branch."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.next_value = 0
        self.rows: dict[str | None, dict[int, list[int]]] = {None: {}}
        """Rows by branch and version."""
        self.tags: dict[str, tuple[str | None, int]] = {}
        self.parents: dict[str, tuple[str | None, int]] = {}
        self.names = 0
        lance.write_dataset(self._new(3), path)
        self.rows[None][1] = [0, 1, 2]

    def _new(self, count: int) -> pa.Table:
        first = self.next_value
        self.next_value += count
        return pa.table({"x": pa.array(range(first, first + count), pa.int64())})

    def open(self, library: Any, branch: str | None, version: int | None = None) -> Any:
        return library.dataset(self.path).checkout_version((branch, version))

    def run(self, step: Step) -> None:
        library = LIBRARIES[step.library]
        branch = sorted(self.rows, key=str)[step.first % len(self.rows)]
        versions = sorted(self.rows[branch])
        version = versions[step.second % len(versions)]
        dataset = self.open(library, branch)
        latest = self.rows[branch][versions[-1]]
        match step.act:
            case "append" | "overwrite" as mode:
                table = self._new(1 + step.second % 3)
                new = table["x"].to_pylist()
                dataset.insert(table, mode=mode)
                self.made(dataset, branch, [*latest, *new] if mode == "append" else new)
            case "delete" if latest:
                gone = latest[step.second % len(latest)]
                dataset.delete(f"x = {gone}")
                self.made(dataset, branch, [value for value in latest if value != gone])
            case "update" if latest:
                old, new = latest[step.second % len(latest)], self._new(1)["x"][0].as_py()
                dataset.update({"x": str(new)}, where=f"x = {old}")
                self.made(dataset, branch, [new if value == old else value for value in latest])
            case "configure":
                dataset.update_config({"key": str(step.second)})
                self.made(dataset, branch, latest)
            case "restore":
                old = self.open(library, branch, version)
                old.restore()
                self.made(old, branch, self.rows[branch][version])
            case "compact":
                dataset.optimize.compact_files()
                for number in range(versions[-1] + 1, self.open(lance, branch).version + 1):
                    self.rows[branch][number] = latest
            case "tag":
                name = f"tag{self.names}"
                self.names += 1
                library.dataset(self.path).tags.create(name, (branch, version))
                self.tags[name] = (branch, version)
            case "move tag" if self.tags:
                name = sorted(self.tags)[step.first % len(self.tags)]
                library.dataset(self.path).tags.update(name, (branch, version))
                self.tags[name] = (branch, version)
            case "delete tag" if self.tags:
                name = sorted(self.tags)[step.first % len(self.tags)]
                library.dataset(self.path).tags.delete(name)
                del self.tags[name]
            case "branch" if len(self.rows) < 4:
                name = f"branch{self.names}" if branch is None else f"{branch}/{self.names}"
                self.names += 1
                library.dataset(self.path).create_branch(name, (branch, version))
                self.rows[name] = {version: self.rows[branch][version]}
                self.parents[name] = (branch, version)
            case "delete branch" if branch is not None:
                needed = branch in {parent for parent, _ in self.parents.values()}
                needed |= branch in {where for where, _ in self.tags.values()}
                if needed:
                    with pytest.raises((OSError, ValueError)):
                        library.dataset(self.path).branches.delete(branch)
                else:
                    library.dataset(self.path).branches.delete(branch)
                    del self.rows[branch], self.parents[branch]
            case "clean up":
                self.clean_up(step, branch, dataset)

    def made(self, dataset: Any, branch: str | None, rows: list[int]) -> None:
        assert dataset.version == max(self.rows[branch]) + 1
        self.rows[branch][dataset.version] = rows

    def clean_up(self, step: Step, branch: str | None, dataset: Any) -> None:
        limits: list[dict[str, Any]] = [
            {"older_than": timedelta(0)},
            {"retain_versions": 1 + step.second % 3},
            {"versions": sorted(self.rows[branch])[:: 1 + step.second % 2]},
            {"older_than": timedelta(0), "delete_unverified": True},
        ]
        dataset.cleanup_old_versions(**limits[step.second % len(limits)], error_if_tagged_old_versions=False)
        left = {entry["version"] for entry in self.open(lance_core, branch).versions()}
        kept = {version for where, version in self.tags.values() if where == branch}
        kept |= {max(self.rows[branch])}
        if step.library == 1:  # the reference keeps the files alone
            kept |= {version for where, version in self.parents.values() if where == branch}
        assert kept <= left <= set(self.rows[branch])
        self.rows[branch] = {version: self.rows[branch][version] for version in left}

    def check(self) -> None:
        """Every version that is there reads as it was made, by both libraries."""
        for branch, versions in self.rows.items():
            for version, rows in versions.items():
                for library in LIBRARIES:
                    assert values(self.open(library, branch, version)) == sorted(rows)
        for library in LIBRARIES:
            dataset = library.dataset(self.path)
            assert {name: (tag["branch"], tag["version"]) for name, tag in dataset.tags.list().items()} == (
                self.tags
            )
            assert set(dataset.branches.list()) == set(self.parents)
            dataset.validate()


def play(history: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(str(Path(directory) / "t.lance"))
        for step in history:
            world.run(step)
            if step.act == "clean up":
                world.check()
        world.check()


@settings(max_examples=draws(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_no_version_that_must_stay_is_ever_broken(history: list[Step]) -> None:
    """T41"""
    play(history)


@pytest.mark.long
@settings(max_examples=draws(400), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_no_version_that_must_stay_is_ever_broken_in_many_histories(history: list[Step]) -> None:
    """T41"""
    play(history)


def test_a_branch_whose_parent_version_is_gone_still_reads(tmp_path: Path) -> None:
    """The reference removes the version that a branch began with, and keeps its files."""
    world = World(str(tmp_path / "t.lance"))
    for step in (Step("branch", 1, 0, 0), Step("overwrite", 0, 0, 1), Step("clean up", 0, 0, 0)):
        world.run(step)
    world.check()
    world.run(Step("clean up", 1, 0, 0))
    world.check()
    with pytest.raises(DatasetNotFoundError):
        lance_core.dataset(world.path).checkout_version(99)
