"""Bytes that a client sends ahead of the server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice, repeat

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

import flight_client
from flight_client.writing import upload
from support.processes.waiting import wait_until

BATCH = pa.record_batch({"x": np.zeros(1 << 18)})
MIB = 1 << 20


class Receiver(flight.FlightServerBase):
    """Takes all that comes, and reports it as the protocol says, but not before it may."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.may_report = threading.Event()
        self.rows = self.num_bytes = 0
        self._writer: flight.FlightMetadataWriter | None = None

    def do_put(self, context, descriptor, reader, writer) -> None:
        report_bytes = json.loads(descriptor.command)["write"]["report_bytes"]
        reported = 0
        self._writer = writer
        for chunk in reader:
            if chunk.data is not None:
                self.rows += chunk.data.num_rows
                self.num_bytes += chunk.data.nbytes
            if self.may_report.is_set() and self.num_bytes - reported >= report_bytes:
                reported = self.num_bytes
                self.report()
        result = {"version": 1, "rows": self.rows, "bytes": 0, "fragments": 1}
        writer.write(json.dumps({"result": result}).encode())

    def report(self) -> None:
        """Report what has come so far."""
        progress = {"rows": self.rows, "bytes": self.num_bytes}
        self._writer.write(json.dumps({"progress": progress}).encode())


@contextmanager
def writing(server: Receiver, num_batches: int) -> Iterator[threading.Thread]:
    def write() -> None:
        with flight_client.connect(f"grpc://127.0.0.1:{server.port}") as client:
            client.write("t", islice(repeat(BATCH), num_batches), "create", schema=BATCH.schema)

    thread = threading.Thread(target=write)
    thread.start()
    yield thread
    thread.join(60)
    assert not thread.is_alive()


def test_rows_wait_for_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """T28: a server that reports nothing is sent 128 MiB and hardly more, one that does gets all."""
    monkeypatch.setattr(upload, "_REPORT_SECONDS", 300.0)
    with Receiver() as server, writing(server, 200) as thread:
        wait_until(lambda: server.num_bytes > 128 * MIB)
        time.sleep(0.5)
        assert server.num_bytes == 128 * MIB + BATCH.nbytes
        assert thread.is_alive()
        server.may_report.set()
        server.report()
    assert server.num_bytes == 200 * BATCH.nbytes


def test_a_batch_follows_when_no_report_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Client and server may count bytes differently. So a long time without a report lets one batch pass."""
    monkeypatch.setattr(upload, "_REPORT_SECONDS", 0.2)
    began = time.monotonic()
    with Receiver() as server, writing(server, 64 + 1 + 5):
        pass
    assert server.num_bytes == 70 * BATCH.nbytes
    assert time.monotonic() - began > 5 * 0.2, "one wait for each batch beyond the window"


def test_what_fits_needs_no_reports() -> None:
    with Receiver() as server, writing(server, 60):
        pass
    assert server.num_bytes == 60 * BATCH.nbytes
