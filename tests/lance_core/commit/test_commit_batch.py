"""Appends that are committed as one version, and the time that a commit may take."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CommitConflictError, InvalidInputError, UnsupportedFeatureError


def rows(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def append(library: Any, path: Path, read_version: int, *values: int) -> Any:
    write = lance.fragment.write_fragments if library is lance else lance_core.write_fragments
    fragments: Any = write(rows(*values), str(path))
    return library.Transaction(read_version, library.LanceOperation.Append(fragments))


def test_appends_become_one_version(tmp_path: Path) -> None:
    found = []
    for library in (lance_core, lance):
        path = tmp_path / library.__name__
        library.write_dataset(rows(1), str(path))
        library.dataset(str(path)).delete("x > 5")
        transactions = [append(library, path, 2, 2), append(library, path, 1, 3, 4)]
        done = library.LanceDataset.commit_batch(str(path), transactions)
        merged = done["merged"]
        assert merged.operation.fragments == [
            fragment for each in transactions for fragment in each.operation.fragments
        ]
        assert done["dataset"].read_transaction(3).uuid == merged.uuid
        numbers = [fragment.fragment_id for fragment in done["dataset"].get_fragments()]
        found.append((merged.read_version, done["dataset"].version, numbers))
        assert lance.dataset(str(path)).to_table() == rows(1, 2, 3, 4)
    assert found[0] == found[1] == (1, 3, [0, 1, 2])


def test_only_appends_are_committed_as_one(tmp_path: Path) -> None:
    lance_core.write_dataset(rows(1), tmp_path / "t")
    delete = lance_core.Transaction(1, lance_core.LanceOperation.Delete([], [0], "true"))
    for library in (lance_core, lance):
        with pytest.raises(OSError, match=r"[Aa]ppend"):
            library.LanceDataset.commit_batch(
                str(tmp_path / "t"),
                [delete if library is lance_core else lance.Transaction(1, lance.LanceOperation.Restore(1))],
            )
        with pytest.raises(OSError, match="transaction"):
            library.LanceDataset.commit_batch(str(tmp_path / "t"), [])
    with pytest.raises(UnsupportedFeatureError, match="Delete"):
        lance_core.LanceDataset.commit_batch(tmp_path / "t", [delete])
    assert lance_core.dataset(tmp_path / "t").version == 1


@pytest.mark.parametrize("timeout", [timedelta(0), timedelta(seconds=-1)])
def test_a_time_limit_is_positive(timeout: timedelta, tmp_path: Path) -> None:
    lance_core.write_dataset(rows(1), tmp_path / "t")
    with pytest.raises(InvalidInputError, match=r"commit_timeout.*non-zero"):
        lance_core.LanceDataset.commit(
            tmp_path / "t", lance_core.LanceOperation.Append([]), 1, commit_timeout=timeout
        )


def test_no_attempt_begins_after_the_time_limit(tmp_path: Path) -> None:
    """Another writer is faster each time: its versions are made while the commit holds its lock."""
    path = tmp_path / "t"
    lance_core.write_dataset(rows(1), path)
    attempts = []

    class Slower:
        def __init__(self, version: int) -> None:
            attempts.append(version)

        def __enter__(self) -> None:
            lance_core.write_dataset(rows(2), path, mode="append")

        def __exit__(self, *error: object) -> None:
            return None

    for timeout, expected in ((timedelta(microseconds=1), 1), (None, 3), (timedelta(minutes=1), 3)):
        attempts.clear()
        with pytest.raises(CommitConflictError, match=f"faster {expected} times"):
            lance_core.LanceDataset.commit(
                path,
                lance_core.LanceOperation.Append([]),
                1,
                commit_lock=Slower,
                commit_timeout=timeout,
                max_retries=3,
            )
        assert len(attempts) == expected


def test_an_overwrite_without_retries_needs_the_latest_version(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance_core.write_dataset(rows(1), path)
    overwrite = lance_core.LanceOperation.Overwrite(rows().schema, [])
    lance_core.LanceDataset.commit(path, overwrite, read_version=1, max_retries=0)
    with pytest.raises(CommitConflictError, match="Commit conflict for version 2"):
        lance_core.LanceDataset.commit(path, overwrite, read_version=1, max_retries=0)
