"""Busy servers: when a client comes back, and when it gives up."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

import flight_client
from flight_client.errors import from_flight
from flight_client.network.retries import Retries
from flight_client.writing import upload
from support.clients.held_uploads import held_upload
from support.processes.waiting import wait_until
from support.servers.served import StartServer
from support.servers.server import RunningServer

ROWS = pa.table({"n": [1, 2, 3]})


def refusals(server: RunningServer) -> list[tuple[float, float]]:
    """Return the time of each refused upload, and the seconds after which the client may come back."""
    found = []
    for line in server.log.splitlines():
        if "error=OverloadedError" in line:
            told = re.search(r"try again in ([0-9.]+) s", line)
            assert told, line
            time_of_line = datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f")
            found.append((time_of_line.timestamp(), float(told[1])))
    return found


def test_clients_come_back_when_they_are_told(
    tmp_path: Path, serve: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T6: refused calls of every kind wait as long as the server says, and then succeed: rows that can be
    read once are not read before, and a change that a server refused is repeated although it is not safe to
    do so after other errors.
    """
    monkeypatch.setattr(upload, "_ACCEPT_SECONDS", 60.0)  # a busy machine refuses late
    server = serve(tmp_path, "--max-puts", "1")
    client = flight_client.connect(server.uri, attempts=1)
    num_reads = 0

    def once() -> Iterator[pa.RecordBatch]:
        nonlocal num_reads
        num_reads += 1
        yield from ROWS.to_batches()

    with ThreadPoolExecutor(1) as pool:
        with held_upload(server):
            first = pool.submit(client.write, "t", once(), "create", schema=ROWS.schema)
            wait_until(lambda: len(refusals(server)) == 3)
            assert num_reads == 0
        assert first.result(60).version == 1
        assert num_reads == 1
        refused = refusals(server)
        with held_upload(server):
            second = pool.submit(client.write, "t", ROWS)
            wait_until(lambda: len(refusals(server)) == len(refused) + 2)
        assert second.result(60).version == 2
    for calls in (refused, refusals(server)[len(refused) :]):
        for (at, told), (next_at, _) in pairwise(calls):
            assert next_at - at > told - 0.052, "the message is rounded to tenths, the log to milliseconds"


def test_a_client_gives_up(tmp_path: Path, serve: StartServer) -> None:
    """T6: after its patience, with the server's error, which tells the time to come back."""
    server = serve(tmp_path, "--max-puts", "1")
    with held_upload(server):
        client = flight_client.connect(server.uri, patience=0.7)
        with pytest.raises(flight_client.UnavailableError, match=r"try again in .* s") as caught:
            client.write("t", ROWS, "create")
        assert len(refusals(server)) == 2, "half a second is within the patience, a second is not"
        assert caught.value.retryable
        assert caught.value.retry_after is not None
        assert 0.1 <= caught.value.retry_after <= 10
        with pytest.raises(flight_client.UnavailableError):
            flight_client.connect(server.uri, patience=0).write("t", ROWS, "create")
        assert len(refusals(server)) == 3


def test_what_plain_clients_read(tmp_path: Path, serve: StartServer) -> None:
    """The time to come back is in `extra_info` and in the message: pyarrow shows no trailers."""
    server = serve(tmp_path, "--max-puts", "1")
    with held_upload(server), server.client() as client:
        command = json.dumps({"write": {"dataset": "t", "mode": "create"}})
        writer, _ = client.do_put(flight.FlightDescriptor.for_command(command), ROWS.schema)
        with pytest.raises(flight.FlightUnavailableError, match=r"try again in 0\.5 s") as caught:
            writer.close()
    report = json.loads(caught.value.extra_info)
    assert (report["name"], report["retry_after_ms"]) == ("OverloadedError", 500)
    assert from_flight(caught.value).retry_after == 0.5


def busy(seconds: float | None) -> flight_client.LanceError:
    return flight_client.UnavailableError("busy", retryable=True, retry_after=seconds)


def test_waits_of_several_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers are asked one after the other without a wait; then the shortest time counts, with jitter."""
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    retries = Retries(attempts=2, patience=3, num_servers=2)
    retries.after(busy(2.0))
    assert waits == []
    retries.after(busy(1.0))
    assert len(waits) == 1
    assert 1.0 <= waits[0] <= 1.25
    retries.after(busy(1.0))
    retries.after(busy(4.0))
    assert 1.0 <= waits[1] <= 1.25
    retries.after(busy(1.0))
    with pytest.raises(flight_client.UnavailableError):
        retries.after(busy(1.0))  # 3 seconds and more in all
    retries.succeed()
    retries.after(busy(None))
    with pytest.raises(flight_client.UnavailableError):
        retries.after(busy(None))
    different = set()
    for _ in range(20):
        one = Retries(attempts=1, patience=9, num_servers=1)
        one.after(busy(1.0))
        different.add(round(waits[-1], 3))
    assert len(different) > 5
