"""Several server processes behind one port."""

from __future__ import annotations

import json
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest
from pyarrow import flight

import flight_client
import lance_core
from support.clients.actions import act, stage
from support.processes.waiting import wait_until
from support.servers.secure_server import Certificate
from support.servers.served import Root, StartServer
from support.servers.server import RunningServer
from support.servers.tokens import PASSWORD, write_accounts

LIMIT_S = 60
TRIPS = flight.FlightDescriptor.for_path("trips")


def processes(server: RunningServer) -> list[psutil.Process]:
    return server.statistics().children(recursive=True)


def connections(process: psutil.Process) -> int:
    """Return the number of connections that a process has open."""
    return sum(each.status != psutil.CONN_LISTEN for each in process.net_connections("tcp"))


def locations(info: flight.FlightInfo) -> list[list[str]]:
    return [[each.uri.decode() for each in endpoint.locations] for endpoint in info.endpoints]


def read_at_first_locations(info: flight.FlightInfo) -> pa.Table:
    """Read each endpoint as a plain client does, that takes its first location."""
    tables = []
    for endpoint in info.endpoints:
        with flight.connect(endpoint.locations[0]) as client:
            tables.append(client.do_get(endpoint.ticket).read_all())
    return pa.concat_tables(tables)


def test_endpoints_name_the_workers(workers: RunningServer, root: Root) -> None:
    """Every worker redeems the tickets of the others, and the first locations are not all the same."""
    with workers.client() as client:
        info = client.get_flight_info(TRIPS)
        named = act(client, "health")["locations"]
    assert len(processes(workers)) == len(named) == 2
    assert workers.uri not in named
    for each in locations(info):
        assert sorted(each[:-1]) == sorted(named)
        assert each[-1] == "arrow-flight-reuse-connection://?"
    found = read_at_first_locations(info)
    assert repr(found.to_pylist()) == repr(root.trips.to_pylist()), "NaN equals NaN"


def test_a_large_fragment_is_read_by_all_workers(workers: RunningServer, folder: Path) -> None:
    """The ranges are in dataset order, and what the client says about endpoints comes first."""
    numbers = np.random.default_rng(5).integers(0, 2**62, 1_200_000)
    lance_core.write_dataset(pa.table({"n": numbers}), str(folder / "large.lance"), max_rows_per_file=1 << 21)
    with workers.client() as client:

        def plan(**fields: int) -> flight.FlightInfo:
            command = json.dumps({"scan": {"dataset": "large", **fields}})
            return client.get_flight_info(flight.FlightDescriptor.for_command(command))

        info = plan()
        assert info.ordered
        assert len({first for first, *_ in locations(info)}) == len(info.endpoints) == 2
        assert np.array_equal(read_at_first_locations(info)["n"].to_numpy(), numbers)
        assert len(plan(rows_per_endpoint=300_000).endpoints) == 4
        assert len(plan(rows_per_endpoint=2_000_000).endpoints) == 1
        assert len(plan(max_endpoints=1).endpoints) == 1
        assert len(plan(limit=1000).endpoints) == 1


def test_limits_of_memory_are_shares(workers: RunningServer) -> None:
    with workers.client() as client:
        assert act(client, "health")["reads"]["memory_limit_bytes"] == (256 << 20) / 2 / 2


def test_connections_to_the_port_reach_all_workers(workers: RunningServer) -> None:
    """Each connection goes to the worker with the fewest, and stays there."""
    wait_until(lambda: connections(workers.statistics()) == 0, "connections of other tests have ended")
    with ExitStack() as clients:
        for _ in range(4):
            act(clients.enter_context(workers.client()), "health")
        served = [connections(process) for process in processes(workers)]
    assert served == [2, 2], "connections at each worker"


def test_writes_are_staged_at_one_worker_and_committed_at_another(workers: RunningServer) -> None:
    with workers.client() as client:
        one, other = act(client, "health")["locations"]
    rows = pa.table({"n": range(10)})
    with flight.connect(one) as first, flight.connect(other) as second:
        receipts = [stage(each, rows, dataset="staged", mode="overwrite") for each in (first, second, second)]
        committed = act(first, "commit", dataset="staged", operation="overwrite", staged=receipts)
        assert committed["version"] == 1
        assert act(second, "count_rows", dataset="staged")["count"] == 30


