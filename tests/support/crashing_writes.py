"""Run as a program: makes one write per fault, each in a process of its own that is killed at that fault.

    python -m support.crashing_writes FOLDER OPERATION BEFORE|AFTER

`FOLDER/before` is copied to `FOLDER/0`, `FOLDER/1`, ... and the write is made there, killed at call 0, 1, ...
until one write comes to its end. The number of writes is printed.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pyarrow as pa

from lance_core.write.dataset import DatasetWriter, Mode
from lance_core.write.fragments import FileLimits
from lance_core.write.options import DatasetWriteOptions
from support.faults import FaultStorage, kills, kills_after

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
NEW_ROWS = 30


def rows(start: int, count: int) -> pa.RecordBatch:
    """Rows that tell which write they belong to."""
    ids = range(start, start + count)
    return pa.record_batch([pa.array(ids, pa.int64()), [f"row {number}" for number in ids]], schema=SCHEMA)


def write(storage: FaultStorage, mode: Mode) -> None:
    """Write rows 1000.. in two files."""
    options = DatasetWriteOptions(limits=FileLimits(max_rows=20))
    with DatasetWriter(storage, SCHEMA, mode, options) as writer:
        for start in range(0, NEW_ROWS, 10):
            writer.write(rows(1000 + start, 10))
        writer.commit()


def _attempts(folder: Path, mode: Mode, after: bool) -> Iterator[int]:
    for number in range(1000):
        target = folder / str(number)
        if (folder / "before").exists():
            shutil.copytree(folder / "before", target)
        child = os.fork()
        if child == 0:
            try:
                write(FaultStorage(target, number, kills_after if after else kills), mode)
            except BaseException as error:
                print(repr(error), file=sys.stderr)
                os._exit(1)
            os._exit(0)
        yield os.waitpid(child, 0)[1]


def main(folder: Path, mode: str, when: str) -> None:
    """Kill at every call."""
    for count, status in enumerate(_attempts(folder, cast("Mode", mode), when == "AFTER"), 1):
        if status == 0:
            print(count)
            return
        if os.WIFEXITED(status):
            raise SystemExit(f"write {count - 1} failed instead of being killed")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
