"""A writer that makes changes of every kind, drawn at random, and says of each which version it made.

Every writer has ids of its own, and rows that all of them change: those with ids below `SHARED`, and a
counter. So what a change does follows from the version before the one that it made, whatever it was begun on.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from typing import Any

import lance
import pyarrow as pa

import lance_core

OWN = 100_000
"""Writer n has the ids from n * OWN on."""
SHARED = 40
COUNTER = 99
KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=KEY), pa.field("value", pa.int64())])
KINDS = {
    "append": 6,
    "delete": 4,
    "update": 5,
    "upsert": 4,
    "upsert shared": 5,
    "delete shared": 3,
    "count": 5,
    "compact": 4,
    "add column": 1,
    "drop column": 1,
    "restore": 1,
    "configure": 1,
    "index": 1,
}
_DONE_BY_REFERENCE = {"index"}
# Where there is an index on the key, a merge of the reference does not say which keys it inserted: two of its
# merges insert one key twice, without any of ours.
_NOT_DONE_BY_REFERENCE = {"upsert shared"}
Change = dict[str, Any]


class Writer:
    """Changes one dataset, step by step."""

    def __init__(self, library: Any, path: str, number: int, seed: int) -> None:
        self._library, self._path, self._number = library, path, number
        self._random = random.Random(seed * 1000 + number)
        self._dataset = library.dataset(path)
        self._next_id = number * OWN

    def step(self, number: int) -> Change:
        """Make one change: what was done, with the version it made or an error."""
        if self._random.random() < 0.8:  # else on a version that others have left behind
            self._dataset = self._library.dataset(self._path)
        kind = self._random.choices(list(KINDS), weights=list(KINDS.values()))[0]
        if kind in _DONE_BY_REFERENCE and self._library is lance_core:
            kind = "compact"
        if kind in _NOT_DONE_BY_REFERENCE and self._library is lance:
            kind = "upsert"
        change = {
            "kind": kind,
            "writer": self._number,
            "library": self._library.__name__,
            "value": self._number * 1_000_000 + number,
            "begun_on": self._dataset.version,
        }
        before = self._dataset.version
        try:
            getattr(self, f"_{kind.replace(' ', '_')}")(change)
        except Exception as error:
            return change | {"error": f"{type(error).__name__}: {error}"[:300]}
        if kind == "compact" and self._dataset.version == before:
            return change
        return change | {"version": self._dataset.version}

    def _rows(self, change: Change, ids: list[int]) -> pa.Table:
        change["ids"] = ids
        return pa.table({"id": ids, "value": [change["value"]] * len(ids)}, schema=SCHEMA)

    def _own(self, change: Change) -> str:
        """Return a condition for some rows of this writer."""
        divisor = self._random.choice([1, 2, 3])
        change["divisor"], change["rest"] = divisor, self._random.randrange(divisor)
        first = self._number * OWN
        return f"id >= {first} AND id < {first + OWN} AND id % {divisor} = {change['rest']}"

    def _append(self, change: Change) -> None:
        ids = list(range(self._next_id, self._next_id + self._random.choice([1, 3, 20])))
        self._next_id = ids[-1] + 1
        self._dataset = self._library.write_dataset(self._rows(change, ids), self._dataset, mode="append")

    def _delete(self, change: Change) -> None:
        self._dataset.delete(self._own(change))

    def _update(self, change: Change) -> None:
        self._dataset.update({"value": str(change["value"])}, where=self._own(change))

    def _merge(self, rows: pa.Table) -> None:
        merge = self._dataset.merge_insert("id")
        merge.when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def _upsert(self, change: Change) -> None:
        known = range(self._number * OWN, self._next_id + 10)
        ids = sorted(self._random.sample(known, 5))
        self._next_id = max(self._next_id, ids[-1] + 1)
        self._merge(self._rows(change, ids))

    def _upsert_shared(self, change: Change) -> None:
        self._merge(self._rows(change, sorted(self._random.sample(range(SHARED), 3))))

    def _delete_shared(self, change: Change) -> None:
        change["ids"] = sorted(self._random.sample(range(SHARED), 2))
        self._dataset.delete(f"id IN ({change['ids'][0]}, {change['ids'][1]})")

    def _count(self, change: Change) -> None:
        self._dataset.update({"value": "value + 1"}, where=f"id = {COUNTER}")

    def _compact(self, change: Change) -> None:
        self._dataset.optimize.compact_files(target_rows_per_fragment=self._random.choice([10, 100, 1000]))

    def _add_column(self, change: Change) -> None:
        change["column"] = f"c{self._number}"
        self._dataset.add_columns({change["column"]: f"value + {change['value']}"})

    def _drop_column(self, change: Change) -> None:
        change["column"] = f"c{self._number}"
        self._dataset.drop_columns([change["column"]])

    def _restore(self, change: Change) -> None:
        newest = self._dataset.version
        change["restored"] = self._random.randrange(max(1, newest - 4), newest + 1)
        self._dataset = self._dataset.checkout_version(change["restored"])
        self._dataset.restore()

    def _configure(self, change: Change) -> None:
        self._dataset.update_config({f"key {self._number}": str(change["value"])})

    def _index(self, change: Change) -> None:
        self._dataset.create_scalar_index("id", self._random.choice(["BTREE", "BITMAP"]), replace=True)


def main(path: str, seed: int, steps: int, first: int, threads: int) -> None:
    """Let writers of both libraries run in threads, and print a line for every step."""
    printing = threading.Lock()

    def run(number: int) -> None:
        writer = Writer([lance_core, lance][number % 2], path, number, seed)
        for step in range(steps):
            line = json.dumps(writer.step(step))
            with printing:
                print(line, flush=True)

    running = [threading.Thread(target=run, args=(first + place,)) for place in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
