"""Memory of filtered streams, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import lance
import numpy as np
import pyarrow as pa
import pytest

LIMIT = 16 << 20
CHUNK = 40_000

STREAM_AND_MEASURE = """
import sys
import threading
import lance_core
from lance_core.scan.plan.bind import bind_filter
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.execute import scan_batches
from lance_core.scan.files.cache import FileCache
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.scan_plan import plan_scan

def anonymous_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))

snapshot = lance_core.dataset(sys.argv[1]).snapshot
options = ScanOptions(filter=bind_filter(snapshot.manifest.schema, sys.argv[2]))
plan = plan_scan(snapshot, options)
stop = False


peak = idle = anonymous_bytes()
def watch():
    global peak
    while not stop:
        peak = max(peak, anonymous_bytes())
        pause.wait(0.002)
pause = threading.Event()
watcher = threading.Thread(target=watch)
watcher.start()
rows = size = 0
for batch in scan_batches(snapshot, plan, MemoryBudget(int(sys.argv[3])), FileCache()):
    rows += batch.num_rows
    size += batch.nbytes
stop = True
watcher.join()
print(rows, size, peak - idle)
"""


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """220 MB of text and vectors in two fragments."""
    path = tmp_path_factory.mktemp("wide") / "d"
    rng = np.random.default_rng(1)

    def batches():
        for start in range(0, 6 * CHUNK, CHUNK):
            vectors = pa.array(rng.random(CHUNK * 192, dtype=np.float32))
            letters = rng.integers(97, 123, CHUNK * 150, dtype=np.uint8).tobytes()
            offsets = pa.py_buffer(np.arange(0, CHUNK * 150 + 1, 150, dtype=np.int32))
            yield pa.record_batch(
                {
                    "id": np.arange(start, start + CHUNK),
                    "vector": pa.FixedSizeListArray.from_arrays(vectors, 192),
                    "text": pa.StringArray.from_buffers(CHUNK, offsets, pa.py_buffer(letters)),
                }
            )

    reader = pa.RecordBatchReader.from_batches(next(batches()).schema, batches())
    lance.write_dataset(reader, path, max_rows_per_file=3 * CHUNK, data_storage_version="2.1")
    return path


@pytest.mark.parametrize(
    ("condition", "num_rows"),
    [
        ("text >= '~'", 0),
        ("id >= 0 and text < '~'", 6 * CHUNK),
        ("id % 2 = 1", 3 * CHUNK),
    ],
    ids=["nothing passes", "all passes", "half passes"],
)
def test_a_filter_takes_little_more_than_the_budget(wide, condition, num_rows):
    """T33: anonymous memory stays below idle + limit + 64 MiB, whatever passes."""
    command = [sys.executable, "-c", STREAM_AND_MEASURE, str(wide), condition, str(LIMIT)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == 0, finished.stderr
    rows, size, growth = map(int, finished.stdout.split())
    print(f"{rows} rows, {size >> 20} MiB, grew by {growth >> 20} MiB")
    assert rows == num_rows
    assert growth < LIMIT + (64 << 20)
