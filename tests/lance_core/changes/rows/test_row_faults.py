"""Changes of rows while the storage fails, at every call to it: all or nothing, and no file is left over."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.changes.rows.delete import delete
from lance_core.changes.rows.merge_insert import merge_insert
from lance_core.changes.rows.merge_plan import MergePlan
from lance_core.changes.rows.update import update
from lance_core.changes.source_rows import SourceRows
from lance_core.commit.commit import commit
from lance_core.errors import CommitUnknownError, PutUnknownError, StorageError
from lance_core.storage.base import Bytes
from lance_core.table.snapshot import Snapshot, open_snapshot
from support.faults.failing_storage import FaultStorage, fails, loses_answer, loses_request
from support.runs.products import thinned

ROWS = range(12)
TABLE = pa.table({"id": ROWS, "text": [f"t{row}" for row in ROWS]})
NEW = pa.table({"id": [3, 8, 20], "text": ["new"] * 3})
Change = Callable[[Snapshot], tuple[Snapshot, object]]


def _merge(snapshot: Snapshot) -> tuple[Snapshot, object]:
    plan = MergePlan(("id",), when_matched="update_all", when_not_matched="insert_all")
    return merge_insert(snapshot, SourceRows(NEW), plan)


CHANGES: dict[str, Change] = {
    "delete": lambda snapshot: delete(snapshot, "id IN (1, 6) OR id > 8"),
    "update": lambda snapshot: update(snapshot, {"text": "upper(text)"}, "id IN (1, 6) OR id > 8"),
    "merge_insert": _merge,
}


def _files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def _rows(path: Path) -> list[object]:
    """Return the rows, after checking that both libraries find the table sound and read the same."""
    found = lance_core.dataset(path)
    found.validate()
    reference = lance.dataset(str(path))
    reference.validate()
    assert reference.to_table().equals(found.to_table())
    return sorted(map(repr, found.to_table().to_pylist()))


@pytest.mark.parametrize(("name", "fault"), thinned(CHANGES, [fails, loses_request, loses_answer]))
def test_every_call_goes_wrong_once(name: str, fault: Callable[..., None], tmp_path: Path) -> None:
    """T38, T40: a change that fails leaves the rows and the files as they were."""
    old = tmp_path / "old"
    lance_core.write_dataset(TABLE, old, max_rows_per_file=4, enable_stable_row_ids=True)
    shutil.copytree(old, tmp_path / "new")
    whole = FaultStorage(tmp_path / "new")
    CHANGES[name](open_snapshot(whole))
    before, after = _rows(old), _rows(tmp_path / "new")
    assert before != after
    outcomes = set()
    for at in range(len(whole.calls)):
        path = tmp_path / str(at)
        shutil.copytree(old, path)
        files = _files(path)
        try:
            made, _ = CHANGES[name](open_snapshot(FaultStorage(path, at, fault)))
        except CommitUnknownError:
            outcomes.add("unknown")
            assert _rows(path) in (before, after)
        except StorageError:
            outcomes.add("refused")
            assert _rows(path) == before
            assert fault is loses_answer or _files(path) == files
        else:
            outcomes.add("made")
            assert made.manifest.version == 2
            assert _rows(path) == after
        shutil.rmtree(path)
    assert "refused" in outcomes
    assert fault is fails or outcomes - {"refused"}


class _LosesSight(FaultStorage):
    """The answer to the put of a manifest is lost, and nothing can be read any more."""

    def put_if_absent(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        try:
            super().put_if_absent(path, data, sync=sync)
        except PutUnknownError:
            self.reads_fail = True
            raise


@pytest.mark.parametrize("name", CHANGES)
def test_files_stay_when_nobody_knows(name: str, tmp_path: Path) -> None:
    """T38: files that may belong to a version are not removed."""
    lance_core.write_dataset(TABLE, tmp_path / "d", max_rows_per_file=4)
    snapshot = open_snapshot(_LosesSight(tmp_path / "d", 0, loses_answer, only="put _versions"))
    with pytest.raises(CommitUnknownError):
        CHANGES[name](snapshot)
    assert lance_core.dataset(tmp_path / "d").version == 2
    assert len(_rows(tmp_path / "d")) != len(ROWS) or name == "update"


@pytest.mark.parametrize("name", CHANGES)
def test_files_stay_when_something_else_goes_wrong(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T38: an error that is none of ours may come after the version was made."""

    def break_off(*arguments: Any, **options: Any) -> None:
        commit(*arguments, **options)
        raise MemoryError

    lance_core.write_dataset(TABLE, tmp_path / "d", max_rows_per_file=4)
    monkeypatch.setattr("lance_core.changes.rows.row_change.commit", break_off)
    with pytest.raises(MemoryError):
        CHANGES[name](lance_core.dataset(tmp_path / "d").snapshot)
    assert lance_core.dataset(tmp_path / "d").version == 2
    assert len(_rows(tmp_path / "d")) != len(ROWS) or name == "update"
