"""Cleanup after every so many commits, as the settings of a table ask for it."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError
from lance_core.maintenance.auto_cleanup import parse_duration

TABLE = pa.table({"x": pa.array([1, 2], pa.int64())})


def versions(library: Any, path: Path) -> list[int]:
    return [entry["version"] for entry in library.dataset(str(path)).versions()]


@pytest.mark.parametrize(
    "settings",
    [
        {"interval": "3", "older_than": "0s"},
        {"interval": "1", "older_than": "0ms"},
        {"interval": "0", "older_than": "0s"},
        {"interval": "2", "older_than": "1h 30m"},
        {"interval": "2", "retain_versions": "3"},
        {"older_than": "0s"},
    ],
    ids=lambda settings: "-".join(settings.values()),
)
def test_the_same_versions_go_as_with_the_reference(settings: dict[str, str], tmp_path: Path) -> None:
    found = {}
    for library in (lance_core, lance):
        path = tmp_path / library.__name__
        dataset: Any = library.write_dataset(TABLE, str(path))
        dataset.update_config({f"lance.auto_cleanup.{key}": value for key, value in settings.items()})
        seen = found[library.__name__] = []
        for _ in range(5):
            library.write_dataset(TABLE, str(path), mode="append")
            seen.append(versions(library, path))
        assert library.dataset(str(path)).count_rows() == 12
    assert found["lance_core"] == found["lance"]


def test_named_versions_stay_and_files_of_removed_ones_go(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {"interval": 1, "older_than_seconds": 0}
    dataset = lance_core.write_dataset(TABLE, path, auto_cleanup_options=options)
    dataset.tags.create("gold", 1)
    for _ in range(3):
        dataset.update({"x": "x + 1"})
    assert versions(lance, path) == [1, 3, 4]
    assert dataset.checkout_version("gold").to_table() == TABLE
    assert len(list((path / "data").iterdir())) == 3
    assert dataset.to_table()["x"].to_pylist() == [4, 5]


@pytest.mark.parametrize("age", ["soon", "5 parsecs", ""])
def test_a_cleanup_that_fails_does_not_fail_the_commit(
    age: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t"
    dataset = lance_core.write_dataset(TABLE, path)
    dataset.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": age})
    with caplog.at_level(logging.WARNING):
        dataset.insert(TABLE)
    assert "version 3 is made, but cleaning up after it failed" in caplog.text
    assert versions(lance_core, path) == [1, 2, 3]


def test_durations() -> None:
    assert parse_duration("14days") == timedelta(days=14)
    assert parse_duration(" 1h 30m 5 s ") == timedelta(hours=1, minutes=30, seconds=5)
    assert parse_duration("2M") == timedelta(days=60.88)
    assert parse_duration("1000000y") > timedelta(days=300_000)
    for text in ("1", "h", "1.5h", "-1h"):
        with pytest.raises(InvalidInputError):
            parse_duration(text)


def test_the_cleanup_is_enabled_and_disabled_as_with_the_reference(tmp_path: Path) -> None:
    """The settings of the new version count: the commit that enables the cleanup is the first to clean up."""
    found = {}
    for library in (lance_core, lance):
        path = tmp_path / library.__name__
        dataset: Any = library.write_dataset(TABLE, str(path))
        dataset.insert(TABLE)
        seen = found[library.__name__] = []
        dataset.optimize.enable_auto_cleanup({"interval": 1, "older_than_seconds": 0})
        seen += [dataset.config(), versions(library, path)]
        dataset.insert(TABLE)
        dataset.insert(TABLE)
        seen.append(versions(library, path))
        dataset.optimize.disable_auto_cleanup()
        seen += [dataset.config(), versions(library, path)]
        dataset.insert(TABLE)
        seen.append(versions(library, path))
    assert found["lance_core"] == found["lance"]
    assert found["lance"][-1] == [4, 5, 6, 7]


@pytest.mark.parametrize(
    "options",
    [{"interval": 1}, {"interval": -1, "older_than_seconds": 0}, {"interval": 1, "older_than": 2}, {}],
)
def test_settings_that_could_not_work_are_refused(options: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="auto_cleanup_options"):
        lance_core.write_dataset(TABLE, tmp_path / "t", auto_cleanup_options=options)
    dataset = lance_core.write_dataset(TABLE, tmp_path / "t")
    with pytest.raises(InvalidInputError, match="auto_cleanup_options"):
        dataset.optimize.enable_auto_cleanup(options)
    assert dataset.latest_version == 1
