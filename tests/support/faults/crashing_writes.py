"""Writes of new rows in several files, to a storage that may fail."""

from __future__ import annotations

from typing import cast

import pyarrow as pa

from lance_core.write.dataset import DatasetWriter, Mode
from lance_core.write.dataset_options import DatasetWriteOptions
from lance_core.write.fragments import FileLimits
from support.faults.failing_storage import FaultStorage

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


def make_change(storage: FaultStorage, mode: str) -> None:
    """Make a change, like `write`."""
    write(storage, cast("Mode", mode))
