"""Memory of a merge of a large stream."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MIB = 1 << 20
PROGRAM = """
import sys, threading, time
import numpy as np, pyarrow as pa
import lance_core

path, rows, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
random = np.random.default_rng(7)
schema = pa.schema([("key", pa.int64()), ("value", pa.int64()), ("payload", pa.binary())])

def stream(keys):
    for start in range(0, len(keys), 4096):
        part = keys[start : start + 4096]
        data = pa.py_buffer(random.bytes(width * len(part)))
        payload = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(part), [None, data])
        yield pa.record_batch([pa.array(part), pa.array(part * 2), payload.cast(pa.binary())], schema=schema)

def reader(keys):
    return pa.RecordBatchReader.from_batches(schema, stream(keys))

def held():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))

peak = 0
def watch():
    global peak
    while True:
        peak = max(peak, held())
        time.sleep(0.01)

dataset = lance_core.write_dataset(reader(np.arange(rows)), path, sync=False)
threading.Thread(target=watch, daemon=True).start()
before, peak = held(), 0
source = random.permutation(np.arange(rows // 2, rows + rows // 2))
merge = dataset.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
counts = merge.execute(reader(source), sync=False)
assert counts["num_updated_rows"] == counts["num_inserted_rows"] == rows // 2, counts
print(peak - before)
"""


@pytest.mark.long
def test_a_merge_holds_keys_and_not_rows(tmp_path: Path) -> None:
    """T28: a source of 1.2 GB of which the keys are 8 MB; what lies in the mapped file is not held."""
    rows, width = 1_000_000, 1_200
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "d"), str(rows), str(width)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    print(f"{int(run.stdout) / MIB:.0f} MiB for a source of {rows * width / MIB:.0f} MiB")
    assert int(run.stdout) < 400 * MIB
