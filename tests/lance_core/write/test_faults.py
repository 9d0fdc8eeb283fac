"""Writes that are killed, fail, or whose answers are lost, at every call to the storage."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CommitUnknownError, DatasetNotFoundError, LanceError, StorageError
from lance_core.write.dataset import Mode
from support.faults import crashing_writes
from support.faults.crashing_writes import NEW_ROWS, rows, write
from support.faults.failing_storage import FaultStorage, fails, loses_answer, loses_request
from support.faults.killing import kill_at_every_call

TESTS = Path(__file__).parents[2]
OLD = pa.Table.from_batches([rows(0, 5)])
NEW = pa.Table.from_batches([rows(1000, NEW_ROWS)])
MODES: list[Mode] = ["create", "append", "overwrite"]


def _before(path: Path, mode: Mode) -> pa.Table | None:
    """Return the dataset before the write, if there is one, and its rows."""
    if mode == "create":
        return None
    lance_core.write_dataset(OLD, path, enable_stable_row_ids=True)
    return OLD


def _after(mode: Mode) -> pa.Table:
    return pa.concat_tables([OLD, NEW]) if mode == "append" else NEW


def check_state(path: Path, before: pa.Table | None, after: pa.Table) -> bool:
    """Return whether the dataset is as after rather than as before, for both libraries; writes to it once
    more.
    """
    try:
        dataset = lance_core.dataset(path)
    except DatasetNotFoundError:
        assert before is None
        with pytest.raises(ValueError, match="not found"):
            lance.dataset(str(path))
        is_after = False
    else:
        reference = lance.dataset(str(path))
        is_after = before is None or dataset.version == 2
        for opened in (dataset, reference):
            assert opened.to_table().equals(after if is_after else before)
            assert opened.version == 2 - (before is None) if is_after else opened.version == 1
        assert reference.validate() is None
    more = pa.Table.from_batches([rows(5000, 3)])
    current = after if is_after else before
    lance_core.write_dataset(more, path, mode="append")
    lance.write_dataset(more, str(path), mode="append")
    expected = pa.concat_tables([*([current] if current else []), more, more])
    assert lance.dataset(str(path)).to_table().equals(expected)
    return is_after


@pytest.mark.parametrize("when", ["BEFORE", pytest.param("AFTER", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=() if mode == "append" else pytest.mark.long) for mode in MODES]
)
def test_killed_at_every_call(mode: Mode, when: str, tmp_path: Path) -> None:
    """T35: kill -9 between any two calls leaves the old or the new version, and a table to write to."""
    before = _before(tmp_path / "before", mode)
    count = kill_at_every_call(tmp_path, "support.faults.crashing_writes", mode, when)
    assert count > 10

    states = [check_state(tmp_path / str(number), before, _after(mode)) for number in range(count)]

    assert states == sorted(states), "a version that was there disappeared"
    assert not states[0]
    assert states[-1]


@pytest.mark.parametrize("mode", MODES)
def test_failing_at_every_call(mode: Mode, tmp_path: Path) -> None:
    """T40: an error at any call is reported, nothing of the write stays, and the next write succeeds."""
    number = 0
    while True:
        path = tmp_path / str(number)
        before = _before(path, mode)
        files = sorted(path.rglob("*.*"))
        storage = FaultStorage(path, number, fails)
        error = None
        try:
            write(storage, mode)
        except StorageError as caught:
            error = caught
        if error is not None:
            assert "injected" in str(error)
            assert sorted(path.rglob("*.*")) == files
        assert check_state(path, before, _after(mode)) is (error is None)
        if len(storage.calls) <= number:
            break
        number += 1
    assert number > 10


@pytest.mark.parametrize("mode", MODES)
def test_a_manifest_whose_answer_was_lost_is_found(mode: Mode, tmp_path: Path) -> None:
    """T38: the manifest is read back; ours is there, so the commit landed, and it is made once."""
    before = _before(tmp_path, mode)

    write(FaultStorage(tmp_path, 0, loses_answer, only="put _versions"), mode)

    assert check_state(tmp_path, before, _after(mode))


@pytest.mark.parametrize("mode", MODES)
def test_a_manifest_that_is_not_there_is_unknown(mode: Mode, tmp_path: Path) -> None:
    """T38: a missing manifest may still appear: nothing is deleted, and nothing is committed again."""
    before = _before(tmp_path, mode)
    storage = FaultStorage(tmp_path, 0, loses_request, only="put _versions")

    with pytest.raises(CommitUnknownError, match="may or may not exist"):
        write(storage, mode)

    assert len(storage.calls) == 1
    data = list((tmp_path / "data").iterdir())
    assert len(data) == 2 + (before is not None)
    assert len(list((tmp_path / "_transactions").iterdir())) == 1 + (before is not None)
    assert not check_state(tmp_path, before, _after(mode))


def test_an_answer_that_is_lost_twice_is_unknown_and_keeps_the_version(tmp_path: Path) -> None:
    """T38: the commit landed and the storage went away: the files of the version are not touched."""
    before = _before(tmp_path, "append")
    storage = FaultStorage(tmp_path, 0, only="put _versions")

    def goes_away(name: str, call: object) -> None:
        storage.reads_fail = True
        loses_answer(name, call)  # type: ignore[arg-type]

    storage.fault = goes_away
    with pytest.raises(CommitUnknownError):
        write(storage, "append")

    assert check_state(tmp_path, before, _after("append"))


@contextmanager
def _files_end_at(num_bytes: int) -> Iterator[None]:
    """No file of this process may become larger: the kernel refuses, as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_no_room_on_the_disk(version: str, tmp_path: Path) -> None:
    """T40: the old version is readable, nothing of the failed write is left, the next one succeeds."""
    lance_core.write_dataset(OLD, tmp_path, data_storage_version=version)
    files = sorted(tmp_path.rglob("*.*"))
    noise = pa.table({"id": range(200), "text": [os.urandom(20_000).hex() for _ in range(200)]})

    with _files_end_at(1 << 20), pytest.raises(StorageError, match="File too large"):
        lance_core.write_dataset(noise, tmp_path, mode="append", max_page_bytes=1 << 18)

    assert sorted(tmp_path.rglob("*.*")) == files
    lance_core.write_dataset(noise, tmp_path, mode="append")
    assert lance.dataset(str(tmp_path)).to_table().equals(pa.concat_tables([OLD, noise]))


