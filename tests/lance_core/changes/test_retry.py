"""Doing a change again: how often, on what, and when not."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.changes.retry import with_retries
from lance_core.errors import CommitConflictError, CommitUnknownError, InvalidInputError, LanceError
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot

ROWS = pa.table({"a": [1]})
RETRYABLE = CommitConflictError("others changed the same rows", retryable=True)


class Attempts:
    """Fails some times, and adds a version each time as another writer would."""

    def __init__(self, path: Path, failures: int, error: LanceError = RETRYABLE) -> None:
        self._path = path
        self._failures = failures
        self._error = error
        self.versions: list[int] = []

    def __call__(self, snapshot: Snapshot) -> Manifest:
        self.versions.append(snapshot.manifest.version)
        newest = lance_core.write_dataset(ROWS, self._path, mode="append")
        if len(self.versions) <= self._failures:
            raise self._error
        return newest.snapshot.manifest


def test_each_attempt_is_made_on_the_newest_version(tmp_path: Path) -> None:
    opened = lance_core.write_dataset(ROWS, tmp_path).snapshot
    lance_core.write_dataset(ROWS, tmp_path, mode="append")
    attempts = Attempts(tmp_path, failures=3)
    assert with_retries(opened, attempts, "delete").manifest.version == 6
    assert attempts.versions == [1, 3, 4, 5]


@pytest.mark.parametrize("retries", [0, 2])
def test_attempts_are_counted(retries: int, tmp_path: Path) -> None:
    opened = lance_core.write_dataset(ROWS, tmp_path).snapshot
    attempts = Attempts(tmp_path, failures=99)
    with pytest.raises(CommitConflictError, match=f"after {retries + 1} attempts") as caught:
        with_retries(opened, attempts, "delete", conflict_retries=retries)
    assert caught.value.retryable
    assert len(attempts.versions) == retries + 1


def test_no_attempt_begins_after_the_deadline(tmp_path: Path) -> None:
    opened = lance_core.write_dataset(ROWS, tmp_path).snapshot
    attempts = Attempts(tmp_path, failures=99)
    began = time.monotonic()
    with pytest.raises(CommitConflictError, match="too many concurrent writers"):
        with_retries(opened, attempts, "delete", conflict_retries=10**6, retry_timeout=timedelta(seconds=0.3))
    assert time.monotonic() - began < 10
    none = Attempts(tmp_path, failures=99)
    with pytest.raises(CommitConflictError, match="after 1 attempts"):
        with_retries(opened, none, "delete", retry_timeout=timedelta(0))


@pytest.mark.parametrize(
    "error",
    [CommitConflictError("overwritten", retryable=False), CommitUnknownError("nobody knows")],
)
def test_other_errors_are_not_tried_again(error: LanceError, tmp_path: Path) -> None:
    """T38: a change that may have been committed is not committed again."""
    opened = lance_core.write_dataset(ROWS, tmp_path).snapshot
    attempts = Attempts(tmp_path, failures=99, error=error)
    with pytest.raises(type(error)):
        with_retries(opened, attempts, "delete")
    assert attempts.versions == [1]


def test_a_negative_number_is_refused(tmp_path: Path) -> None:
    opened = lance_core.write_dataset(ROWS, tmp_path).snapshot
    with pytest.raises(InvalidInputError, match="conflict_retries"):
        with_retries(opened, Attempts(tmp_path, failures=0), "delete", conflict_retries=-1)
