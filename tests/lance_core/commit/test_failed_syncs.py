"""Changes of a table on a disk that fails while it makes a file or a directory durable."""

from __future__ import annotations

import errno
import os
from itertools import count
from pathlib import Path

import pytest

import lance_core
from lance_core.errors import StorageError
from support.changes.every_change import CHANGES, make_table
from support.faults.power_cuts import files_below

_OWN_FILES = ("by hand", "replace data", "update columns")
"""Changes whose files are written by an earlier call, and belong to its caller."""


@pytest.mark.parametrize("kind", CHANGES)
def test_any_failed_sync_stops_the_commit(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """T40: each sync before the version is visible may fail, also a late one beside others. Then no version
    is made, no file is left but perhaps the transaction, and the change can be repeated.
    """
    real_sync = os.fsync
    failed: list[str] = []

    for wanted in count():
        path = tmp_path / str(wanted)
        dataset = make_table(path)
        before = _files(path)
        numbers = count()
        failed.clear()

        def sync(descriptor: int, wanted: int = wanted, numbers: count[int] = numbers) -> None:
            name = os.readlink(f"/proc/self/fd/{descriptor}")
            if not name.endswith("/_versions") and next(numbers) == wanted:
                failed.append(name)
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            real_sync(descriptor)

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", sync)
            try:
                CHANGES[kind](dataset)
            except StorageError:
                assert failed
            else:
                assert not failed
                break
        assert lance_core.dataset(path).version == 1
        assert kind in _OWN_FILES or _files(path) == before, failed
        CHANGES[kind](lance_core.dataset(path))
        assert lance_core.dataset(path).version == 2
    assert lance_core.dataset(path).version == 2
    assert wanted > 0


def _files(path: Path) -> dict[str, bytes]:
    """Return the files of a table without those of transactions, which a repeated change replaces."""
    found = files_below(path)[0].items()
    return {name: data for name, data in found if not name.startswith("_transactions/")}