def test_a_worker_that_is_killed_is_started_again(workers: RunningServer, root: Root) -> None:
    """Clients that repeat calls notice nothing, and no plan names the dead worker."""
    with workers.client() as client:
        named = act(client, "health")["locations"]
    victim, ready = processes(workers)[0], workers.log.count("worker_ready")
    with flight_client.connect(workers.uri) as client:
        dataset = client.dataset("trips")
        scanner = dataset.scanner()
        assert len(scanner.plan.endpoints) == 3
        victim.kill()
        for _ in range(20):
            assert scanner.to_table().num_rows == client.dataset("trips").count_rows() == root.trips.num_rows
    wait_until(lambda: workers.log.count("worker_ready") == ready + 1, "another worker")
    assert "worker_died" in workers.log
    with workers.client() as client:
        assert act(client, "health")["locations"] == named, "the new worker has the port of the old one"
        assert read_at_first_locations(client.get_flight_info(TRIPS)).num_rows == root.trips.num_rows


def test_a_stop_drains_all_workers(folder: Path, serve: StartServer) -> None:
    """One ready line, new calls refused as retryable, a running stream read to its end, exit code 0."""
    # The buffers of a connection would take in a stream that is short, or that a busy server compresses. A
    # worker without streams ends at once.
    numbers = np.arange(4_000_000)
    lance_core.write_dataset(pa.table({"n": numbers}), str(folder / "long.lance"))
    server = serve(folder, "--workers", "2", "--drain-grace", "30")
    with server.client() as client:
        stream = client.do_get(flight.Ticket('{"scan": {"dataset": "long", "compression": "none"}}'))
        rows = stream.read_chunk().data.num_rows
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: server.log.count("stopping worker=") == 2, "both workers stop")
        with pytest.raises(flight.FlightUnavailableError):
            client.get_flight_info(TRIPS)
        rows += stream.read_all().num_rows
    assert rows == len(numbers)
    assert server.process.stdout is not None
    assert server.process.stdout.read() == ""
    assert server.wait() == 0


@pytest.mark.long
def test_tls_sessions_and_new_certificates(folder: Path, serve: StartServer, tmp_path: Path) -> None:
    """All workers accept the token of a handshake, and SIGHUP gives all of them the new certificate.

    Workers do not survive their supervisor.
    """
    Certificate.make().write(tmp_path)
    write_accounts(tmp_path / "accounts.toml")
    tls = ["--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")]
    server = serve(
        folder,
        "--workers",
        "2",
        *tls,
        "--accounts-file",
        str(tmp_path / "accounts.toml"),
        "--drain-grace",
        "0.1",
    )
    certificate = (tmp_path / "cert.pem").read_bytes()

    def named_by(uri: str, certificate: bytes) -> set[str]:
        with flight.connect(uri, tls_root_certs=certificate) as client:
            info = client.get_flight_info(TRIPS, flight.FlightCallOptions(headers=[session]))
        return {location for named in locations(info) for location in named[:-1]}

    with flight.connect(server.uri, tls_root_certs=certificate) as client:
        session = client.authenticate_basic_token(b"ana", PASSWORD.encode())
    workers = named_by(server.uri, certificate)
    assert len(workers) == 2
    assert all(named_by(uri, certificate) == workers for uri in workers)

    Certificate.make().write(tmp_path)
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: server.log.count(" reloaded ") >= 4, "certificates and accounts of both workers")
    renewed = (tmp_path / "cert.pem").read_bytes()
    assert all(named_by(uri, renewed) == workers for uri in [*workers, server.uri])
    with pytest.raises(flight.FlightUnavailableError):
        named_by(server.uri, certificate)

    children = processes(server)
    server.process.kill()
    psutil.wait_procs(children, timeout=LIMIT_S)
    assert not any(child.is_running() for child in children)


@pytest.mark.long
def test_workers_that_cannot_start_end_the_server(folder: Path, serve: StartServer) -> None:
    """Workers whose ports are taken: a message, and no line on stdout."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(AssertionError, match=f"error: port {port} is in use"):
            serve(folder, "--workers", "2", "--worker-port", port, "--advertise", "grpc://127.0.0.1:1")
