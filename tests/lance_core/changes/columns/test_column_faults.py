"""Changes of columns, and compaction, while the storage fails or others commit: all or nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.changes import compaction
from lance_core.changes.columns.add import add_columns, add_null_columns
from lance_core.changes.columns.alter import Alteration, alter_columns
from lance_core.changes.columns.column_sources import ExpressionColumns, StreamColumns
from lance_core.changes.columns.drop import drop_columns
from lance_core.changes.columns.join import join_columns
from lance_core.changes.columns.staged_columns import StagedColumnsWriter, commit_staged_columns
from lance_core.changes.compaction import CompactionOptions
from lance_core.changes.source_rows import SourceRows
from lance_core.errors import CommitConflictError, CommitUnknownError, InvalidInputError, StorageError
from lance_core.table.snapshot import Snapshot, open_snapshot
from support.faults.failing_storage import FaultStorage, fails, loses_answer, loses_request

Change = Callable[[Snapshot], Snapshot]
OPTIONS = CompactionOptions(target_rows_per_fragment=6)
STREAM = pa.record_batch({"n": range(11)})


def _staged(snapshot: Snapshot) -> Snapshot:
    writer = StagedColumnsWriter(snapshot, 1, pa.schema([("n", pa.int64())]))
    try:
        writer.write(pa.record_batch({"n": range(4)}))
        staged = writer.finish()
    except BaseException:
        writer.abort()
        raise
    return commit_staged_columns(snapshot, [staged])


def _join(snapshot: Snapshot) -> Snapshot:
    rows = pa.table({"id": [3, 8, 20], "n": [1, 2, 3]})
    with SourceRows(rows) as source:
        return join_columns(snapshot, source, ["id"])


CHANGES: dict[str, Change] = {
    "expression": lambda s: add_columns(s, ExpressionColumns({"n": "id + 1", "m": "text"})),
    "stream": lambda s: add_columns(s, StreamColumns(STREAM.schema, iter([STREAM]))),
    "nulls": lambda s: add_null_columns(s, pa.schema([("n", pa.int64())])),
    "join": _join,
    "drop": lambda s: drop_columns(s, ["value"]),
    "rename": lambda s: alter_columns(s, [Alteration("text", "word")]),
    "require": lambda s: alter_columns(s, [Alteration("value", nullable=False)]),
    "cast": lambda s: alter_columns(s, [Alteration("id", data_type=pa.int32())]),
    "compact": lambda s: compaction.compact(s, OPTIONS)[0],
    "staged": _staged,
}


def _write(path: Path) -> None:
    rows = range(12)
    table = pa.table({"id": rows, "text": [f"t{row}" for row in rows], "value": rows})
    lance_core.write_dataset(table, path, max_rows_per_file=4, enable_stable_row_ids=True)
    lance.dataset(str(path)).delete("id = 5")


def _files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def _state(path: Path) -> tuple[Any, ...]:
    """Rows and schema as both libraries read them, from a table that both find sound."""
    found = lance_core.dataset(path)
    found.validate()
    reference = lance.dataset(str(path))
    reference.validate()
    assert reference.to_table().equals(found.to_table())
    return found.schema.to_string(), found.to_table().to_pylist(), len(found.get_fragments())


SOME = [("expression", fails), ("cast", loses_answer), ("drop", fails), ("compact", loses_answer)]
ALL = [
    pytest.param(name, fault, marks=() if (name, fault) in SOME else pytest.mark.long)
    for name in CHANGES
    for fault in (fails, loses_request, loses_answer)
]


@pytest.mark.parametrize(("name", "fault"), ALL)
def test_every_call_goes_wrong_once(name: str, fault: Callable[..., None], tmp_path: Path) -> None:
    """T38, T40: a change that fails leaves the columns and the files as they were."""
    old = tmp_path / "old"
    _write(old)
    shutil.copytree(old, tmp_path / "new")
    whole = FaultStorage(tmp_path / "new")
    CHANGES[name](open_snapshot(whole))
    before, after = _state(old), _state(tmp_path / "new")
    assert before != after
    outcomes = set()
    for at in range(len(whole.calls)):
        path = tmp_path / str(at)
        shutil.copytree(old, path)
        files = _files(path)
        try:
            made = CHANGES[name](open_snapshot(FaultStorage(path, at, fault)))
        except CommitUnknownError:
            outcomes.add("unknown")
            assert _state(path) in (before, after)
        except StorageError:
            outcomes.add("refused")
            assert _state(path) == before
            # Who commits what was staged keeps the file, to try again.
            left = _files(path) - files
            if name == "staged":
                left = {file for file in left if not file.startswith("data/")}
            assert fault is loses_answer or not left
        else:
            outcomes.add("made")
            assert made.manifest.version == 3
            assert _state(path) == after
        shutil.rmtree(path)
    assert "refused" in outcomes
    assert fault is fails or outcomes - {"refused"}


MODULES = {
    "expression": "columns.column_change",
    "stream": "columns.column_change",
    "nulls": "columns.column_change",
    "join": "columns.column_change",
    "cast": "columns.column_change",
    "drop": "columns.drop",
    "rename": "columns.alter",
    "require": "columns.alter",
    "compact": "compaction.commit",
    "staged": "columns.staged_columns",
}


def _other_columns(dataset: lance.LanceDataset) -> None:
    dataset.add_columns({"other": "value + 100"})


NEW_ROW = pa.table({"id": [100], "text": ["new"], "value": pa.array([None], pa.int64())})
OTHERS: dict[str, Callable[[lance.LanceDataset], Any]] = {
    "append": lambda d: d.insert(NEW_ROW),
    "delete": lambda d: d.delete("id = 7"),
    "update": lambda d: d.update({"text": "'changed'"}, where="id = 6"),
    "compact": lambda d: d.optimize.compact_files(),
    "columns": _other_columns,
    "index": lambda d: d.create_scalar_index("value", "BTREE"),
    "config": lambda d: d.update_config({"some": "thing"}),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", CHANGES)
def test_others_commit_in_between(
    name: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T37: both changes are there, or ours is refused and the other one is there."""
    _write(tmp_path / "d")
    module = import_module(f"lance_core.changes.{MODULES[name]}")
    called = "commit_transaction" if name == "compact" else "commit"
    real, calls = getattr(module, called), []

    def commit(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            OTHERS[other](lance.dataset(str(tmp_path / "d")))
        return real(*arguments, **options)

    monkeypatch.setattr(module, called, commit)
    refusals = CommitConflictError, InvalidInputError  # a null came where none is to be
    if (name, other) != ("require", "append"):
        refusals = (CommitConflictError,)
    made = True
    try:
        CHANGES[name](lance_core.dataset(tmp_path / "d").snapshot)
    except refusals:
        made = False
        assert _data_files(tmp_path / "d") == _referenced(tmp_path / "d") or name == "staged"
    _, rows, _ = _state(tmp_path / "d")
    ids = {0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11} | ({100} if other == "append" else set())
    ids -= {7} if other == "delete" else set()
    assert {row["id"] for row in rows} == ids
    assert len(rows) == len(ids)
    by_id = {row["id"]: row for row in rows}
    assert by_id[6].get("text", by_id[6].get("word")) == ("changed" if other == "update" else "t6")
    if other == "columns":
        assert all(row["other"] == row["id"] + 100 for row in rows)
    if made and name == "expression":
        assert all(row["n"] == row["id"] + 1 for row in rows)
    if made and name == "join":
        assert {row["id"]: row["n"] for row in rows if row["n"]} == {3: 1, 8: 2}
    if made and name == "stream":
        wanted = dict(zip((0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11), range(11), strict=True))
        assert all(row["n"] == wanted[row["id"]] for row in rows)
    if made and name == "require":
        assert all(row["value"] is not None for row in rows)
    refused_by_design = {
        ("stream", "append"), ("stream", "update"), ("stream", "compact"), ("staged", "compact"),
        ("staged", "columns"), ("require", "append"),
    }  # fmt: skip
    if (name, other) in refused_by_design:
        assert not made
    if other in ("delete", "index", "config") and (name, other) != ("drop", "index"):
        assert made or name == "cast"
    if other in ("append", "delete", "update", "compact", "columns") and name in (
        "expression",
        "nulls",
        "join",
        "cast",
    ):
        assert made


def _data_files(path: Path) -> set[str]:
    return {file for file in _files(path) if file.startswith("data/")}


def _referenced(path: Path) -> set[str]:
    """Return the data files that some version has."""
    return {
        f"data/{file.path}"
        for version in lance_core.dataset(path).versions()
        for fragment in lance_core.dataset(path, version["version"]).get_fragments()
        for file in fragment.data_files()
    }
