"""Three servers at one staged write: a commit, its repetition, and whoever takes what the one gives back."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from flight_server.requests.write_command import CommitCommand
from lance_core.errors import CommitUnknownError, LanceError
from support.changes.staged import BEFORE, KINDS, Staged, T
from support.faults.failing_storage import CallStorage, Fault, FaultStorage, before, fails

SHARE = 127
"""One race of so many is run by default."""


@dataclass
class Race:
    """Several servers that act on the same receipts, and their answers."""

    folder: Staged
    command: CommitCommand
    versions: int
    acknowledged: set[str] = field(default_factory=set)
    """Transaction ids, and "removed"."""
    is_unknown: bool = False

    def commit(self, command: CommitCommand, storage: FaultStorage | None = None) -> None:
        try:
            self.folder.service(storage).staged.commit(command)
            self.acknowledged.add(str(command.transaction_id))
        except CommitUnknownError:
            self.is_unknown = True
        except LanceError:
            pass

    def storage(self, at: int, fault: Fault) -> CallStorage:
        return CallStorage(self.folder.path, at, fault)

    def check(self, places: object) -> None:
        """Nobody else committed or removed what a commit took, and it was applied once."""
        assert len(self.acknowledged) <= 1, (places, self.acknowledged)
        has_landed = bool(self.acknowledged - {"removed"})
        if self.is_unknown and not self.acknowledged:
            has_landed = self.folder.versions() > self.versions
        assert self.folder.versions() == self.versions + has_landed, places
        assert self.folder.rows() == (self.folder.after if has_landed else BEFORE), places


def _commit_another(race: Race) -> None:
    race.commit(race.folder.command())


def _remove(race: Race) -> None:
    try:
        if race.folder.service().staged.abort(T, race.command.staged):
            race.acknowledged.add("removed")
    except LanceError:
        pass


OTHERS: dict[str, Callable[[Race], None]] = {"commit": _commit_another, "abort": _remove}


class Paused:
    """A commit at another server, in a thread of its own, that stands still before one of its calls."""

    def __init__(self, race: Race, at: int) -> None:
        self._stands = threading.Event()
        self._goes_on = threading.Event()
        self.storage = race.storage(at, before(self._wait))
        self._thread = threading.Thread(target=self._run, args=(race,))

    def start(self) -> None:
        """Go to the place; to the end where there are fewer calls."""
        self._thread.start()
        self._stands.wait()

    def finish(self) -> None:
        self._goes_on.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _wait(self) -> None:
        self._stands.set()
        self._goes_on.wait()

    def _run(self, race: Race) -> None:
        race.commit(race.command, self.storage)
        self._stands.set()


@pytest.mark.parametrize(
    ("kind", "other", "share"),
    [
        ("insert", "commit", SHARE),
        pytest.param("join", "abort", SHARE, marks=pytest.mark.long),
        *(pytest.param(*pair, 7, marks=pytest.mark.long) for pair in itertools.product(KINDS, OTHERS)),
        *(
            pytest.param(*pair, 1, marks=pytest.mark.long("minutes for each kind"))
            for pair in itertools.product(KINDS, OTHERS)
        ),
    ],
)
def test_what_is_given_back_is_nobody_elses(tmp_path: Path, kind: str, other: str, share: int) -> None:
    """T13, T44: a commit fails at any call, where its repetition stands before any; then comes another.

    The one that fails gave back what the repetition stood on, which came after the other had taken it: an
    insert was made twice, and a version named removed files.
    """
    template = Staged.make(tmp_path / "template", kind)
    versions = template.versions()
    tried = 0
    for failing in itertools.count():
        for paused in itertools.count():
            if (failing * 5 + paused) % share and paused:
                continue
            with template.copied(tmp_path / f"{failing}-{paused}") as folder:
                race = Race(folder, folder.command(), versions)
                repetition = Paused(race, paused)

                def fault(name: str, call: Callable[[], None], repetition: Paused = repetition) -> None:
                    repetition.start()
                    fails(name, call)

                storage = race.storage(failing, fault)
                race.commit(race.command, storage)
                OTHERS[other](race)
                repetition.finish()
                places = (storage.calls[failing:], repetition.storage.calls[paused:])
                race.check(places)
                race.commit(race.command)
                race.check(places)
            tried += 1
            if len(storage.calls) <= failing:
                print(f"{kind}, {other}: {tried} races")
                assert failing > 5
                return
            if len(repetition.storage.calls) <= paused:
                break
