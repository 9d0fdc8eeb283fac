"""One writer of many: appends batches of rows with ids that no other writer uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from support.changes.racing import READY

ROWS = 3


def append_rows(library: str, path: str, first: int, commits: int) -> Iterator[str]:
    """Append as fast as possible; the answer to a commit is its first id and `ok` or the error."""
    writer: Any
    if library == "ours":
        import lance_core as writer
    else:
        import lance as writer
    yield READY
    for start in range(first, first + commits * ROWS, ROWS):
        rows = pa.table({"id": pa.array(range(start, start + ROWS), pa.int64())})
        try:
            writer.write_dataset(rows, path, mode="append")
            yield f"{start} ok"
        except OSError as error:
            yield f"{start} {type(error).__name__} {error}"
