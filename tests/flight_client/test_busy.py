"""Busy servers: when a client comes back, and when it gives up."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

import flight_client
from flight_client.errors import from_flight
from flight_client.network.retries import Retries
from support.clients.held_uploads import end_after, held_upload
from support.servers.served import StartServer

ROWS = pa.table({"n": [1, 2, 3]})


def test_clients_come_back_when_they_are_told(tmp_path: Path, serve: StartServer) -> None:
    """T6: refused calls of every kind wait as long as the server says, and then succeed: rows that can be
    read once are not read before, and a change that a server refused is repeated although it is not safe to
    do so after other errors.
    """
    server = serve(tmp_path, "--max-puts", "1")
    client = flight_client.connect(server.uri, attempts=1)
    read: list[float] = []

    def once() -> Iterator[pa.RecordBatch]:
        read.append(time.monotonic())
        yield from ROWS.to_batches()

    holder = end_after(1.2, server)
    ends = time.monotonic() + 1.1
    assert client.write("t", once(), "create", schema=ROWS.schema).version == 1
    assert len(read) == 1
    assert read[0] > ends
    holder.join()
    holder = end_after(0.7, server)
    assert client.write("t", ROWS).version == 2
    holder.join()
    refusals = server.log.count("error=OverloadedError")
    # Told to come in half a second or later: a client that did not listen would have asked 20 times.
    assert 2 <= refusals <= 6, server.log


def test_a_client_gives_up(tmp_path: Path, serve: StartServer) -> None:
    """T6: after its patience, with the server's error, which tells the time to come back."""
    server = serve(tmp_path, "--max-puts", "1")
    with held_upload(server):
        client = flight_client.connect(server.uri, patience=0.7)
        began = time.monotonic()
        with pytest.raises(flight_client.UnavailableError, match=r"try again in .* s") as caught:
            client.write("t", ROWS, "create")
        assert time.monotonic() - began < 5
        assert caught.value.retryable
        assert caught.value.retry_after is not None
        assert 0.1 <= caught.value.retry_after <= 10
        with pytest.raises(flight_client.UnavailableError):
            flight_client.connect(server.uri, patience=0).write("t", ROWS, "create")


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
