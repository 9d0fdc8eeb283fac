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
import pytest

from flight_server.staging import Claim, Staging
from flight_server.write_command import CommitCommand
from lance_core.errors import CommitConflictError, CommitUnknownError, InvalidInputError, LanceError
from lance_core.storage import LocalStorage
from support.faults import FaultStorage, fails, loses_answer, loses_request
from support.staged import (
    AFTER,
    BEFORE,
    KINDS,
    ROWS,
    STAGE,
    T,
    Uploaded,
    commit_of,
    make_dataset,
    rows_of,
    service_of,
    stage_all,
    versions_of,
)


class Killed(BaseException):
    """Nothing of the process happens after this."""


class DyingStorage(FaultStorage):
    """Where the process ends before a call, and after it every other call."""

    def change(self, name: str, call: Callable[[], None]) -> None:
        if len(self.calls) >= self._at:
            self.calls.append(name)
            raise Killed
        super().change(name, call)


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
    make_dataset(template)
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


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_commits(tmp_path: Path, kind: str, fault: str) -> None:
    """T35, T38: old or new version; repeated with the same id it happens once, with another id never."""
    for root, receipts, storage in broken(tmp_path, fault, stage_all(kind)):
        command = commit_of(kind, receipts)
        try:
            assert service_of(root, storage).staged.commit(command) == 2
            assert rows_of(root) == AFTER[kind], storage.calls
        except (CommitUnknownError, Killed):
            assert rows_of(root) in (BEFORE, AFTER[kind]), storage.calls
        except LanceError:
            assert rows_of(root) == BEFORE, storage.calls
        other = commit_of(kind, receipts)
        if versions_of(root) == 2:
            with pytest.raises((InvalidInputError, CommitConflictError)):
                service_of(root).staged.commit(other)
        assert service_of(root).staged.commit(command) == 2, storage.calls
        assert rows_of(root) == AFTER[kind], storage.calls
        with pytest.raises((InvalidInputError, CommitConflictError)):
            service_of(root).staged.commit(other)
        assert rows_of(root) == AFTER[kind]


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
@pytest.mark.parametrize("kind", KINDS)
def test_races(tmp_path: Path, kind: str, other: str) -> None:
    """T13, T44: whatever another server does in between two calls of a commit, rows land once or never."""
    template = tmp_path / "template"
    make_dataset(template)
    for at in itertools.count():
        root = tmp_path / f"{at}"
        shutil.copytree(template, root)
        receipts = tuple(stage_all(kind)(root))
        command = commit_of(kind, receipts)
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
        assert rows_of(root) == (BEFORE if won == ["abort"] else AFTER[kind]), (won, calls)
        versions = lance.dataset(root / "t.lance").versions()
        assert len(versions) == (1 if won == ["abort"] else 2), (won, calls)
        shutil.rmtree(root)
        if len(calls) <= at:
            assert at > 3
            return


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_during_a_removal(tmp_path: Path, kind: str) -> None:
    """T13: a commit in between two calls of a removal keeps its files, or is refused."""
    template = tmp_path / "template"
    make_dataset(template)
    for at in itertools.count():
        root = tmp_path / f"{at}"
        shutil.copytree(template, root)
        receipts = stage_all(kind)(root)
        command = commit_of(kind, receipts)
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
        assert rows_of(root) == (AFTER[kind] if landed else BEFORE), storage.calls
        shutil.rmtree(root)
        if len(storage.calls) <= at:
            assert at > 1
            return


def test_claims(tmp_path: Path) -> None:
    """T13: whoever claims first has it; the same claim is shared or given back; an empty one stays."""
    staging = Staging(LocalStorage(str(tmp_path)))
    folder = tmp_path / "_staging"
    folder.mkdir()
    mine, other, removal = Claim(str(uuid.uuid4()), 3), Claim(str(uuid.uuid4()), 3), Claim(None)
    first, second, third, fourth = (f"{number:032x}" for number in range(4))
    for receipt in (first, second, third, fourth):
        (folder / f"{receipt}.staged").touch()
    held = staging.claim([first, second], mine)
    assert held == {first: 0, second: 0}
    for another in (removal, other, Claim(mine.transaction_id, 4)):
        with pytest.raises(CommitConflictError, match="is taken"):
            staging.claim([fourth, second], another)
        assert staging.claim_of(fourth) is None
    assert staging.claim([second, third], mine) == {second: 0, third: 0}
    staging.give_back(held)
    assert staging.claim_of(first) is None
    assert staging.claim_of(second) == mine  # it is shared
    assert staging.claim([first, fourth], removal) == {first: 1, fourth: 3}
    assert staging.claim([first], removal) == {first: 1}
    assert staging.claim_of(first) == removal
    for damaged in (f"{third}.0.claim", f"{fourth}.3.end"):
        (folder / damaged).write_bytes(b"")
        for another in (mine, other, removal):
            with pytest.raises(CommitConflictError):
                staging.claim([damaged[:32]], another)
    (folder / f"{second}.staged").unlink()
    with pytest.raises(InvalidInputError, match="nothing is staged"):
        staging.claim([second], mine)
    staging.sweep(second)
    staging.forget([first, third, fourth])
    assert os.listdir(folder) == []
