"""Several writers at once: no acknowledged row is lost, none is there twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.commit import commit
from lance_core.errors import CommitConflictError, DatasetExistsError
from lance_core.write.dataset import DatasetWriter
from support.changes.racing import race
from support.changes.racing_writes import ROWS, append_rows
from support.faults.crashing_writes import SCHEMA, rows
from support.faults.failing_storage import FaultStorage

COMMITS = 10


@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_appends_of_many_processes_and_both_libraries(stable_row_ids: bool, tmp_path: Path) -> None:
    """T37: every acknowledged row is there once, versions are dense, row ids are unique."""
    empty = pa.table({"id": pa.array([], pa.int64())})
    lance_core.write_dataset(empty, tmp_path, enable_stable_row_ids=stable_row_ids)
    libraries = ["ours", "ours", "ours", "ours", "reference"]
    arguments = [(library, str(tmp_path), n * 1000, COMMITS) for n, library in enumerate(libraries)]
    lines = [answer.split(maxsplit=1) for answers in race(append_rows, arguments) for answer in answers]

    acknowledged = [int(start) for start, answer in lines if answer == "ok"]
    assert len(lines) == COMMITS * len(libraries)
    assert len(acknowledged) == len(lines), [line for line in lines if line[1] != "ok"]
    for opened in (lance_core.dataset(tmp_path), lance.dataset(str(tmp_path))):
        table = opened.to_table(with_row_id=True)
        expected = {start + row for start in acknowledged for row in range(ROWS)}
        assert len(table) == len(expected)
        assert set(table["id"].to_pylist()) == expected
        assert len(set(table["_rowid"].to_pylist())) == len(expected)
        numbers = [version["version"] for version in opened.versions()]
        assert numbers == list(range(1, len(acknowledged) + 2))
    assert lance.dataset(str(tmp_path)).validate() is None
    assert len(list((tmp_path / "_transactions").iterdir())) == len(acknowledged) + 1


def test_one_of_many_creates_the_dataset(tmp_path: Path) -> None:
    """T37: put-if-absent decides. A late writer gets an error that says so, and leaves no file."""
    barrier = Barrier(6)

    def create(number: int) -> bool:
        with DatasetWriter(FaultStorage(tmp_path), SCHEMA) as writer:
            writer.write(rows(number * 10, 5))
            barrier.wait()
            try:
                writer.commit()
            except DatasetExistsError:
                return False
        return True

    with ThreadPoolExecutor(6) as pool:
        created = list(pool.map(create, range(6)))

    assert created.count(True) == 1
    expected = pa.Table.from_batches([rows(created.index(True) * 10, 5)])
    assert lance.dataset(str(tmp_path)).to_table().equals(expected)
    assert len(list((tmp_path / "data").iterdir())) == 1
    assert len(list((tmp_path / "_transactions").iterdir())) == 1


def test_a_writer_that_always_loses_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """T37: the number of retries is bounded, and the written files are removed."""
    monkeypatch.setattr(commit, "_FIRST_WAIT_SECONDS", 0)
    lance_core.write_dataset(pa.Table.from_batches([rows(0, 1)]), tmp_path)
    storage = FaultStorage(tmp_path, only="put _versions")
    others = 0

    def overtake(name: str, call: object) -> None:
        nonlocal others
        others += 1
        lance_core.write_dataset(
            pa.Table.from_batches([rows(others, 1)]), tmp_path, mode="append", sync=False
        )
        call()  # type: ignore[operator]

    storage.change = overtake_puts(storage, overtake)  # type: ignore[method-assign]
    with DatasetWriter(storage, SCHEMA, "append") as writer:
        writer.write(rows(100, 1))
        with pytest.raises(CommitConflictError, match="faster 20 times") as caught:
            writer.commit()

    assert caught.value.retryable
    assert caught.value.outpaced
    assert others == commit.MAX_ATTEMPTS
    assert lance_core.dataset(tmp_path).to_table()["id"].to_pylist() == list(range(21))
    assert len(list((tmp_path / "data").iterdir())) == len(list((tmp_path / "_transactions").iterdir())) == 21


def overtake_puts(storage: FaultStorage, overtake: object) -> object:
    """Let another writer be faster at every manifest."""
    return lambda name, call: overtake(name, call) if name.startswith("put _versions") else call()  # type: ignore[operator]


@pytest.mark.parametrize(
    "how", ["compact", "delete", "index", "config", "add_columns", "drop_columns", "restore"]
)
def test_an_append_meets_what_the_reference_committed(how: str, tmp_path: Path) -> None:
    """T37: the verdict is that of the reference, which is asked to do the same on a copy."""
    outcomes = {}
    for library in ("ours", "reference"):
        path = tmp_path / library
        table = pa.table({"id": range(100), "other": range(100)})
        lance.write_dataset(table, str(path), max_rows_per_file=50)
        lance.write_dataset(table, str(path), mode="append")
        ours, theirs = lance_core.dataset(path), lance.dataset(str(path))
        _change(lance.dataset(str(path)), how)
        try:
            if library == "ours":
                lance_core.write_dataset(table, ours, mode="append")
            else:
                lance.write_dataset(table, theirs, mode="append")
            outcomes[library] = "committed", lance.dataset(str(path)).count_rows()
        except OSError as error:
            outcomes[library] = "refused", getattr(error, "retryable", "Retryable" in str(error))
        assert lance.dataset(str(path)).validate() is None

    assert outcomes["ours"] == outcomes["reference"]


def _change(dataset: lance.LanceDataset, how: str) -> None:
    match how:
        case "compact":
            dataset.optimize.compact_files()
        case "delete":
            dataset.delete("id < 5")
        case "index":
            dataset.create_scalar_index("id", "BTREE")
        case "config":
            dataset.update_config({"key": "value"})
        case "add_columns":
            dataset.add_columns({"third": "id + 1"})
        case "drop_columns":
            dataset.drop_columns(["other"])
        case "restore":
            dataset.checkout_version(1).restore()
