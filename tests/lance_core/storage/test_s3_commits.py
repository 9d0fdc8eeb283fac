"""Commits to S3: many writers, and answers that are wrong or lost."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CommitUnknownError, StorageError
from support.changes.every_change import CHANGES, make_table
from support.changes.mixed_histories import run_and_check
from support.stores import s3 as faults
from support.stores.s3 import S3, Proxy, Request

_names = itertools.count()
FAULTS = {
    "500 before": faults.status(500),
    "503 before": faults.status(503),
    "reset before": faults.reset,
    "reset after landing": faults.lost_answer,
    "500 after landing": faults.failed_after_landing,
}
QUICK = [("delete", "reset after landing"), ("merge_insert", "503 before")]


@pytest.mark.long("hundreds of commits of 8 processes")
@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_writers_of_both_libraries(stable_row_ids: bool, s3: S3, bucket: str) -> None:
    """T37: the conditional put decides; the history is that of one writer after the other."""
    uri = f"s3://{bucket}/mixed-{next(_names)}.lance"
    run_and_check(uri, ["ours", "reference"] * 4, 25, stable_row_ids=stable_row_ids, options=s3.options())


def _at(place: int) -> Callable[[Request], bool]:
    """Return whether a request is the one at a place among those that write."""
    seen = itertools.count()
    return lambda request: request.method == "PUT" and next(seen) == place


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        pytest.param(kind, fault, marks=() if (kind, fault) in QUICK else pytest.mark.long)
        for kind in ("append", "delete", "merge_insert", "compact")
        for fault in FAULTS
    ],
)
def test_a_fault_at_every_write(
    kind: str, fault: str, s3: S3, bucket: str, proxy: Proxy, tmp_path: Path
) -> None:
    """T38, T39: the old version or the new one; the same transaction again applies once."""
    make_table(tmp_path / "t")
    before = lance_core.dataset(tmp_path / "t").to_table().sort_by("id")
    shutil.copytree(tmp_path / "t", tmp_path / "after")
    changed = lance_core.dataset(tmp_path / "after")
    if kind == "compact":
        changed.delete("id < 3")
        shutil.rmtree(tmp_path / "t")
        shutil.copytree(tmp_path / "after", tmp_path / "t")
        before = changed.to_table().sort_by("id")
    base = changed.version
    CHANGES[kind](changed)
    after = lance_core.dataset(tmp_path / "after").to_table().sort_by("id")
    options = s3.options(proxy.endpoint) | {"client_max_retries": "0", "timeout": "5s"}
    endings = set()
    for place in itertools.count():
        name = f"faults-{next(_names)}.lance"
        uri = f"s3://{bucket}/{name}"
        s3.upload(tmp_path / "t", bucket, name)
        dataset = lance_core.dataset(uri, storage_options=options)
        proxy.clear()
        proxy.faults.append((_at(place), FAULTS[fault]))
        try:
            CHANGES[kind](dataset)
            ending = "landed"
        except CommitUnknownError:
            ending = "unknown"
        except StorageError:
            ending = "refused"
        was_used = not proxy.faults
        proxy.clear()
        found = _read(uri, s3)
        assert found[0] in {"landed": (base + 1,), "refused": (base,), "unknown": (base, base + 1)}[ending]
        assert found[1].equals(after if found[0] > base else before)
        CHANGES[kind](lance_core.dataset(uri, storage_options=options))
        assert _read(uri, s3)[0] == base + 1
        assert _read(uri, s3)[1].equals(after)
        endings.add(ending)
        if not was_used:
            break
    assert place > 2
    assert "landed" in endings


def _read(uri: str, s3: S3) -> tuple[int, pa.Table]:
    """Return the latest version and its rows, the same for both libraries."""
    theirs = lance.dataset(uri, storage_options=s3.options())
    ours = lance_core.dataset(uri, storage_options=s3.options())
    tables = [opened.to_table().sort_by("id").combine_chunks() for opened in (ours, theirs)]
    assert ours.version == theirs.version
    assert tables[0].equals(tables[1])
    return ours.version, tables[0]
