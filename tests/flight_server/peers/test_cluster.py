"""Servers of one root on several ports, and clients that read and write while servers come and go."""

from __future__ import annotations

import itertools
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from pyarrow import flight

import flight_client
import lance_core
from flight_server.security.server_tokens import server_token
from support.clients.actions import act
from support.processes.waiting import wait_until
from support.servers.cluster import Cluster
from support.servers.secure_server import Authority
from support.servers.served import StartServer
from support.servers.tokens import TOKEN, write_accounts

NUM_FRAGMENTS = 30
ROWS = 200
TABLE = pa.table({"n": range(NUM_FRAGMENTS * ROWS)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cluster")
    lance_core.write_dataset(TABLE, str(path / "numbers.lance"), max_rows_per_file=ROWS)
    return path


@pytest.fixture
def cluster(folder: Path, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(folder, tmp_path, 3)
    yield cluster
    cluster.stop()


def first_locations(uri: str) -> list[str]:
    with flight.connect(uri) as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path("numbers"))
    return [endpoint.locations[0].uri.decode() for endpoint in info.endpoints]


def named_by(client: flight.FlightClient) -> set[str]:
    """Return all servers that the endpoints of a plan name."""
    info = client.get_flight_info(flight.FlightDescriptor.for_path("numbers"))
    return {each.uri.decode() for endpoint in info.endpoints for each in endpoint.locations[:-1]}


class Load:
    """Clients in threads, which read one dataset and append to others until they are told to stop."""

    def __init__(self, uris: list[str], readers: int, writers: int) -> None:
        self._uris = uris
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(readers + writers)
        self.reads = 0
        self._running: list[Future[None]] = [self._pool.submit(self._read) for _ in range(readers)]
        self._running += [self._pool.submit(self._write, f"log-{uuid4()}") for _ in range(writers)]

    def _read(self) -> None:
        """Read all rows again and again: none is lost or doubled, whatever happens to the servers."""
        with flight_client.connect(self._uris, parallel=4) as client:
            while not self._stop.is_set():
                assert client.dataset("numbers").to_table().equals(TABLE)
                self.reads += 1

    def _write(self, name: str) -> None:
        """Append until the end: what was acknowledged is there once."""
        with flight_client.connect(self._uris) as client:
            client.write(name, pa.table({"n": [0]}), mode="create")
            for number in itertools.count(1):
                if self._stop.is_set():
                    break
                client.write(name, pa.table({"n": [number]}), mode="append")
            assert sorted(client.dataset(name).to_table()["n"].to_pylist()) == list(range(number))

    def at_work(self) -> None:
        """Wait until the clients have read some times more; raise what one of them met."""
        begun = self.reads
        wait_until(lambda: self.reads >= begun + 2 or self._failed(), "clients that read")
        self._failed()

    def end(self) -> None:
        """Raise the first error that a client met."""
        self._stop.set()
        for each in self._running:
            each.result(timeout=120)
        self._pool.shutdown()

    def _failed(self) -> bool:
        return any(each.done() and each.result() is None for each in self._running)


@pytest.mark.long
def test_clients_notice_nothing_when_servers_come_and_go(cluster: Cluster) -> None:
    """T34: one server is added, one is killed, one drains; every plan names the servers that are ready."""
    one, two, three = cluster.uris
    cluster.start(0)
    cluster.start(1)
    wait_until(lambda: set(first_locations(one)) == {one, two}, "both servers are named")
    assert first_locations(one) == first_locations(two), "all servers choose alike"
    load = Load(cluster.uris, readers=2, writers=1)
    try:
        load.at_work()
        before = first_locations(one)
        cluster.start(2)
        wait_until(lambda: three in first_locations(one), "a new server takes part")
        after = first_locations(one)
        assert all(new in (old, three) for old, new in zip(before, after, strict=True))
        counts = Counter(after)
        assert max(counts.values()) < 0.8 * NUM_FRAGMENTS, counts
        load.at_work()

        cluster.servers[1].kill()
        load.at_work()
        wait_until(lambda: set(first_locations(one)) == {one, three}, "nobody names a dead server")

        cluster.servers[2].process.send_signal(signal.SIGTERM)
        wait_until(lambda: set(first_locations(one)) == {one}, "nobody names a server that drains")
        assert cluster.servers[2].wait() == 0
        cluster.start(1)
        wait_until(lambda: set(first_locations(one)) == {one, two}, "a server that is back is named again")
        load.at_work()
    finally:
        load.end()
    assert load.reads > 8


@pytest.mark.long
def test_a_server_with_another_key_is_not_named(folder: Path, serve: StartServer, tmp_path: Path) -> None:
    """T12: a peer that would refuse the tickets is left out, and the log says why."""
    (tmp_path / "key").write_text("another key of 32 digits in hexa")
    other = serve(folder, "--signing-key-file", str(tmp_path / "key"))
    server = serve(folder, "--peers", other.uri, "--peer-check-interval", "0.1")
    wait_until(lambda: "peer_left" in server.log, "the answer of the peer")
    assert "another signing key" in server.log
    assert set(first_locations(server.uri)) == {server.uri}


def test_servers_prove_themselves_to_each_other(folder: Path, tmp_path: Path) -> None:
    """T1: with TLS, certificates of clients and accounts, the checks of peers need no account.

    The token of a server opens nothing but the checks, where there are grants.
    """
    authority = Authority.make()
    authority.certificate_of("127.0.0.1").write(tmp_path)
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    write_accounts(tmp_path / "accounts.toml")
    (tmp_path / "settings.toml").write_text(
        '[[grant]]\nsubject = "ana"\ndatasets = ["*"]\nrights = ["read"]\n'
    )
    certificate, key, ca = (tmp_path / name for name in ("cert.pem", "key.pem", "ca.pem"))
    cluster = Cluster(folder, tmp_path, 2, "grpc+tls")
    try:
        for number in range(2):
            cluster.start(
                number,
                *("--settings", str(tmp_path / "settings.toml")),
                *("--tls-cert", str(certificate), "--tls-key", str(key), "--tls-client-ca", str(ca)),
                *("--peer-ca", str(ca), "--accounts-file", str(tmp_path / "accounts.toml")),
            )
        (server_key,) = folder.glob(".lance-flight-key")
        with flight.connect(
            cluster.uris[0],
            tls_root_certs=authority.certificate,
            cert_chain=certificate.read_bytes(),
            private_key=key.read_bytes(),
        ) as client:

            def named(token: str) -> set[str]:
                options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
                info = client.get_flight_info(flight.FlightDescriptor.for_path("numbers"), options)
                return {endpoint.locations[0].uri.decode() for endpoint in info.endpoints}

            wait_until(lambda: named(TOKEN) == set(cluster.uris), "the servers name each other")
            with pytest.raises(pa.ArrowKeyError):
                named(server_token(server_key.read_bytes().strip()))
            with pytest.raises(flight.FlightUnauthenticatedError):
                named(server_token(b"another key of 32 digits in hexa"))
    finally:
        cluster.stop()


@pytest.mark.long
@pytest.mark.timeout(900)  # two minutes on a quiet machine
def test_a_cluster_with_workers_survives_an_hour_of_bad_luck_in_a_minute(cluster: Cluster) -> None:
    """T34: servers with two workers each are killed and drained in turn, six times."""
    for number in range(3):
        cluster.start(number, "--workers", "2")
    with flight.connect(cluster.uris[0]) as client:
        wait_until(lambda: len(named_by(client)) == 6, "all workers are named")
        assert len(act(client, "health")["locations"]) == 2
    load = Load(cluster.uris, readers=4, writers=2)
    try:
        for number in range(6):
            load.at_work()
            server = cluster.servers[number % 3]
            if number % 2:
                server.kill()
            else:
                children = server.statistics().children(recursive=True)
                children[0].kill()
                load.at_work()
                assert server.stop() == 0
            load.at_work()
            cluster.start(number % 3, "--workers", "2")
            print(f"round {number}: {load.reads} reads of the whole dataset", flush=True)
    finally:
        load.end()
