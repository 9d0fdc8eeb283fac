"""One writer of many: deletes, updates and merges rows that no other writer touches.

The rows `first`, `first + 1`, ... of the column `id` are the writer's own. In turn it deletes one, adds 1000
to the `value` of one, and merges one that gets 2000 more and a new one, whose `id` is 10000 more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from support.changes.racing import READY


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


def change_rows(library: str, path: str, first: int, count: int) -> Iterator[str]:
    """Change as fast as possible; the answer to a change is its row and `ok` or the error."""
    writer: Any
    if library == "ours":
        import lance_core as writer
    else:
        import lance as writer
    yield READY
    for row in range(first, first + count):
        try:
            change(writer.dataset(path), row, (row - first) % 3)
            yield f"{row} ok"
        except OSError as error:
            yield f"{row} {type(error).__name__} {str(error)[:300]}"