def test_data_that_ends_in_an_error_leaves_nothing(tmp_path: Path) -> None:
    """T27: a source that breaks off in the middle of a write commits nothing."""
    lance_core.write_dataset(OLD, tmp_path)
    files = sorted(tmp_path.rglob("*.*"))

    def broken() -> Iterator[pa.RecordBatch]:
        yield rows(10, 1000)
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError, match="the source is gone"):
        lance_core.write_dataset(
            broken(), tmp_path, schema=crashing_writes.SCHEMA, mode="append", max_rows_per_file=100
        )

    assert sorted(tmp_path.rglob("*.*")) == files
    assert lance_core.dataset(tmp_path).version == 1


def test_a_read_only_directory_is_a_storage_error(tmp_path: Path) -> None:
    """T40: no permission is an error with the name of the file, not of the host."""
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(LanceError) as caught:
        lance_core.write_dataset(OLD, tmp_path / "new")
    assert str(tmp_path) not in str(caught.value)


def test_what_a_version_names_is_durable_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """T36: data, directories and the transaction are synced before the manifest, that before the answer."""
    _before(tmp_path, "append")
    events: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda number: events.append(_what_is(number, tmp_path)))
    real_link = os.link

    def link(source: object, name: str, **arguments: int) -> None:
        real_link(source, name, **arguments)  # type: ignore[arg-type]
        events.append(f"link {_what_is(arguments['dst_dir_fd'], tmp_path)}")

    monkeypatch.setattr(os, "link", link)
    write(FaultStorage(tmp_path), "append")

    data = ["file", "link data"]
    others = [step for name in ("_transactions", "_versions") for step in ("file", f"link {name}", name)]
    assert events == [*data, *data, "data", *others]


def _what_is(descriptor: int, root: Path) -> str:
    """Return the directory, or that it is a file, which has no name yet."""
    path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    return str(path.relative_to(root)) if path.is_dir() else "file"


def test_nothing_is_synced_when_that_is_not_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_sync(descriptor: int) -> None:
        raise AssertionError("synced")

    monkeypatch.setattr(os, "fsync", no_sync)

    lance_core.write_dataset(OLD, tmp_path, sync=False)
    lance_core.write_dataset(OLD, tmp_path, mode="append", sync=False)

    assert lance.dataset(str(tmp_path)).count_rows() == 10
