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

from support.clients.raw_flight import call, path_descriptor, scan_json, ticket
from support.servers.served import StartServer
from support.servers.server import RunningServer

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
    """Return a dataset of mixed columns whose decoded size is at least `num_bytes`; the size."""
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


@pytest.mark.long("writes and reads gigabytes")
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


@pytest.mark.long("15,000 calls")
def test_many_calls_leave_nothing_behind(tmp_path: Path, serve: StartServer) -> None:
    """T30, T33: 5,000 cancelled streams, as many whole and failing calls: no growth, nothing left open."""
    path = tmp_path / "data" / "large.lance"
    lance.write_dataset(pa.table({"a": np.arange(2_000_000), "b": np.arange(2_000_000) % 977}), path)
    server = serve(tmp_path / "data", "--memory-limit", str(LIMIT_BYTES))

    def round_of(calls: int) -> None:
        def one(number: int) -> None:
            if number % 2:
                call(server.address, "DoGet", ticket(scan_json("large")), timeout=0.001 * (1 + number % 30))
            elif number % 20:
                call(server.address, "DoGet", ticket(scan_json("large", limit=number % 1000)))
            else:
                call(server.address, "GetFlightInfo", path_descriptor("missing"))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(one, range(calls)))
        time.sleep(1)

    round_of(1000)
    usage = server.statistics()
    before = (server.anonymous_bytes(), usage.num_threads(), usage.num_fds())
    round_of(10_000)
    after = (server.anonymous_bytes(), usage.num_threads(), usage.num_fds())
    print(f"memory, threads, descriptors: {before} before, {after} after 10,000 calls")
    assert after[0] < before[0] + (16 << 20)
    assert after[1] <= before[1] + 8
    assert after[2] <= before[2] + 8
