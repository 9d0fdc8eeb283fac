"""State of staged writes after a power cut at any moment of their commit or removal."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lance_core.errors import LanceError
from support.changes.staged import BEFORE, Staged, T
from support.faults.power_cuts import Crash, Recording, crashes, files_below

SEED = int(os.environ.get("LANCE_TEST_SEED", "20261121"))


def _is_done(change: object, *arguments: object) -> bool:
    try:
        change(*arguments)  # type: ignore[operator]
    except LanceError:
        return False
    return True


@pytest.mark.parametrize("kind", ["append", "overwrite", "insert", "add_columns", "join", "replace_columns"])
def test_a_commit(kind: str, tmp_path: Path) -> None:
    """T13, T36: all or nothing is there, and who takes the same receipts afterwards undoes nothing."""
    recorded = Staged.make(tmp_path / "recorded", kind)
    before = files_below(recorded.root)
    command, another = recorded.command(), recorded.command()
    recording = Recording(recorded.root)
    with recording.running():
        recorded.service().staged.commit(command)
    recording.acknowledge(kind)
    outcomes = []

    def check(crash: Crash, path: Path) -> None:
        folder = replace(recorded, root=crash.write(path))
        staged = folder.service().staged
        has_landed = folder.versions() == 2
        assert has_landed or not crash.acknowledged
        assert folder.rows() == (folder.after if has_landed else BEFORE)
        is_another = _is_done(staged.commit, another)
        assert not (is_another and has_landed), "taken twice"
        is_repeated = _is_done(staged.commit, command)
        assert is_repeated or not has_landed
        _is_done(staged.abort, T, recorded.receipts)
        is_made = has_landed or is_another or is_repeated
        assert folder.versions() == 1 + is_made
        assert folder.rows() == (folder.after if is_made else BEFORE)
        outcomes.append((has_landed, is_another, is_repeated))

    for number, crash in enumerate(crashes(recording, before, SEED, tries=4)):
        path = tmp_path / str(number)
        check(crash, path)
        shutil.rmtree(path)
    kinds = {outcome: outcomes.count(outcome) for outcome in set(outcomes)}
    print(f"seed {SEED}: {len(recording.steps)} steps, {len(outcomes)} states, {kinds}", file=sys.stderr)
    assert len(outcomes) > 15
    assert {(True, False, True), (False, True, False)} <= kinds.keys()
