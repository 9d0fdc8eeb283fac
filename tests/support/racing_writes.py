"""Run as a program: one writer of many. Appends batches of rows with ids that no other writer uses.

    python -m support.racing_writes LIBRARY PATH FIRST_ID COMMITS

Begins when a line arrives on stdin, and prints one line per commit: its first id and `ok` or the error.
"""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

ROWS = 3


def main(library: str, path: str, first: int, commits: int) -> None:
    """Append as fast as possible."""
    writer: Any
    if library == "ours":
        import lance_core as writer
    else:
        import lance as writer
    print("ready", flush=True)
    sys.stdin.readline()
    for start in range(first, first + commits * ROWS, ROWS):
        rows = pa.table({"id": pa.array(range(start, start + ROWS), pa.int64())})
        try:
            writer.write_dataset(rows, path, mode="append")
            print(start, "ok", flush=True)
        except OSError as error:
            print(start, type(error).__name__, error, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
