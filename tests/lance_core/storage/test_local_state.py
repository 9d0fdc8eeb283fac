"""Directories that are known to be as they were."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_core.storage import LocalStorage, local_state
from lance_core.table.versions import latest_version


def settled(path: Path) -> local_state.State:
    """Return the state once it can be relied on."""
    for _ in range(100):
        state = local_state.directory_state(str(path))
        if state is not None:
            return state
        time.sleep(0.1)
    raise AssertionError("no state")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_state, "_SETTLED_NS", 200_000_000)


CHANGES: dict[str, Callable[[Path], object]] = {
    "add": lambda path: (path / "b").touch(),
    "link": lambda path: os.link(path / "a", path / "b"),
    "remove": lambda path: (path / "a").unlink(),
    "rename": lambda path: (path / "a").rename(path / "b"),
    "replace": lambda path: os.replace(path.parent / "other", path / "a"),
    "directory": lambda path: (path / "b").mkdir(),
}


@pytest.mark.parametrize("set_back", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_seen(
    change: str, set_back: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T39: also where a copying program puts the time back that was there before."""
    path = tmp_path / "d"
    path.mkdir()
    (path / "a").touch()
    (tmp_path / "other").touch()
    before, times = settled(path), path.stat()
    assert settled(path) == before
    now = time.time_ns()
    CHANGES[change](path)
    if set_back:
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with monkeypatch.context() as clock:
        clock.setattr(time, "time_ns", lambda: now)
        assert local_state.directory_state(str(path)) is None  # the next change might leave the same time
    assert settled(path) != before


def test_only_some_file_systems_are_relied_on() -> None:
    assert local_state.directory_state("/proc/self") is None


def test_the_latest_version_is_found_without_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits of others are seen at once, and nothing is listed while there are none."""
    lance.write_dataset(pa.table({"id": [1]}), str(tmp_path))
    listed = []
    storage = LocalStorage(str(tmp_path))
    monkeypatch.setattr(
        LocalStorage, "list_names", lambda self, path: listed.append(path) or os.listdir(tmp_path / path)
    )
    for version in range(1, 5):
        assert latest_version(storage) == version
        settled(tmp_path / "_versions")
        assert latest_version(storage) == version
        before = len(listed)
        assert latest_version(LocalStorage(str(tmp_path))) == version
        assert len(listed) == before
        lance.dataset(str(tmp_path)).update_config({"number": str(version)})
