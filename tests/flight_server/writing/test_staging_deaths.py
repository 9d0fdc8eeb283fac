"""Servers and clients that are killed at any moment of staged writes and their commits: every row once."""

from __future__ import annotations

import random
import threading
import time
import uuid
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyarrow import flight

from support.clients.actions import act, stage
from support.clients.puts import put
from support.processes.waiting import wait_until
from support.servers.server import RunningServer, start_server

# What a client sees of a server that is gone, and of one that died between a claim and its commit.
GONE = (flight.FlightUnavailableError, flight.FlightInternalError, flight.FlightTimedOutError)


class Writer:
    """Stages rows and commits them, at whatever server there is, until each commit is acknowledged."""

    def __init__(self, number: int, uri: list[str]) -> None:
        self._number = number
        self._uri = uri
        self._rows = 0
        self.acknowledged: list[int] = []
        self.deaths_seen = 0

    def write(self) -> None:
        """One version of three uploads; a receipt that was lost with its server leaves no rows."""
        receipts = []
        committed = []
        while len(receipts) < 3:
            row = self._number * 1_000_000 + self._rows
            self._rows += 1
            try:
                with flight.connect(self._uri[0]) as client:
                    receipts.append(stage(client, pa.table({"n": [row]}), dataset="t"))
                    committed.append(row)
            except GONE:
                self._died()
        commit = {
            "dataset": "t",
            "operation": "append",
            "staged": receipts,
            "transaction_id": str(uuid.uuid4()),
        }
        while True:
            try:
                with flight.connect(self._uri[0]) as client:
                    act(client, "commit", **commit)
                break
            except GONE:
                self._died()
        self.acknowledged += committed

    def _died(self) -> None:
        self.deaths_seen += 1
        time.sleep(0.05)


@pytest.mark.parametrize("kills", [4, pytest.param(40, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_a_server_that_is_killed(tmp_path: Path, kills: int) -> None:
    """T35, T44: old or new version, each acknowledged row once; a commit is repeated until it is in."""
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    served = tmp_path / "served"
    served.mkdir()
    servers: list[RunningServer] = [start_server(served, tmp_path / "0.log")]
    with servers[0].client() as client:
        put(client, {"dataset": "t", "mode": "create"}, pa.table({"n": [-1]}))
    uri = [servers[0].uri]
    writers = [Writer(number, uri) for number in range(3)]
    stop = threading.Event()
    failures: list[BaseException] = []

    def run(writer: Writer) -> None:
        try:
            while not stop.is_set():
                writer.write()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    try:
        for number in range(1, kills + 1):
            if number % 2:  # every other server lives until it has written something
                written = sum(len(writer.acknowledged) for writer in writers)
                wait_until(
                    lambda written=written: (
                        sum(len(writer.acknowledged) for writer in writers) > written or failures
                    ),
                    f"a commit at server {number} of seed {seed}",
                )
            time.sleep(source.uniform(0.1, 0.6))
            servers[-1].kill()
            servers.append(start_server(served, tmp_path / f"{number}.log"))
            uri[0] = servers[-1].uri
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
        servers[-1].kill()
    assert not failures, (seed, failures)
    acknowledged = sorted(row for writer in writers for row in writer.acknowledged)
    dataset = lance.dataset(served / "t.lance")
    print(
        f"seed {seed}: {kills} kills, {dataset.version} versions, {len(acknowledged)} rows, "
        f"{sum(writer.deaths_seen for writer in writers)} calls lost"
    )
    assert sorted(dataset.to_table()["n"].to_pylist()) == [-1, *acknowledged], seed
    assert dataset.version == 1 + len(acknowledged) // 3
    assert len(acknowledged) >= 3 * (kills // 2)
