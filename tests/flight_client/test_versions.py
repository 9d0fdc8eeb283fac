"""Versions, tags, branches and sizes of remote datasets: equal to those of the same dataset in the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_core
from flight_client import (
    Client,
    DatasetNotFoundError,
    InvalidInputError,
    RefConflictError,
    RefNotFoundError,
    RemoteDataset,
)


@pytest.fixture
def local(written: Path) -> lance_core.LanceDataset:
    """Three versions with a deletion, settings, a tag; and a branch with a row of its own."""
    rows = pa.table({"x": range(10)}).replace_schema_metadata({"of": "schema"})
    dataset = lance_core.write_dataset(rows, written / "t.lance", max_rows_per_file=6)
    dataset.delete("x = 3")
    dataset.update_config({"key": "value"})
    dataset.update_metadata({"note": "text"})
    dataset.tags.create("first", 1)
    dataset.create_branch("dev", 2).insert(pa.table({"x": [100]}))
    return dataset


@pytest.fixture
def remote(local: lance_core.LanceDataset, writer: Client) -> RemoteDataset:
    return writer.dataset("t")


def test_facts_are_those_of_the_dataset(remote: RemoteDataset, local: lance_core.LanceDataset) -> None:
    assert remote.versions() == local.versions()
    assert remote.version_refs() == local.version_refs()
    assert remote.get_version() == local.get_version()
    assert remote.latest_version == local.latest_version == 4
    assert remote.data_storage_version == local.data_storage_version
    assert remote.fragment_ids() == list(local.fragment_ids()) == [0, 1]
    assert remote.count_deleted_rows() == local.count_deleted_rows() == 1
    assert (remote.config(), remote.metadata) == (local.config(), local.metadata)
    assert remote.schema_metadata == local.schema_metadata == {"of": "schema"}
    assert (remote.has_index, remote.describe_indices()) == (False, [])
    assert len(remote) == len(local) == 9
    remote.validate()


def test_facts_are_those_of_the_opened_version(remote: RemoteDataset) -> None:
    first = remote.checkout_version(1)
    assert (first.count_deleted_rows(), first.config(), first.metadata) == (0, {}, {})
    assert first.get_version()["version"] == 1
    assert first.latest_version == 4


@pytest.mark.parametrize(
    ("reference", "version", "rows"),
    [
        (1, 1, 10),
        ("first", 1, 10),
        ((None, 2), 2, 9),
        (("main", None), 4, 9),
        (("dev", None), 3, 10),
        (("dev", 2), 2, 9),
    ],
)
def test_other_versions(
    reference: Any, version: int, rows: int, remote: RemoteDataset, local: lance_core.LanceDataset
) -> None:
    found = remote.checkout_version(reference)
    assert (found.version, found.count_rows()) == (version, rows)
    assert found.to_table() == local.checkout_version(reference).to_table()


def test_numbers_are_those_of_the_opened_branch(remote: RemoteDataset) -> None:
    branch = remote.checkout_version(("dev", None))
    assert branch.latest_version == 3
    assert [each["version"] for each in branch.versions()] == [2, 3]
    assert branch.checkout_version(2).branch == "dev"
    assert branch.checkout_version("first").branch is None


def test_another_version_keeps_the_filters(remote: RemoteDataset) -> None:
    few = remote.filter("x < 5")
    assert (few.count_rows(), few.checkout_version(1).count_rows()) == (4, 5)
    assert len(few) == 4


@pytest.mark.parametrize("missing", [99, "none", ("none", None), ("dev", 99)])
def test_versions_that_do_not_exist(missing: Any, remote: RemoteDataset) -> None:
    with pytest.raises(DatasetNotFoundError):
        remote.checkout_version(missing)


@pytest.mark.parametrize("wrong", [1.5, True, (1, 2), ("dev", "first"), ("dev",)])
def test_what_is_no_version(wrong: Any, remote: RemoteDataset) -> None:
    with pytest.raises(InvalidInputError, match="version"):
        remote.checkout_version(wrong)


def test_tags(remote: RemoteDataset, local: lance_core.LanceDataset) -> None:
    assert remote.tags.list() == local.tags.list()
    assert remote.tags.get_version("first") == 1
    remote.tags.create("second", 2)
    remote.tags.create("latest")
    remote.checkout_version(3).tags.create("opened")
    remote.tags.create("again", "second")
    remote.tags.create("elsewhere", ("dev", None))
    numbers = {tag: (entry["branch"], entry["version"]) for tag, entry in local.tags.list().items()}
    assert numbers == {
        "first": (None, 1),
        "second": (None, 2),
        "latest": (None, 4),
        "opened": (None, 3),
        "again": (None, 2),
        "elsewhere": ("dev", 3),
    }
    remote.tags.update("first", 3)
    remote.tags.delete("second")
    assert local.tags.get_version("first") == 3
    assert "second" not in remote.tags.list()
    with pytest.raises(RefConflictError):
        remote.tags.create("first", 1)
    for fails in (remote.tags.get_version, remote.tags.delete):
        with pytest.raises(RefNotFoundError, match="none"):
            fails("none")


def test_branches(remote: RemoteDataset, local: lance_core.LanceDataset) -> None:
    assert remote.branches.list() == local.branches.list()
    remote.branches.delete("dev")
    assert local.branches.list() == {}
    with pytest.raises(RefNotFoundError):
        remote.branches.delete("dev")


def test_an_empty_dataset_is_true(remote: RemoteDataset) -> None:
    """Code that tests for None by truth would take an empty dataset for none."""
    nothing = remote.filter("x < 0")
    assert len(nothing) == 0
    assert nothing


def test_slices(remote: RemoteDataset, local: lance_core.LanceDataset) -> None:
    for start, end in ((0, 0), (2, 5), (7, 99), (50, 60)):
        assert remote.slice(start, end, ["x"]) == local.slice(start, end, ["x"])
    assert remote.filter("x > 4").slice(1, 3)["x"].to_pylist() == [6, 7]
    for start, end in ((-1, 2), (3, 2)):
        with pytest.raises(InvalidInputError, match="start and end"):
            remote.slice(start, end)
