"""Memory of a client whose reader is slow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

import lance_core
from support.servers.served import StartServer

MIB = 1 << 20
READ_AHEAD = 16 * MIB
STREAMS = 4
WINDOW = 16 * MIB
"""Bytes that gRPC receives ahead from a stream whose batches nobody requests."""

_READER = """if True:
    import sys, time
    import flight_client

    def anonymous_bytes():
        for line in open("/proc/self/status"):
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10

    uri, parallel, read_ahead = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    client = flight_client.connect(uri, parallel=parallel, max_read_bytes=read_ahead)
    dataset = client.dataset("t")
    before = anonymous_bytes()
    batches = iter(dataset.scanner().to_reader())
    rows = next(batches).num_rows
    held, now = -1, 0
    while now > held:
        held = now
        time.sleep(0.5)
        now = anonymous_bytes() - before
    rows += sum(batch.num_rows for batch in batches)
    print(now, rows)
    """


def test_parallel_streams_wait_for_a_slow_reader(serve: StartServer, tmp_path: Path) -> None:
    """T29: received batches are bounded, for any size of the dataset and any number of streams.

    Batches count as twice their bytes: what a message was put together from lies free between them.
    """
    rows = pa.table({"x": np.zeros(8 * MIB)})
    for mode in ["create", *["append"] * (STREAMS - 1)]:
        lance_core.write_dataset(rows, tmp_path / "t", mode=mode)
    done = subprocess.run(
        [sys.executable, "-c", _READER, serve(tmp_path).uri, str(STREAMS), str(READ_AHEAD)],
        capture_output=True,
        text=True,
        check=True,
    )
    held, num_rows = map(int, done.stdout.split())
    assert num_rows == STREAMS * rows.num_rows
    assert held < 2 * READ_AHEAD + STREAMS * WINDOW < STREAMS * rows.nbytes // 2
