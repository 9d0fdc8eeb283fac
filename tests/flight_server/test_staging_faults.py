"""Every call to the storage of a staged write, its commit and its removal goes wrong once, in every way."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from flight_server.mutations import NoRows
from flight_server.names import DatasetReference
from flight_server.service import Service
from flight_server.settings import Settings
from flight_server.staging import Claim, Staging
from flight_server.write_command import CommitCommand, WriteCommand
from lance_core.errors import CommitConflictError, CommitUnknownError, InvalidInputError, LanceError
from lance_core.mutations.merge_insert import MergePlan
from lance_core.storage import LocalStorage
from support.faults import FaultStorage, fails, loses_answer, loses_request

T = DatasetReference("t")
MERGE = MergePlan(("n",), when_matched="update_all", when_not_matched="insert_all")
STAGE = {
    "append": WriteCommand(T, stage=True),
    "merge_insert": WriteCommand(T, mode="merge_insert", merge=MERGE, stage=True),
    "add_columns": WriteCommand(T, mode="add_columns", fragment_id=0, stage=True),
}
ROWS = {
    "append": [pa.table({"n": [2, 3]}), pa.table({"n": [4]})],
    "merge_insert": [pa.table({"n": [1, 2]}), pa.table({"n": [3, 4]})],
    "add_columns": [pa.table({"m": [5, 6]})],
}
BEFORE = [{"n": 0}, {"n": 1}]
AFTER = {
    "append": [{"n": n} for n in range(5)],
    "merge_insert": [{"n": n} for n in range(5)],
    "add_columns": [{"n": 0, "m": 5}, {"n": 1, "m": 6}],
}


class Uploaded(NoRows):
    """Rows of a table as a client would have sent them."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(table.schema)
        object.__setattr__(self, "_table", table)

    def batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self._table.to_batches())  # type: ignore[attr-defined]


class Killed(BaseException):
    """Nothing of the process happens after this."""


class DyingStorage(FaultStorage):
    """Where the process ends before a call, and after it every other call."""

    def change(self, name: str, call: Callable[[], None]) -> None:
        if len(self.calls) >= self._at:
            self.calls.append(name)
            raise Killed
        super().change(name, call)


def service_of(root: Path, storage: FaultStorage | None = None) -> Service:
    service = Service(Settings.resolve(str(root), environment={}))
    if storage is not None:
        service._catalog.storage = lambda path: storage  # type: ignore[method-assign]
    return service


def rows_of(root: Path) -> list[dict[str, int]]:
    found = lance.dataset(root / "t.lance").to_table().to_pylist()
    return sorted(found, key=lambda row: row["n"])  # type: ignore[no-any-return]


FAULTS = {
    "fails": lambda path, at: FaultStorage(path, at, fails),
    "loses the answer": lambda path, at: FaultStorage(path, at, loses_answer, only="put"),
    "loses the request": lambda path, at: FaultStorage(path, at, loses_request, only="put"),
    "dies": DyingStorage,
}


def broken(
    tmp_path: Path, fault: str, prepare: Callable[[Path], list[str]]
) -> Iterator[tuple[Path, list[str], FaultStorage]]:
    """A root in the same state for each call, with a storage in which this call goes wrong."""
    template = tmp_path / "template"
    lance.write_dataset(pa.table({"n": [0, 1]}), template / "t.lance")
    for at in itertools.count():
        root = tmp_path / f"{at}"
        shutil.copytree(template, root)
        receipts = prepare(root)
        storage = FAULTS[fault](root / "t.lance", at)
        yield root, receipts, storage
        shutil.rmtree(root)
        if len(storage.calls) <= at:
            print(f"{fault}: {at} calls")
            assert at > 0
            return


