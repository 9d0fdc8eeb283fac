"""One writer of many: appends, deletes, updates and compacts.

Each writer has ids of its own, from `number` * 1000000 on, so that what its steps do is known; row 0 is one
that all count up. The answer to a step is a JSON object: what it did, the version it made, or the error.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from support.changes.racing import READY

SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int64())])
OWN = 1_000_000
SHARED = 0

State = dict[int, int]
"""Value by id, of the rows of one writer."""


def _append(chance: random.Random, state: State, first: int) -> dict[str, Any]:
    return {"append": [first + offset for offset in range(chance.randrange(1, 5))]}


def _some(chance: random.Random, state: State) -> list[int]:
    ids = sorted(state)
    return chance.sample(ids, min(len(ids), chance.randrange(1, 4)))


def plan(chance: random.Random, state: State, first: int) -> dict[str, Any]:
    """Return the next step of a writer whose rows are `state`, and whose next id is `first`."""
    kind = chance.choices(["append", "delete", "update", "count", "compact"], [40, 20, 25, 8, 7])[0]
    if kind == "append" or (not state and kind in ("delete", "update")):
        return _append(chance, state, first)
    if kind in ("delete", "update"):
        return {kind: _some(chance, state)}
    return {kind: None}


def apply(step: dict[str, Any], state: State) -> State:
    """Return the rows of the writer after a change."""
    after = dict(state)
    for number in step.get("append", []):
        after[number] = 0
    for number in step.get("delete", []):
        del after[number]
    for number in step.get("update", []):
        after[number] += 1
    return after


def _make(library: Any, uri: str, options: dict[str, str], step: dict[str, Any]) -> int:
    """Make the step; returns the version."""
    if "append" in step:
        rows = pa.table({"id": step["append"], "value": [0] * len(step["append"])}, schema=SCHEMA)
        written = library.write_dataset(rows, uri, mode="append", storage_options=options)
        return int(written.version)
    dataset = library.dataset(uri, storage_options=options)
    if "compact" in step:
        dataset.optimize.compact_files(target_rows_per_fragment=500, num_threads=1)
    elif "count" in step:
        dataset.update({"value": "value + 1"}, f"id = {SHARED}")
    else:
        ids = ", ".join(map(str, step.get("delete") or step["update"]))
        if "delete" in step:
            dataset.delete(f"id IN ({ids})")
        else:
            dataset.update({"value": "value + 1"}, f"id IN ({ids})")
    return int(dataset.version)


def make_steps(
    name: str, uri: str, number: int, seed: int, steps: int, options: dict[str, str]
) -> Iterator[str]:
    """Make steps as fast as possible."""
    library: Any
    if name == "ours":
        import lance_core as library
    else:
        import lance as library
    chance = random.Random(seed * 1000 + number)
    state: State = {}
    first = number * OWN
    yield READY
    for _ in range(steps):
        step = plan(chance, state, first)
        first += len(step.get("append", []))
        try:
            version = _make(library, uri, options, step)
        except (OSError, RuntimeError) as error:
            line = {**step, "error": f"{type(error).__name__}: {error}"[:300]}
        else:
            line = {**step, "version": version}
            state = apply(step, state)
        yield json.dumps(line)
