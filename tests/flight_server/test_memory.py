"""T33: the memory of a server that streams far more than it may hold."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from support.raw_flight import scan_json
from support.served import StartServer
from support.server import RunningServer

LIMIT_BYTES = 64 << 20
ALLOWANCE_BYTES = 64 << 20
ROWS = 1_000_000


class PeakMemory:
    """Samples RssAnon of a server every 5 ms."""

    def __init__(self, server: RunningServer) -> None:
        self.peak_bytes = 0
        self._server = server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(0.005):
            self.peak_bytes = max(self.peak_bytes, self._server.anonymous_bytes())


def write_large(path: Path, num_bytes: int) -> int:
    """A dataset of mixed columns whose decoded size is at least `num_bytes`; the size."""
    source = np.random.default_rng(5)
    written = 0
    while written < num_bytes:
        numbers = source.integers(0, 2**40, ROWS)
        table = pa.table(
            {
                "id": numbers,
                "value": pa.array(source.normal(size=ROWS), mask=numbers % 9 == 0),
                "word": pa.array(np.array([f"word {i}" for i in range(500)])[numbers % 500]),
                "text": pa.array([f"{n:x} some free text {n * 7:x}" for n in numbers.tolist()]),
                "vector": pa.FixedSizeListArray.from_arrays(
                    pa.array(source.normal(size=ROWS * 16).astype(np.float32)), 16
                ),
            }
        )
        lance.write_dataset(table, path, mode="append" if written else "create")
        written += table.nbytes
    return written


@pytest.mark.long
@pytest.mark.parametrize("streams", [1, 4])
def test_a_dataset_ten_times_the_limit(tmp_path: Path, serve: StartServer, streams: int) -> None:
    """T33: RssAnon stays below idle + limit + 64 MiB while a dataset of 10 x the limit is streamed."""
    size = write_large(tmp_path / "data" / "large.lance", 10 * LIMIT_BYTES)
    server = serve(tmp_path / "data", "--memory-limit", str(LIMIT_BYTES))
    idle = server.anonymous_bytes()

    def read(_: int) -> int:
        with server.client() as client:
            return sum(chunk.data.num_rows for chunk in client.do_get(flight.Ticket(scan_json("large"))))

    with PeakMemory(server) as memory, ThreadPoolExecutor(streams) as pool:
        rows = sum(pool.map(read, range(streams)))
    time.sleep(0.5)
    after = server.anonymous_bytes()
    print(
        f"{streams} streams, {rows:,} rows: limit {LIMIT_BYTES >> 20} MiB, dataset {size >> 20} MiB, "
        f"idle {idle >> 20} MiB, peak {memory.peak_bytes >> 20} MiB, afterwards {after >> 20} MiB"
    )
    assert memory.peak_bytes < idle + LIMIT_BYTES + ALLOWANCE_BYTES
