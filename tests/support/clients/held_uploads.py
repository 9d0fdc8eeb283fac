"""Uploads that have begun and last as long as a test wants, so that a server refuses others."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from pyarrow import flight

from support.processes.waiting import wait_until
from support.servers.server import RunningServer

ROWS = pa.table({"n": [1, 2, 3]})


@contextmanager
def held_upload(server: RunningServer) -> Iterator[None]:
    """An upload that has begun, and lasts as long as the block."""
    command = json.dumps({"write": {"dataset": "held", "mode": "create", "report_bytes": 1}})
    with server.client() as client:
        writer, reader = client.do_put(flight.FlightDescriptor.for_command(command), ROWS.schema)
        assert "progress" in json.loads(reader.read().to_pybytes())
        try:
            yield
        finally:
            with pytest.raises(pa.ArrowInvalid, match="ended without the message"):
                writer.close()


def end_after_refusals(count: int, server: RunningServer) -> threading.Thread:
    """Hold the only upload of a server until it has refused so many others."""
    has_begun = threading.Event()

    def hold() -> None:
        with held_upload(server):
            has_begun.set()
            wait_until(lambda: server.log.count("error=OverloadedError") >= count, seconds=250)

    thread = threading.Thread(target=hold)
    thread.start()
    assert has_begun.wait(60)
    return thread
