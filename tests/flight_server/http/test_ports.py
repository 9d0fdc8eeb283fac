"""The ports for operators of a real server: health, readiness, metrics, and the gRPC health service."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pyarrow as pa
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pyarrow import flight

import lance_core
from support.clients.actions import act
from support.clients.http import Scrape, get
from support.clients.puts import put
from support.clients.raw_flight import scan_json
from support.processes.waiting import wait_until
from support.servers.served import StartServer
from support.servers.server import RunningServer, serving

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
PORTS = ("--http-port", "0", "--health-port", "0")
TABLE = pa.table({"secretcolumn": list(range(1000)), "x": [i / 7 for i in range(1000)]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("monitored")
    lance_core.write_dataset(TABLE, path / "secretname.lance", max_rows_per_file=100)
    return path


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(folder, tmp_path_factory.mktemp("log") / "server.log", *PORTS) as server:
        yield server


def health_address(server: RunningServer) -> str:
    """Return the address of the health service, which stands in the log."""
    found = re.search(r" health_port=(\d+)", server.log)
    assert found, server.log
    return f"127.0.0.1:{found[1]}"


def status_of(server: RunningServer, name: str = "") -> int:
    with grpc.insecure_channel(health_address(server)) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(service=name), timeout=30
        )
    return int(answer.status)


def test_the_url_is_the_second_line(server: RunningServer) -> None:
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", server.http)
    assert f" http={server.http} " in server.log


def test_health_and_readiness(server: RunningServer) -> None:
    healthy, ready = get(f"{server.http}/healthz"), get(f"{server.http}/readyz")
    assert (healthy.status, json.loads(healthy.body)) == (200, {"status": "ok"})
    checks = {"draining": "ok", "memory": "ok", "storage": "ok"}
    assert (ready.status, json.loads(ready.body)) == (200, {"status": "ready", "checks": checks})
    assert {healthy.headers["cache-control"], ready.headers["cache-control"]} == {"no-store"}
    assert get(f"{server.http}/healthz", "HEAD").status == 200
    assert get(f"{server.http}/metrics", "POST").status == 405
    assert get(f"{server.http}/v1/table").status == 404


def test_the_grpc_health_service(server: RunningServer) -> None:
    wait_until(lambda: status_of(server) == SERVING)
    assert status_of(server, "arrow.flight.protocol.FlightService") == SERVING
    with pytest.raises(grpc.RpcError) as caught:
        status_of(server, "other")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_calls_rows_and_bytes_are_counted(server: RunningServer) -> None:
    before = Scrape(server)
    with server.client() as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path("secretname"))
        read = sum(client.do_get(endpoint.ticket).read_all().num_rows for endpoint in info.endpoints)
        with pytest.raises(pa.ArrowKeyError):
            client.do_get(flight.Ticket(scan_json("missing"))).read_all()
        with pytest.raises(pa.ArrowInvalid):
            act(client, "count_rows", dataset="secretname", filter="nothing > 1")
        with pytest.raises(pa.ArrowNotImplementedError):
            act(client, "no_such_action")
        put(client, {"dataset": "new", "mode": "overwrite"}, TABLE, batch_rows=100)
        act(client, "drop_dataset", dataset="new")
    after = Scrape(server)

    def counted(name: str, **labels: str) -> float:
        return after.value(name, **labels) - before.value(name, **labels)

    assert read == 1000
    assert counted("calls_total", rpc="GetFlightInfo", code="OK") == 1
    assert counted("calls_total", rpc="DoGet", code="OK") == len(info.endpoints) == 10
    assert counted("calls_total", rpc="DoGet", code="NOT_FOUND", error="DatasetNotFoundError") == 1
    invalid = {"rpc": "DoAction", "code": "INVALID_ARGUMENT", "error": "InvalidInputError"}
    assert counted("calls_total", action="count_rows", **invalid) == 1
    unknown = {"rpc": "DoAction", "code": "UNIMPLEMENTED", "error": "UnsupportedFeatureError"}
    assert counted("calls_total", **unknown) == 1, "names that a client invents are no labels"
    assert counted("calls_total", rpc="DoPut", code="OK") == 1
    assert counted("call_seconds_count", rpc="DoGet") == 11
    assert counted("sent_rows_total", rpc="DoGet") == 1000
    assert TABLE.nbytes <= counted("sent_bytes_total", rpc="DoGet") <= 2 * TABLE.nbytes
    assert counted("received_rows_total", rpc="DoPut") == 1000
    assert counted("received_bytes_total", rpc="DoPut") >= TABLE.nbytes
    assert counted("commits_total", operation="overwrite", outcome="landed") == 1
    assert counted("page_reads_total") == 20
    assert after.total("cache_hits_total", cache="manifests") > 0


@pytest.mark.long
def test_a_client_that_leaves_is_counted_as_such(tmp_path: Path, serve: StartServer) -> None:
    lance_core.write_dataset(pa.table({"id": np.arange(4_000_000)}), tmp_path / "large.lance")
    server = serve(tmp_path, *PORTS)
    with server.client() as client:
        reader = client.do_get(flight.Ticket(scan_json("large", compression="none")))
        reader.read_chunk()
        assert Scrape(server).value("running", kind="streams") == 1
        reader.cancel()
    wait_until(lambda: Scrape(server).value("calls_total", rpc="DoGet", code="CANCELLED") == 1)
    assert Scrape(server).value("running", kind="streams") == 0


def test_filters_are_counted_with_their_pages(server: RunningServer) -> None:
    """The second scan prunes with the statistics that our files have."""
    before = Scrape(server)
    with server.client() as client:
        command = scan_json("secretname", filter="secretcolumn < 100")
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
        rows = sum(client.do_get(endpoint.ticket).read_all().num_rows for endpoint in info.endpoints)
    after = Scrape(server)
    assert rows == 100
    assert after.value("planned_pages_total") - before.value("planned_pages_total") == 10
    assert after.value("pruned_pages_total") - before.value("pruned_pages_total") == 9


def test_the_pages_tell_nothing_of_datasets(server: RunningServer, folder: Path) -> None:
    """T46: pages without credentials have no names of datasets, columns and clients, and no paths."""
    with server.client() as client:
        client.do_get(flight.Ticket(scan_json("secretname", filter="secretcolumn = 1"))).read_all()
    pages = [get(f"{server.http}{path}").body for path in ("/healthz", "/readyz", "/metrics")]
    for word in ("secretname", "secretcolumn", str(folder), folder.name, "ipv4", "grpc://"):
        assert word not in "".join(pages)


def test_the_format_follows_the_request(server: RunningServer) -> None:
    answer = get(f"{server.http}/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.body.endswith("# EOF\n")
    assert get(f"{server.http}/metrics").headers["content-type"].startswith("text/plain")


def test_a_root_that_is_gone_is_seen(tmp_path: Path, serve: StartServer) -> None:
    """The server is healthy, since a restart would not help, but not ready, until the root is back."""
    root = tmp_path / "root"
    root.mkdir()
    server = serve(root, *PORTS)
    wait_until(lambda: status_of(server) == SERVING)
    root.rename(tmp_path / "away")
    wait_until(lambda: get(f"{server.http}/readyz").status == 503)
    found = json.loads(get(f"{server.http}/readyz").body)
    assert found["status"] == "not ready"
    assert found["checks"] == {
        "draining": "ok", "memory": "ok", "storage": "the root cannot be listed: StorageError"
    }  # fmt: skip
    wait_until(lambda: status_of(server) == NOT_SERVING)
    assert get(f"{server.http}/healthz").status == 200
    (tmp_path / "away").rename(root)
    wait_until(lambda: get(f"{server.http}/readyz").status == 200)
    wait_until(lambda: status_of(server) == SERVING)


def test_a_server_that_drains_says_so(tmp_path: Path, serve: StartServer) -> None:
    """T34: both ports answer while a stream ends in peace, and say that the server takes no new calls."""
    lance_core.write_dataset(pa.table({"id": np.arange(4_000_000)}), tmp_path / "large.lance")
    server = serve(tmp_path, *PORTS, "--drain-grace", "60")
    wait_until(lambda: status_of(server) == SERVING)
    with server.client() as client, grpc.insecure_channel(health_address(server)) as channel:
        watched = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watched).status == SERVING
        reader = client.do_get(flight.Ticket(scan_json("large", compression="none")))
        reader.read_chunk()
        server.process.send_signal(signal.SIGTERM)
        assert next(watched).status == NOT_SERVING
        answer = get(f"{server.http}/readyz")
        assert answer.status == 503
        assert json.loads(answer.body)["checks"]["draining"] == "the server is stopping"
        assert status_of(server) == NOT_SERVING
        assert get(f"{server.http}/healthz").status == 200
        assert Scrape(server).value("draining") == 1
        while True:
            try:
                reader.read_chunk()
            except StopIteration:
                break
    assert server.wait() == 0


def test_a_server_without_the_ports_imports_nothing_for_them(root: object, tmp_path: Path) -> None:
    script = (
        "import sys; import flight_server.process, flight_server.cli;"
        "print([name for name in ('uvicorn', 'starlette', 'grpc', 'prometheus_client', 'opentelemetry')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.long
@pytest.mark.parametrize("option", ["--http-port", "--health-port"])
def test_a_port_that_is_taken(option: str, server: RunningServer, folder: Path, serve: StartServer) -> None:
    taken = server.http.rpartition(":")[2] if option == "--http-port" else health_address(server)[10:]
    with pytest.raises(AssertionError, match=f"give another (one|port) with\\s+{option}"):
        serve(folder, option, taken)
