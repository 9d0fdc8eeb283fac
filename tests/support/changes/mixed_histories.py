"""Runs writers of both libraries at once on one dataset, and checks the history that they make of it."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import lance
import pyarrow as pa

import lance_core
from support.changes.mixed_writes import OWN, SCHEMA, SHARED, State, apply, make_steps
from support.changes.racing import race

SEED = int(os.environ.get("LANCE_TEST_SEED", "20261121"))
STEPS = os.environ.get("LANCE_TEST_STEPS")
"""Steps of each writer, in place of those that a test asks for: see docs/development.md."""
History = list[dict[str, Any]]
"""The steps of one writer, each with the version it made or an error."""
Options = dict[str, str]
MIN_COMMITS = 50
"""A run with fewer says nothing."""


def run(uri: str, libraries: list[str], steps: int, options: Options) -> list[History]:
    """Return the answer that each writer got for each of its steps."""
    arguments = [(name, uri, number, SEED, steps, options) for number, name in enumerate(libraries, 1)]
    return [list(map(json.loads, answers)) for answers in race(make_steps, arguments)]


def _states(lines: History) -> list[State]:
    """Return the rows of a writer after each acknowledged step that changes them."""
    states: list[State] = [{}]
    for line in lines:
        if "version" in line and not {"count", "compact"} & set(line):
            states.append(apply(line, states[-1]))
    return states


def _rows(table: pa.Table) -> dict[int, State]:
    """Return the rows of each writer; no id is there twice."""
    ids, values = table["id"].to_pylist(), table["value"].to_pylist()
    assert len(set(ids)) == len(ids)
    found: dict[int, State] = {}
    for number, value in zip(ids, values, strict=True):
        found.setdefault(number // OWN, {})[number] = value
    return found


def check(uri: str, histories: list[History], options: Options, *, stable_row_ids: bool, every: int) -> int:
    """Every version shows each writer's rows as they were after some step of its, later ones later steps."""
    ours = lance_core.dataset(uri, storage_options=options)
    versions = [version["version"] for version in ours.versions()]
    assert versions == list(range(1, versions[-1] + 1))
    states = {number: _states(lines) for number, lines in enumerate(histories, 1)}
    reached = dict.fromkeys(states, 0)
    counted = 0
    for version in versions:
        table = ours.checkout_version(version).to_table(with_row_id=True)
        rows = _rows(table)
        if stable_row_ids:
            assert len(set(table["_rowid"].to_pylist())) == len(table)
        steps = 0
        for number, known in states.items():
            state = rows.get(number, {})
            if state != known[reached[number]]:
                reached[number] += 1
                steps += 1
                assert state == known[reached[number]], (
                    f"writer {number} in version {version}: it differs in"
                    f" {sorted(state.items() ^ known[reached[number]].items())}; its steps near there, and"
                    f" those that failed: {_near(histories[number - 1], version)}"
                )
        assert steps <= 1, f"version {version} is of two writers"
        assert rows[0][SHARED] >= counted
        counted = rows[0][SHARED]
        if version % every == 0 or version == versions[-1]:
            theirs = lance.dataset(uri, version=version, storage_options=options)
            assert _rows(theirs.to_table()) == rows
            assert theirs.validate() is None
    assert reached == {number: len(known) - 1 for number, known in states.items()}, "acknowledged and lost"
    counts = [line for lines in histories for line in lines if "count" in line and "version" in line]
    assert counted == len(counts), "a count was lost"
    return versions[-1]


def _near(history: History, version: int) -> History:
    """Return the steps of a writer near a version, and those that failed, which may have landed unheard."""
    return [line for line in history if abs(line.get("version", version) - version) < 8]


def run_and_check(
    uri: str, libraries: list[str], steps: int, *, stable_row_ids: bool, options: Options
) -> None:
    """Let writers run on a new dataset, and check and print what became of it."""
    steps = int(STEPS or steps)
    table = pa.table({"id": [SHARED], "value": [0]}, schema=SCHEMA)
    lance_core.write_dataset(table, uri, enable_stable_row_ids=stable_row_ids, storage_options=options)
    histories = run(uri, libraries, steps, options)
    lines = [line for lines in histories for line in lines]
    refused = [line for line in lines if "error" in line]
    commits = len(lines) - len(refused)
    versions = check(uri, histories, options, stable_row_ids=stable_row_ids, every=7 if steps > 50 else 1)
    kinds = {kind: sum(kind in line for line in lines) for kind in ("append", "delete", "update", "compact")}
    print(
        f"seed {SEED}: {len(libraries)} writers, {len(lines)} steps, {commits} acknowledged,"
        f" {len(refused)} refused, {versions} versions, {kinds}",
        *{line["error"][:160] for line in refused},
        sep="\n",
        file=sys.stderr,
    )
    assert all(len(history) == steps for history in histories)
    assert commits >= MIN_COMMITS
    assert len(refused) <= len(lines) // 5