def stage_all(operation: str) -> Callable[[Path], list[str]]:
    def prepare(root: Path) -> list[str]:
        staged = service_of(root).staged
        return [staged.stage(STAGE[operation], Uploaded(table)) for table in ROWS[operation]]

    return prepare


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", STAGE)
def test_commits(tmp_path: Path, operation: str, fault: str) -> None:
    """T35, T38: old or new version; repeated with the same id it happens once, with another id never."""
    for root, receipts, storage in broken(tmp_path, fault, stage_all(operation)):
        command = CommitCommand(T, operation, tuple(receipts), transaction_id=str(uuid.uuid4()))
        try:
            assert service_of(root, storage).staged.commit(command) == 2
            assert rows_of(root) == AFTER[operation], storage.calls
        except (CommitUnknownError, Killed):
            assert rows_of(root) in (BEFORE, AFTER[operation]), storage.calls
        except LanceError:
            assert rows_of(root) == BEFORE, storage.calls
        other = CommitCommand(T, operation, tuple(receipts), transaction_id=str(uuid.uuid4()))
        if rows_of(root) == AFTER[operation]:
            with pytest.raises((InvalidInputError, CommitConflictError)):
                service_of(root).staged.commit(other)
        assert service_of(root).staged.commit(command) == 2, storage.calls
        assert rows_of(root) == AFTER[operation], storage.calls
        with pytest.raises((InvalidInputError, CommitConflictError)):
            service_of(root).staged.commit(other)
        assert rows_of(root) == AFTER[operation]


@pytest.mark.parametrize("fault", FAULTS)
def test_stages(tmp_path: Path, fault: str) -> None:
    """A stage that goes wrong leaves no rows, and others can be staged and committed."""
    for root, _, storage in broken(tmp_path, fault, lambda root: []):
        receipts = []
        with contextlib.suppress(LanceError, Killed):
            upload = Uploaded(ROWS["append"][0])
            receipts.append(service_of(root, storage).staged.stage(STAGE["append"], upload))
        assert rows_of(root) == BEFORE
        staged = service_of(root).staged
        receipts.append(staged.stage(STAGE["append"], Uploaded(ROWS["append"][1])))
        assert staged.commit(CommitCommand(T, "append", tuple(receipts))) == 2
        first = [{"n": 2}, {"n": 3}] if len(receipts) == 2 else []
        assert rows_of(root) == [*BEFORE, *first, {"n": 4}]


@pytest.mark.parametrize("fault", ["fails", "dies"])
def test_removals(tmp_path: Path, fault: str) -> None:
    """An abort that is broken off can be repeated; nobody commits in between what lost files."""
    for root, receipts, storage in broken(tmp_path, fault, stage_all("append")):
        data = root / "t.lance" / "data"
        with contextlib.suppress(LanceError, Killed):
            service_of(root, storage).staged.abort(T, receipts)
        kept = len(os.listdir(data))
        try:
            service_of(root).staged.commit(CommitCommand(T, "append", tuple(receipts)))
            assert kept == 3
        except (InvalidInputError, CommitConflictError):
            service_of(root).staged.abort(T, receipts)
            assert rows_of(root) == BEFORE
            if fault == "dies":  # what fails to be deleted is an orphan
                assert len(os.listdir(data)) == 1, storage.calls
            assert os.listdir(root / "t.lance" / "_staging") == [], storage.calls


