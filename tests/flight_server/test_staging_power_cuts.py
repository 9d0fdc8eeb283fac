"""What is left of staged writes after a power cut at any moment of their commit or removal."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from lance_core.errors import LanceError
from support.power_cuts import Crash, Recording, crashes, files_below
from support.staged import (
    AFTER,
    BEFORE,
    T,
    commit_of,
    make_dataset,
    rows_of,
    service_of,
    stage_all,
    versions_of,
)

SEED = int(os.environ.get("LANCE_TEST_SEED", "20261121"))


def _is_done(change: object, *arguments: object) -> bool:
    try:
        change(*arguments)  # type: ignore[operator]
    except LanceError:
        return False
    return True


@pytest.mark.parametrize("kind", ["append", "overwrite", "insert", "add_columns"])
def test_a_commit(kind: str, tmp_path: Path) -> None:
    """T13, T36: all or nothing is there, and who takes the same receipts afterwards undoes nothing."""
    root = tmp_path / "recorded"
    make_dataset(root)
    receipts = stage_all(kind)(root)
    before = files_below(root)
    command, another = commit_of(kind, receipts), commit_of(kind, receipts)
    recording = Recording(root)
    with recording.running():
        service_of(root).staged.commit(command)
    recording.acknowledge(kind)
    outcomes = []

    def check(crash: Crash, path: Path) -> None:
        staged = service_of(crash.write(path)).staged
        has_landed = versions_of(path) == 2
        assert has_landed or not crash.acknowledged
        assert rows_of(path) == (AFTER[kind] if has_landed else BEFORE)
        is_another = _is_done(staged.commit, another)
        assert not (is_another and has_landed), "taken twice"
        is_repeated = _is_done(staged.commit, command)
        assert is_repeated or not has_landed
        _is_done(staged.abort, T, receipts)
        is_made = has_landed or is_another or is_repeated
        assert versions_of(path) == 1 + is_made
        assert rows_of(path) == (AFTER[kind] if is_made else BEFORE)
        outcomes.append((has_landed, is_another, is_repeated))

    for number, crash in enumerate(crashes(recording, before, SEED, tries=4)):
        path = tmp_path / str(number)
        check(crash, path)
        shutil.rmtree(path)
    kinds = {outcome: outcomes.count(outcome) for outcome in set(outcomes)}
    print(f"seed {SEED}: {len(recording.steps)} steps, {len(outcomes)} states, {kinds}", file=sys.stderr)
    assert len(outcomes) > 15
    assert {(True, False, True), (False, True, False)} <= kinds.keys()
