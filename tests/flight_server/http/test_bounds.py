"""T6: bounds on the connections and requests of the HTTP server."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from support.clients.http import get
from support.processes.forked import ForkedProcess
from support.servers.secure_server import Certificate
from support.servers.served import StartServer
from support.servers.server import RunningServer

_SMALL_BOUNDS = """
import flight_server.http.server as server
server.HEAD_SECONDS, server.KEEP_ALIVE_SECONDS, server.MOST_CONNECTIONS = 1.0, 1, 8
from flight_server.cli import app
app()
"""


@contextmanager
def _bounded(folder: Path, *options: str) -> Iterator[RunningServer]:
    """A server with few connections and little patience."""
    arguments = ["serve", str(folder), "--port", "0", "--http-port", "0", *options]
    process = ForkedProcess(arguments, folder / "log", os.environ, _SMALL_BOUNDS)
    uri, http = (process.stdout.readline().rstrip("\n") for _ in range(2))
    server = RunningServer(process, uri, folder / "log", http)
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with _bounded(tmp_path_factory.mktemp("small")) as server:
        yield server


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
def test_a_client_that_sends_no_request_is_cut_off(small: RunningServer, sent: bytes) -> None:
    """Half a request, at first or after a whole one, holds its connection for a while only."""
    with _connect(small) as client:
        client.sendall(sent)
        while True:
            try:
                if not client.recv(4096):
                    break
            except ConnectionResetError:
                break
    assert get(f"{small.http}/healthz").status == 200


def test_more_connections_than_allowed_are_closed(small: RunningServer) -> None:
    clients = [_connect(small) for _ in range(30)]
    closed = 0
    try:
        for client in clients:
            client.settimeout(0.2)
            try:
                closed += client.recv(1) == b""
            except ConnectionResetError:
                closed += 1
            except TimeoutError:
                pass
    finally:
        for client in clients:
            client.close()
    assert closed >= 30 - 8
    assert get(f"{small.http}/healthz").status == 200


def test_connections_without_a_handshake_count_and_end(tmp_path: Path) -> None:
    """With TLS, silent clients held any number of descriptors for a minute: the other port had none left."""
    certificate = Certificate.make()
    certificate.write(tmp_path)
    pair = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    with _bounded(tmp_path, *pair) as server, ExitStack() as clients:
        idle = server.statistics().num_fds()
        silent = [clients.enter_context(_connect(server)) for _ in range(30)]
        time.sleep(0.2)
        assert server.statistics().num_fds() <= idle + 8
        until = time.monotonic() + 10
        for client in silent:  # the bound of a handshake is one second
            client.settimeout(until - time.monotonic())
            with suppress(ConnectionResetError):
                assert client.recv(1) == b""
        context = ssl.create_default_context(cadata=certificate.certificate.decode())
        assert get(f"{server.http}/healthz", context=context).status == 200


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
def test_heads_that_are_too_large_or_no_http_are_refused(small: RunningServer, head: bytes) -> None:
    """The log has no line of them: anybody could fill it."""
    before = small.log
    with _connect(small) as client:
        found = b""
        try:
            client.sendall(head)
            while data := client.recv(4096):
                found += data
        except (ConnectionResetError, BrokenPipeError):
            pass
    assert b" 200 " not in found.partition(b"\r\n")[0]
    assert small.log == before
    assert get(f"{small.http}/healthz").status == 200


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
    until = time.monotonic() + 30
    while "reloaded" not in server.log:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert get(f"{server.http}/readyz", context=trusting(second)).status == 200
