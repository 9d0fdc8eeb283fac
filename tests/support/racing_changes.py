"""Run as a program: one writer of many, which deletes, updates and merges rows that no other writer touches.

    python -m support.racing_changes LIBRARY PATH FIRST COUNT

The rows `FIRST`, `FIRST + 1`, ... of the column `id` are the writer's own. In turn it deletes one, adds 1000
to the `value` of one, and merges one that gets 2000 more and a new one, whose `id` is 10000 more. Begins when
a line arrives on stdin, and prints one line per change: its id and `ok` or the error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import pyarrow as pa


def expected(first: int, done: Iterable[int]) -> dict[int, int | None]:
    """Return the result of the acknowledged changes of a writer: values by id, None for a deleted row."""
    rows: dict[int, int | None] = {}
    for row in done:
        kind = (row - first) % 3
        rows[row] = [None, row + 1000, row + 2000][kind]
        if kind == 2:
            rows[row + 10000] = 7
    return rows


def change(dataset: Any, row: int, kind: int) -> None:
    """Make one change."""
    if kind == 0:
        dataset.delete(f"id = {row}")
    elif kind == 1:
        dataset.update({"value": "value + 1000"}, f"id = {row}")
    else:
        source = pa.table({"id": [row, row + 10000], "value": [row + 2000, 7]})
        merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(source)


def main(library: str, path: str, first: int, count: int) -> None:
    """Change as fast as possible."""
    writer: Any
    if library == "ours":
        import lance_core as writer
    else:
        import lance as writer
    print("ready", flush=True)
    sys.stdin.readline()
    for row in range(first, first + count):
        try:
            change(writer.dataset(path), row, (row - first) % 3)
            print(row, "ok", flush=True)
        except OSError as error:
            print(row, type(error).__name__, str(error)[:300], flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
