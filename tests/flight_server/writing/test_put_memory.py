"""Memory of uploads (T28), which is bounded for any amount of data."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import flight_client
from support.clients.puts import files_below
from support.servers.served import StartServer
from support.servers.server import RunningServer

ROWS = 4096


@pytest.fixture
def served(tmp_path: Path) -> Path:
    path = tmp_path / "served"
    path.mkdir()
    return path


def mixed_batches() -> list[pa.RecordBatch]:
    """Different batches of about 2.3 MB: numbers, text, a vector, a list."""
    source = np.random.default_rng(2)
    batches = []
    for number in range(8):
        values = pa.array(source.random(ROWS * 128, dtype=np.float32))
        words = source.integers(0, 1000, ROWS)
        batches.append(
            pa.record_batch(
                {
                    "id": pa.array(np.arange(ROWS) + number * ROWS),
                    "price": pa.array(source.normal(size=ROWS), mask=source.random(ROWS) < 0.1),
                    "text": [f"some text {word} that repeats in part" for word in words],
                    "category": [("red", "green", "blue")[word % 3] for word in words],
                    "vector": pa.FixedSizeListArray.from_arrays(values, 128),
                    "list": pa.array([list(range(word % 7)) for word in words], pa.list_(pa.int32())),
                }
            )
        )
    return batches


@contextmanager
def peak(server: RunningServer) -> Iterator[list[int]]:
    """The highest anonymous memory of the server while the block runs, in bytes."""
    highest, stop = [server.anonymous_bytes()], threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            highest[0] = max(highest[0], server.anonymous_bytes())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield highest
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("megabytes", [400, pytest.param(5000, marks=pytest.mark.long("5 GB"))])
def test_a_long_upload(serve: StartServer, served: Path, megabytes: int) -> None:
    """T28"""
    server = serve(served)
    batches = mixed_batches()
    count = megabytes * 10**6 // batches[0].nbytes
    rows = (batches[number % len(batches)] for number in range(count))
    with flight_client.connect(server.uri) as client, peak(server) as highest:
        began = time.perf_counter()
        client.write("t", rows, "create", schema=batches[0].schema, max_bytes_per_file=1 << 30)
        seconds = time.perf_counter() - began
    cpu = server.statistics().cpu_times()
    print(
        f"{count * batches[0].nbytes / 1e6:.0f} MB in {seconds:.1f} s, {cpu.user + cpu.system:.1f} s CPU, "
        f"peak {highest[0] / 1e6:.0f} MB"
    )
    assert highest[0] < 600 << 20
    assert lance.dataset(str(served / "t.lance")).count_rows() == count * ROWS


@pytest.mark.parametrize("gigabytes", [1, pytest.param(50, marks=pytest.mark.long("50 GB"))])
def test_zeros_up_to_the_quota(serve: StartServer, served: Path, gigabytes: int) -> None:
    """T28: refused where the quota ends, with nothing left behind."""
    server = serve(served, "--max-put-bytes", f"{gigabytes}GB")
    zeros = pa.record_batch({"x": np.zeros(1 << 21, np.int64)})
    with (
        flight_client.connect(server.uri) as client,
        peak(server) as highest,
        pytest.raises(flight_client.InvalidInputError, match="the upload is too large"),
    ):
        client.write("t", repeat(zeros), "create", schema=zeros.schema)
    assert highest[0] < 600 << 20
    assert not files_below(served)
