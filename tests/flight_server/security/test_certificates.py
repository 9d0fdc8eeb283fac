"""Certificates that are replaced while the server runs, and certificates of clients."""

from __future__ import annotations

import json
import signal
import ssl
import threading
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import grpc
import pyarrow as pa
import pytest
from cryptography import x509
from pyarrow import flight

from flight_server import listener
from flight_server.service import Service
from flight_server.settings import Settings
from support.processes.waiting import wait_until
from support.servers.secure_server import Authority, Certificate
from support.servers.served import Root, StartServer
from support.servers.server import RunningServer


def served_certificate(server: RunningServer) -> str:
    host, port = server.uri.removeprefix("grpc+tls://").rsplit(":", 1)
    return ssl.get_server_certificate((host, int(port)))


def until(server: RunningServer, word: str) -> None:
    wait_until(lambda: word in server.log, f"{word} in the log")


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return ["--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")]


def test_a_reload_replaces_the_certificate(
    root: Root, serve: StartServer, tmp_path: Path, files: list[str]
) -> None:
    """Running streams go on, the port stays, and clients miss the server for moments only."""
    old, new = Certificate.make(), Certificate.make()
    old.write(tmp_path)
    server = serve(root.path, *files)
    assert served_certificate(server).strip() == old.certificate.decode().strip()
    with flight.connect(server.uri, tls_root_certs=old.certificate) as client:
        ticket = json.dumps({"scan": {"dataset": "trips", "batch_rows": 10}})
        stream = client.do_get(flight.Ticket(ticket))
        rows = stream.read_chunk().data.num_rows
        new.write(tmp_path)
        failures, answers = [], []
        asking = threading.Event()

        def ask() -> None:
            trusted = old.certificate + new.certificate
            with flight.connect(server.uri, tls_root_certs=trusted) as other:
                while not asking.is_set():
                    began = time.perf_counter()
                    try:
                        list(other.do_action("health"))
                        answers.append(time.perf_counter())
                    except (flight.FlightUnavailableError, flight.FlightCancelledError):
                        failures.append(began)
                        time.sleep(0.01)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            wait_until(lambda: len(answers) > 10)
            usual = max(after - before for before, after in pairwise(list(answers)))
            server.process.send_signal(signal.SIGHUP)
            until(server, "reloaded")
            reloaded = len(answers)
            wait_until(lambda: len(answers) > reloaded + 10)
            time.sleep(1.5)
        finally:
            asking.set()
            thread.join()
        assert served_certificate(server).strip() == new.certificate.decode().strip()
        gap = max(after - before for before, after in pairwise(answers))
        print(f"longest gap {1000 * gap:.0f} ms, {len(failures)} refused calls")
        assert gap < 5 + 10 * usual, "a busy machine answers late without a reload, too"
        rows += sum(chunk.data.num_rows for chunk in stream)
        assert rows == root.trips.num_rows
    assert server.stop() == 0


def test_files_that_do_not_fit_change_nothing(
    root: Root, serve: StartServer, tmp_path: Path, files: list[str]
) -> None:
    pair, other = Certificate.make(), Certificate.make()
    pair.write(tmp_path)
    server = serve(root.path, *files)
    (tmp_path / "key.pem").write_bytes(other.key)
    server.process.send_signal(signal.SIGHUP)
    until(server, "reload_failed")
    assert served_certificate(server).strip() == pair.certificate.decode().strip()
    assert server.stop() == 0


def test_a_client_without_a_certificate_is_nobody(
    root: Root, serve: StartServer, tmp_path: Path, files: list[str]
) -> None:
    """T4: with mTLS the certificate names the caller, unless a token does; others get no connection."""
    authority, stranger = Authority.make(), Authority.make()
    authority.certificate_of("127.0.0.1").write(tmp_path)
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    server = serve(root.path, *files, "--tls-client-ca", str(tmp_path / "ca.pem"), "--log-level", "debug")
    ana, evil = authority.certificate_of("ana"), stranger.certificate_of("ana")
    descriptor = flight.FlightDescriptor.for_path("trips")
    with flight.connect(
        server.uri, tls_root_certs=authority.certificate, cert_chain=ana.certificate, private_key=ana.key
    ) as client:
        assert client.get_schema(descriptor).schema.names
        info = client.get_flight_info(descriptor)
        options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer nonsense")])
        with pytest.raises(flight.FlightUnauthenticatedError):
            client.get_flight_info(descriptor, options)
    assert "subject=ana" in server.log
    ben = authority.certificate_of("ben")
    with (
        flight.connect(
            server.uri, tls_root_certs=authority.certificate, cert_chain=ben.certificate, private_key=ben.key
        ) as client,
        pytest.raises(pa.ArrowInvalid, match="altered"),
    ):
        client.do_get(info.endpoints[0].ticket).read_all()
    for certificates in ({}, {"cert_chain": evil.certificate, "private_key": evil.key}):
        with (
            flight.connect(server.uri, tls_root_certs=authority.certificate, **certificates) as client,
            pytest.raises(flight.FlightUnavailableError),
        ):
            client.get_flight_info(descriptor, flight.FlightCallOptions(timeout=10))
    address = server.uri.removeprefix("grpc+tls://")
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.FutureTimeoutError):
        grpc.channel_ready_future(channel).result(timeout=2)
    assert server.stop() == 0
    assert x509.load_pem_x509_certificate(ana.certificate).subject.rfc4514_string() == "CN=ana"


def test_new_files_are_found_without_a_signal(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener keeps its port, and the service of the process its caches."""
    monkeypatch.setattr(listener, "_SECONDS_BETWEEN_LOOKS", 0.05)
    old, new = Certificate.make(), Certificate.make()
    old.write(tmp_path)
    settings = Settings(
        str(root.path), port=0, tls_cert=str(tmp_path / "cert.pem"), tls_key=str(tmp_path / "key.pem")
    )
    listening = listener.Listener(Service(settings))
    port = listening.server.port
    threading.Thread(target=listening.watch, daemon=True).start()
    try:
        new.write(tmp_path)

        def is_served() -> bool:
            with (
                suppress(flight.FlightError),
                flight.connect(f"grpc+tls://127.0.0.1:{port}", tls_root_certs=new.certificate) as client,
            ):
                return bool(list(client.do_action("health")))
            return False

        wait_until(is_served, "the new certificate is served")
        assert listening.server.port == port
    finally:
        listening.shutdown()
