"""T6: bounds on the connections and requests of the HTTP server."""

from __future__ import annotations

import select
import signal
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from support.clients.http import get
from support.processes.waiting import wait_until
from support.servers.secure_server import Certificate
from support.servers.served import StartServer
from support.servers.server import RunningServer, start_server

_MODULE = "flight_server.http.server"
_PATIENT = {f"{_MODULE}.HEAD_SECONDS": 600.0, f"{_MODULE}.MOST_CONNECTIONS": 8}
"""Few connections, which last as long as a test wants."""
_IMPATIENT = {f"{_MODULE}.HEAD_SECONDS": 1.0, f"{_MODULE}.KEEP_ALIVE_SECONDS": 1}
"""Many connections, which end soon."""


@contextmanager
def _bounded(folder: Path, constants: Mapping[str, float], *options: str) -> Iterator[RunningServer]:
    """A server with other bounds."""
    server = start_server(folder, folder / "log", "--http-port", "0", *options, constants=constants)
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with _bounded(tmp_path_factory.mktemp("small"), _IMPATIENT) as server:
        yield server


def _answers(server: RunningServer, context: ssl.SSLContext | None = None) -> bool:
    """Return whether the server answers; it cuts off clients that send their request too slowly."""
    try:
        return get(f"{server.http}/healthz", context=context).status == 200
    except (ConnectionError, ssl.SSLError):
        return False


def _connections(server: RunningServer) -> int:
    """Return the number of connections that the process has open."""
    found = server.statistics().net_connections("tcp")
    return sum(each.status != psutil.CONN_LISTEN for each in found)


def _wait_until_closed(clients: Sequence[socket.socket], count: int) -> list[socket.socket]:
    """Wait until the server has closed so many connections, and return the others."""
    left = list(clients)
    ends = time.monotonic() + 30  # without a bound of ours, a handshake has a minute
    while len(left) > len(clients) - count:
        readable, _, _ = select.select(left, [], [], max(0.0, ends - time.monotonic()))
        assert readable, f"{len(left)} of {len(clients)} connections are open"
        for client in readable:
            with suppress(ConnectionResetError):
                assert client.recv(1) == b""
            left.remove(client)
    return left


def _connect(server: RunningServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.http.rpartition(":")[2])), timeout=30)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nhost: a\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\nGET /hea",
        b"GET /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n1",
    ],
)
def test_a_client_that_sends_no_request_is_cut_off(impatient: RunningServer, sent: bytes) -> None:
    """Half a request, at first or after a whole one, holds its connection for a while only."""
    with _connect(impatient) as client:
        client.sendall(sent)
        while True:
            try:
                if not client.recv(4096):
                    break
            except ConnectionResetError:
                break
    wait_until(lambda: _answers(impatient))


def test_more_connections_than_allowed_are_closed(tmp_path: Path) -> None:
    """Other connections go on, and new ones are accepted when these have ended."""
    with _bounded(tmp_path, _PATIENT) as server:
        with ExitStack() as clients:
            left = _wait_until_closed([clients.enter_context(_connect(server)) for _ in range(30)], 30 - 8)
            for client in left:
                client.sendall(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
                assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
        wait_until(lambda: _answers(server))


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[str, ...], ssl.SSLContext]:
    """Options of a server with TLS, and the context of its clients."""
    folder, certificate = tmp_path_factory.mktemp("tls"), Certificate.make()
    certificate.write(folder)
    options = ("--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem"))
    return options, ssl.create_default_context(cadata=certificate.certificate.decode())


def test_connections_without_a_handshake_count(
    tls: tuple[tuple[str, ...], ssl.SSLContext], tmp_path: Path
) -> None:
    """With TLS, silent clients held any number of descriptors: the other port had none left."""
    options, context = tls
    with _bounded(tmp_path, _PATIENT, *options) as server:
        assert _answers(server, context)
        wait_until(lambda: _connections(server) == 0, "the connection of the first request has ended")
        idle = server.statistics().num_fds()
        with ExitStack() as clients:
            _wait_until_closed([clients.enter_context(_connect(server)) for _ in range(30)], 30 - 8)
            assert server.statistics().num_fds() <= idle + 8
        wait_until(lambda: _answers(server, context))


def test_connections_without_a_handshake_end(
    tls: tuple[tuple[str, ...], ssl.SSLContext], tmp_path: Path
) -> None:
    """With TLS, silent clients held their connections for a minute."""
    options, context = tls
    with _bounded(tmp_path, _IMPATIENT, *options) as server, ExitStack() as clients:
        _wait_until_closed([clients.enter_context(_connect(server)) for _ in range(8)], 8)
        wait_until(lambda: _answers(server, context))


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\nhost: a\r\nx: " + b"a" * (1 << 20) + b"\r\n\r\n",
        b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\nhost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(64)),
        b"GET /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
    ],
    ids=["long header", "long path", "TLS", "two lengths", "no host"],
)
def test_heads_that_are_too_large_or_no_http_are_refused(impatient: RunningServer, head: bytes) -> None:
    """The log has no line of them: anybody could fill it."""
    before = impatient.log
    with _connect(impatient) as client:
        found = b""
        try:
            client.sendall(head)
            while data := client.recv(4096):
                found += data
        except (ConnectionResetError, BrokenPipeError):
            pass
    assert b" 200 " not in found.partition(b"\r\n")[0]
    assert impatient.log == before
    wait_until(lambda: _answers(impatient))


def test_tls_and_new_certificates(tmp_path: Path, serve: StartServer) -> None:
    """With a certificate the port speaks HTTPS only, and follows the files as the Flight port does."""
    first, second = Certificate.make(), Certificate.make()
    first.write(tmp_path)
    root = tmp_path / "root"
    root.mkdir()
    pair = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    server = serve(root, *pair, "--http-port", "0")
    assert server.http.startswith("https://")

    def trusting(certificate: Certificate) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=certificate.certificate.decode())

    assert get(f"{server.http}/readyz", context=trusting(first)).status == 200
    with pytest.raises(ssl.SSLError):
        get(f"{server.http}/readyz", context=trusting(second))
    with pytest.raises((ConnectionError, OSError)):
        get(f"http{server.http.removeprefix('https')}/readyz")
    second.write(tmp_path)
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "reloaded" in server.log)
    assert get(f"{server.http}/readyz", context=trusting(second)).status == 200
