"""The ports for operators of a server with several processes: sums of all workers."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import psutil
import pytest
from pyarrow import flight

import flight_client
import lance_core
from support.clients.http import Scrape, get
from support.clients.raw_flight import scan_json
from support.processes.waiting import wait_until
from support.servers.served import StartServer
from support.servers.server import RunningServer

READS = 24


def _processes(server: RunningServer) -> list[psutil.Process]:
    return server.statistics().children(recursive=True)


def test_metrics_are_sums_of_the_workers(workers: RunningServer, folder: Path) -> None:
    """Endpoints name the workers, so a client reads from both; every read is counted once."""
    lance_core.write_dataset({"id": list(range(1000))}, folder / "monitored.lance", max_rows_per_file=100)
    before = Scrape(workers)
    assert before.value("processes") == 2
    with flight_client.connect(workers.uri) as client:
        dataset = client.dataset("monitored")
        for _ in range(READS):
            assert dataset.to_table().num_rows == 1000
    after = Scrape(workers)
    reads = after.value("calls_total", rpc="DoGet", code="OK") - before.value(
        "calls_total", rpc="DoGet", code="OK"
    )
    rows = after.value("sent_rows_total", rpc="DoGet") - before.value("sent_rows_total", rpc="DoGet")
    assert reads == 10 * READS
    assert rows == 1000 * READS


@pytest.mark.long
def test_a_worker_that_hangs_or_dies_hides_nobody(workers: RunningServer) -> None:
    """T34: the server stays ready, and the metrics of the other worker are there."""
    hanging = _processes(workers)[0]
    hanging.suspend()
    try:
        answer = get(f"{workers.http}/readyz")
        assert (answer.status, json.loads(answer.body)["checks"]["workers"]) == (200, "ok")
        assert Scrape(workers).value("processes") == 1
    finally:
        hanging.resume()
    wait_until(lambda: Scrape(workers).value("processes") == 2)
    hanging.kill()
    assert get(f"{workers.http}/readyz").status == 200
    wait_until(lambda: Scrape(workers).value("processes") == 2)


@pytest.mark.long
def test_the_workers_drain_together(tmp_path: Path, serve: StartServer) -> None:
    lance_core.write_dataset({"id": list(range(4_000_000))}, tmp_path / "t.lance")
    server = serve(tmp_path, "--workers", "2", "--http-port", "0", "--drain-grace", "60")
    with server.client() as client:
        reader = client.do_get(flight.Ticket(scan_json("t", compression="none")))
        reader.read_chunk()
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: get(f"{server.http}/readyz").status == 503)
        assert get(f"{server.http}/healthz").status == 200
        reader.cancel()
    assert server.wait() == 0
