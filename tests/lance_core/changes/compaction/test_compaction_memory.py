"""Memory of a compaction of many fragments, and of a new column in each of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MIB = 1 << 20
PROGRAM = """
import sys, threading, time
import numpy as np, pyarrow as pa, pyarrow.compute as pc
import lance_core

path, fragments, rows, width = sys.argv[1], *map(int, sys.argv[2:])
random = np.random.default_rng(7)

def batches():
    for number in range(fragments):
        data = pa.py_buffer(random.bytes(width * rows))
        payload = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), rows, [None, data])
        keys = pa.array(np.arange(number * rows, (number + 1) * rows))
        yield pa.record_batch([keys, payload.cast(pa.binary())], names=["key", "payload"])

def held():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) << 10

peak = 0
def watch():
    global peak
    while True:
        peak = max(peak, held())
        time.sleep(0.01)

first = next(batches())
dataset = lance_core.write_dataset(
    batches(), path, schema=first.schema, max_rows_per_file=rows, enable_stable_row_ids=True, sync=False
)
dataset.delete("key % 5 = 0", sync=False)
expected = dataset.count_rows()
assert len(dataset.get_fragments()) == fragments
threading.Thread(target=watch, daemon=True).start()
taken = []
for change in (
    lambda: dataset.optimize.compact_files(target_rows_per_fragment=3 * rows, num_threads=4),
    lambda: dataset.optimize.compact_files(),
    lambda: dataset.add_columns(lambda batch: pa.record_batch({"copy": batch["payload"]}), ["payload"]),
):
    before, peak, version = held(), 0, dataset.version
    change()
    assert dataset.version == version + 1
    taken.append(peak - before)
assert dataset.count_rows() == expected
print(*taken)
"""


@pytest.mark.long
def test_fragments_are_not_held(tmp_path: Path) -> None:
    """T33: 960 MiB of data in 40 fragments that become one; then as many values of a new column."""
    fragments, rows, width = 40, 21_000, 1_200
    arguments = [str(tmp_path / "d"), str(fragments), str(rows), str(width)]
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    taken = [int(number) for number in run.stdout.split()]
    data = fragments * rows * width
    print(f"{[number // MIB for number in taken]} MiB for {data // MIB} MiB")
    assert max(taken) < 500 * MIB
