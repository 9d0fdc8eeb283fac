"""Access to results, so that the time includes memory that is mapped but not yet read or written."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

STRIDE_BYTES = 4096


def touch(chunks: Iterable[pa.Array]) -> int:
    """Read one byte of every 4 KiB of every buffer below the arrays, and return their sum."""
    total = 0
    seen = set()
    for chunk in chunks:
        for buffer in chunk.buffers():
            if buffer is None or buffer.size == 0 or (buffer.address, buffer.size) in seen:
                continue
            seen.add((buffer.address, buffer.size))
            total += int(np.frombuffer(buffer, np.uint8)[::STRIDE_BYTES].sum())
    return total


def touch_table(table: pa.Table) -> int:
    """Return the sum of `touch` for all columns of a table."""
    return touch(chunk for column in table.columns for chunk in column.chunks)


def touch_batch(batch: pa.RecordBatch) -> int:
    """Return the sum of `touch` for all columns of a batch."""
    return touch(batch.columns)