@pytest.mark.parametrize("other", ["commit", "the same commit", "abort"])
@pytest.mark.parametrize("operation", STAGE)
def test_races(tmp_path: Path, operation: str, other: str) -> None:
    """T13, T44: whatever another server does in between two calls of a commit, rows land once or never."""
    template = tmp_path / "template"
    lance.write_dataset(pa.table({"n": [0, 1]}), template / "t.lance")
    for at in itertools.count():
        root = tmp_path / f"{at}"
        shutil.copytree(template, root)
        receipts = tuple(stage_all(operation)(root))
        command = CommitCommand(T, operation, receipts, transaction_id=str(uuid.uuid4()))
        second = replace(
            command, transaction_id=command.transaction_id if "same" in other else str(uuid.uuid4())
        )
        won: list[str] = []

        def meanwhile(
            name: str,
            call: Callable[[], None],
            root: Path = root,
            second: CommitCommand = second,
            won: list[str] = won,
        ) -> None:
            staged = service_of(root).staged
            with contextlib.suppress(InvalidInputError, CommitConflictError):
                if other != "abort":
                    staged.commit(second)
                    won.append(other)
                elif staged.abort(T, second.staged):
                    won.append(other)
            call()

        storage = FaultStorage(root / "t.lance", at, meanwhile)
        try:
            service_of(root, storage).staged.commit(command)
            won.append("first")
        except (InvalidInputError, CommitConflictError):
            pass
        calls = storage.calls
        assert won in (["first"], [other]) or (won == [other, "first"] and "same" in other), (won, calls)
        assert rows_of(root) == (BEFORE if won == ["abort"] else AFTER[operation]), (won, calls)
        versions = lance.dataset(root / "t.lance").versions()
        assert len(versions) == (1 if won == ["abort"] else 2), (won, calls)
        shutil.rmtree(root)
        if len(calls) <= at:
            assert at > 3
            return


@pytest.mark.parametrize("operation", STAGE)
def test_a_commit_during_a_removal(tmp_path: Path, operation: str) -> None:
    """T13: a commit in between two calls of a removal keeps its files, or is refused."""
    template = tmp_path / "template"
    lance.write_dataset(pa.table({"n": [0, 1]}), template / "t.lance")
    for at in itertools.count():
        root = tmp_path / f"{at}"
        shutil.copytree(template, root)
        receipts = stage_all(operation)(root)
        command = CommitCommand(T, operation, tuple(receipts))
        landed: list[int] = []

        def meanwhile(
            name: str,
            call: Callable[[], None],
            root: Path = root,
            command: CommitCommand = command,
            landed: list[int] = landed,
        ) -> None:
            with contextlib.suppress(InvalidInputError, CommitConflictError):
                landed.append(service_of(root).staged.commit(command))
            call()

        storage = FaultStorage(root / "t.lance", at, meanwhile)
        with contextlib.suppress(CommitConflictError):
            service_of(root, storage).staged.abort(T, receipts)
        assert rows_of(root) == (AFTER[operation] if landed else BEFORE), storage.calls
        shutil.rmtree(root)
        if len(storage.calls) <= at:
            assert at > 1
            return


def test_claims(tmp_path: Path) -> None:
    """T13: whoever claims first has it; the same claim goes on, an empty one keeps everybody out."""
    staging = Staging(LocalStorage(str(tmp_path)))
    mine, removal = Claim(str(uuid.uuid4()), 3), Claim(None)
    first, second, third = (f"{number:032x}" for number in range(3))
    for receipt in (first, second, third, f"{9:032x}"):
        (tmp_path / "_staging").mkdir(exist_ok=True)
        (tmp_path / "_staging" / f"{receipt}.staged").touch()
    assert staging.claim([first, second], mine) == [first, second]
    assert staging.claim([first, second, third], mine) == [third]
    for other in (removal, Claim(mine.transaction_id, 4), Claim(str(uuid.uuid4()), 3)):
        with pytest.raises(CommitConflictError, match="is taken"):
            staging.claim([f"{9:032x}", second], other)
        assert staging.claim_of(f"{9:032x}") is None
    (tmp_path / "_staging" / f"{third}.claim").write_bytes(b"")
    for other in (mine, removal):
        with pytest.raises(CommitConflictError):
            staging.claim([third], other)
    staging.release([first])
    assert staging.claim([first], removal) == [first]
    assert staging.claim([first], removal) == []
    (tmp_path / "_staging" / f"{second}.staged").unlink()
    staging.release([first, second])
    with pytest.raises(InvalidInputError, match="nothing is staged"):
        staging.claim([first, second], mine)
    assert staging.claim_of(first) is staging.claim_of(second) is None
