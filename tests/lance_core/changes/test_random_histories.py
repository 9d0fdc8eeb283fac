"""Writers of both libraries, in threads of several processes, make changes of every kind to one dataset."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from support.changes.mixed_histories import SEED, STEPS
from support.changes.random_changes import COUNTER, OWN, SCHEMA, Change

TESTS = Path(__file__).parents[2]
PROCESSES, THREADS = 3, 2
Row = dict[str, Any]
State = dict[int, Row]
"""Values of the other columns of each row, by its id."""


def changes_of_writers(path: str, steps: int, seed: int) -> list[Change]:
    program = [sys.executable, "-m", "support.changes.random_changes", path, str(seed), str(steps)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    writers = [
        subprocess.Popen(
            [*program, str(1 + number * THREADS), str(THREADS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        for number in range(PROCESSES)
    ]
    return [json.loads(line) for writer in writers for line in writer.communicate()[0].splitlines()]


def rows_of(table: pa.Table) -> State:
    rows = {row.pop("id"): row for row in table.to_pylist()}
    assert len(rows) == len(table), "an id is there twice"
    return rows


def applied(change: Change, states: dict[int, State], columns: dict[int, list[str]]) -> None:
    """Note what the version that a change made holds, after the one before it."""
    version, value = change["version"], change["value"]
    rows = {number: dict(row) for number, row in states[version - 1].items()}
    names = list(columns[version - 1])
    mine = [
        number
        for number in rows
        if number // OWN == change["writer"] and number % change.get("divisor", 1) == change.get("rest")
    ]
    match change["kind"]:
        case "append" | "upsert" | "upsert shared":
            for number in change["ids"]:
                assert number not in rows or change["kind"] != "append"
                rows.setdefault(number, dict.fromkeys(names))["value"] = value
        case "delete":
            rows = {number: row for number, row in rows.items() if number not in mine}
        case "update":
            for number in mine:
                rows[number]["value"] = value
        case "delete shared":
            for number in change["ids"]:
                began = range(change["begun_on"], version)
                if all(number in states[each] for each in began):  # others may stay: they came meanwhile
                    rows.pop(number, None)
        case "count":
            rows[COUNTER]["value"] += 1
        case "add column":
            names.append(change["column"])
            for row in rows.values():
                row[change["column"]] = row["value"] + value
        case "drop column":
            names.remove(change["column"])
            for row in rows.values():
                del row[change["column"]]
        case "restore":
            rows, names = states[change["restored"]], columns[change["restored"]]
    states[version], columns[version] = rows, names


@pytest.mark.long
@pytest.mark.parametrize("stable_row_ids", [False, True])
@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_every_version_follows_from_the_one_before(seed: int, stable_row_ids: bool, tmp_path: Path) -> None:
    """T37: acknowledged changes of both libraries are one history, and indices find the rows that scans
    find.
    """
    path = str(tmp_path / "t.lance")
    counter = pa.table({"id": [COUNTER], "value": [0]}, schema=SCHEMA)
    lance_core.write_dataset(counter, path, enable_stable_row_ids=stable_row_ids)
    lines = changes_of_writers(path, int(STEPS or 40), seed)
    made = {line["version"]: line for line in lines if "version" in line and line["kind"] != "compact"}
    acknowledged = [line for line in lines if "version" in line and line["kind"] != "compact"]
    assert len(made) == len(acknowledged), "one version is of two changes"
    assert len(made) >= 50
    dataset = lance_core.dataset(path)
    assert [entry["version"] for entry in dataset.versions()] == list(range(1, dataset.version + 1))
    states: dict[int, State] = {1: {COUNTER: {"value": 0}}}
    columns = {1: ["value"]}
    for version in range(2, dataset.version + 1):
        if version in made:
            applied(made[version], states, columns)
        else:  # a compaction
            states[version], columns[version] = states[version - 1], columns[version - 1]
        opened = dataset.checkout_version(version)
        rows = rows_of(opened.to_table())
        if made.get(version, {}).get("kind") == "delete shared":
            for number in made[version]["ids"]:
                if number not in rows:
                    states[version].pop(number, None)
        assert rows == states[version], f"version {version}: {made.get(version)}"
        if stable_row_ids:
            ids = opened.to_table(columns=[], with_row_id=True)["_rowid"]
            assert len(ids.unique()) == len(ids)
        if version % 5 == 0 or version == dataset.version:
            theirs = lance.dataset(path, version=version)
            theirs.validate()
            assert rows_of(theirs.to_table()) == rows
            some = [*sorted(rows)[::3], 7, 13]
            found = rows_of(theirs.to_table(filter=f"id IN ({', '.join(map(str, some))})"))
            assert found == {number: rows[number] for number in some if number in rows}
    refused = sum("error" in line for line in lines)
    print(
        f"seed {seed}: {len(lines)} steps, {len(made)} changes, {dataset.version} versions, {refused} refused"
    )
