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
from pyarrow import flight

import flight_client
from support.processes.waiting import wait_until

BATCH = pa.record_batch({"x": np.zeros(1 << 18)})
MIB = 1 << 20


class Receiver(flight.FlightServerBase):
    """Takes all that comes, and reports it as the protocol says, but not before it may."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.may_report = threading.Event()
        self.rows = self.num_bytes = 0

    def do_put(self, context, descriptor, reader, writer) -> None:
        report_bytes = json.loads(descriptor.command)["write"]["report_bytes"]
        reported = 0
        for chunk in reader:
            if chunk.data is not None:
                self.rows += chunk.data.num_rows
                self.num_bytes += chunk.data.nbytes
            if self.may_report.is_set() and self.num_bytes - reported >= report_bytes:
                reported = self.num_bytes
                writer.write(json.dumps({"progress": {"rows": self.rows, "bytes": reported}}).encode())
        result = {"version": 1, "rows": self.rows, "bytes": 0, "fragments": 1}
        writer.write(json.dumps({"result": result}).encode())


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


def test_rows_wait_for_reports() -> None:
    """T28: a server that reports nothing is sent 128 MiB and hardly more, one that does gets all."""
    with Receiver() as server, writing(server, 200) as thread:
        wait_until(lambda: server.num_bytes >= 128 * MIB)
        time.sleep(0.5)
        assert server.num_bytes <= 128 * MIB + BATCH.nbytes
        # After 5 seconds without a report the client sends one batch more: the two may count differently.
        wait_until(lambda: server.num_bytes > 128 * MIB + BATCH.nbytes)
        assert thread.is_alive()
        assert server.num_bytes <= 128 * MIB + 3 * BATCH.nbytes
        server.may_report.set()
    assert server.num_bytes == 200 * BATCH.nbytes


def test_what_fits_needs_no_reports() -> None:
    with Receiver() as server, writing(server, 60):
        pass
    assert server.num_bytes == 60 * BATCH.nbytes
