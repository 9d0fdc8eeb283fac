"""Every call to the storage of a staged write, its commit and its removal goes wrong once, in every way."""

from __future__ import annotations

import contextlib
import itertools
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import lance
import pytest

from flight_server.requests.write_command import CommitCommand
from flight_server.writing.staging import Claim, Staging
from lance_core.errors import CommitConflictError, CommitUnknownError, InvalidInputError, LanceError
from lance_core.storage import LocalStorage
from support.changes.staged import BEFORE, KINDS, ROWS, STAGE, Staged, T, Uploaded
from support.faults.failing_storage import FaultStorage, before, fails, loses_answer, loses_request
from support.runs.products import thinned


class Killed(BaseException):
    """Nothing of the process happens after this."""


class DyingStorage(FaultStorage):
    """Storage of a process that ends before a call: this call and all later calls fail."""

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
    tmp_path: Path, kind: str | None, storage_of: Callable[[Staged, int], FaultStorage], least: int = 1
) -> Iterator[tuple[Staged, FaultStorage]]:
    """Yield the state for each call to the storage, from `least` on, with a storage in which this call
    fails.
    """
    template = Staged.make(tmp_path / "template", kind)
    for at in itertools.count():
        with template.copied(tmp_path / f"{at}") as folder:
            storage = storage_of(folder, at)
            yield folder, storage
        if len(storage.calls) <= at:
            print(f"{at} calls")
            assert at >= least
            return


def faulty(fault: str) -> Callable[[Staged, int], FaultStorage]:
    return lambda folder, at: FAULTS[fault](folder.path, at)


@pytest.mark.parametrize(("kind", "fault"), thinned(KINDS, FAULTS))
def test_commits(tmp_path: Path, kind: str, fault: str) -> None:
    """T35, T38: old or new version; repeated with the same id it happens once, with another id never."""
    for folder, storage in broken(tmp_path, kind, faulty(fault)):
        command = folder.command()
        try:
            assert folder.service(storage).staged.commit(command).version == 2
            assert folder.rows() == folder.after, storage.calls
        except (CommitUnknownError, Killed):
            assert folder.rows() in (BEFORE, folder.after), storage.calls
        except LanceError:
            assert folder.rows() == BEFORE, storage.calls
        other = folder.command()
        if folder.versions() == 2:
            with pytest.raises((InvalidInputError, CommitConflictError)):
                folder.service().staged.commit(other)
        assert folder.service().staged.commit(command).version == 2, storage.calls
        assert folder.rows() == folder.after, storage.calls
        with pytest.raises((InvalidInputError, CommitConflictError)):
            folder.service().staged.commit(other)
        assert folder.rows() == folder.after


@pytest.mark.parametrize("fault", FAULTS)
def test_stages(tmp_path: Path, fault: str) -> None:
    """A stage that goes wrong leaves no rows, and others can be staged and committed."""
    for folder, storage in broken(tmp_path, None, faulty(fault)):
        receipts = []
        with contextlib.suppress(LanceError, Killed):
            upload = Uploaded(ROWS["append"][0])
            receipts.append(folder.service(storage).staged.stage(STAGE["append"], upload))
        assert folder.rows() == BEFORE
        staged = folder.service().staged
        receipts.append(staged.stage(STAGE["append"], Uploaded(ROWS["append"][1])))
        assert staged.commit(CommitCommand(T, "append", tuple(receipts))).version == 2
        first = [{"n": 2}, {"n": 3}] if len(receipts) == 2 else []
        assert folder.rows() == [*BEFORE, *first, {"n": 4}]


@pytest.mark.parametrize("fault", ["fails", "dies"])
def test_removals(tmp_path: Path, fault: str) -> None:
    """An abort that is broken off can be repeated; nobody commits in between what lost files."""
    for folder, storage in broken(tmp_path, "append", faulty(fault)):
        data = folder.path / "data"
        with contextlib.suppress(LanceError, Killed):
            folder.service(storage).staged.abort(T, folder.receipts)
        kept = len(os.listdir(data))
        try:
            folder.service().staged.commit(CommitCommand(T, "append", folder.receipts))
            assert kept == 3
        except (InvalidInputError, CommitConflictError):
            folder.service().staged.abort(T, folder.receipts)
            assert folder.rows() == BEFORE
            if fault == "dies":  # what fails to be deleted is an orphan
                assert len(os.listdir(data)) == 1, storage.calls
            assert os.listdir(folder.path / "_staging") == [], storage.calls


@pytest.mark.parametrize(("kind", "other"), thinned(KINDS, ["commit", "the same commit", "abort"]))
def test_races(tmp_path: Path, kind: str, other: str) -> None:
    """T13, T44: rows land once or never, if another server acts between any two calls of a commit."""
    won: list[str] = []
    command = CommitCommand(T, kind, ())

    def interrupted(folder: Staged, at: int) -> FaultStorage:
        nonlocal command
        won.clear()
        command = folder.command()
        second = command if "same" in other else replace(command, transaction_id=str(uuid.uuid4()))

        def meanwhile() -> None:
            staged = folder.service().staged
            with contextlib.suppress(InvalidInputError, CommitConflictError):
                if other != "abort":
                    staged.commit(second)
                    won.append(other)
                elif staged.abort(T, folder.receipts):
                    won.append(other)

        return FaultStorage(folder.path, at, before(meanwhile))

    for folder, storage in broken(tmp_path, kind, interrupted, least=4):
        with contextlib.suppress(InvalidInputError, CommitConflictError):
            folder.service(storage).staged.commit(command)
            won.append("first")
        calls = storage.calls
        assert won in (["first"], [other]) or (won == [other, "first"] and "same" in other), (won, calls)
        assert folder.rows() == (BEFORE if won == ["abort"] else folder.after), (won, calls)
        versions = lance.dataset(folder.path).versions()
        assert len(versions) == (1 if won == ["abort"] else 2), (won, calls)


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_during_a_removal(tmp_path: Path, kind: str) -> None:
    """T13: a commit in between two calls of a removal keeps its files, or is refused."""
    landed: list[int] = []

    def interrupted(folder: Staged, at: int) -> FaultStorage:
        landed.clear()

        def meanwhile() -> None:
            with contextlib.suppress(InvalidInputError, CommitConflictError):
                landed.append(folder.service().staged.commit(folder.command()).version)

        return FaultStorage(folder.path, at, before(meanwhile))

    for folder, storage in broken(tmp_path, kind, interrupted, least=2):
        with contextlib.suppress(CommitConflictError):
            folder.service(storage).staged.abort(T, folder.receipts)
        assert folder.rows() == (folder.after if landed else BEFORE), storage.calls


def test_claims(tmp_path: Path) -> None:
    """T13: the first claim wins; an equal claim is shared or given back; an empty claim file stays."""
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
