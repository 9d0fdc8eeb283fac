"""Relay of connections to workers, with real sockets."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pytest

from flight_server.workers.relay import Address, Relay

LIMIT_S = 30


class Backend:
    """A server that answers each connection in a thread."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: Address = self._listener.getsockname()
        self._answer = answer
        self.connections: list[socket.socket] = []
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self.connections:
            each.close()

    def _run(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                self.connections.append(connection)
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()


def echo(connection: socket.socket) -> None:
    with suppress(OSError):
        while data := connection.recv(1 << 16):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)


@pytest.fixture
def relay() -> Iterator[tuple[Relay, Callable[[], socket.socket]]]:
    listener = socket.create_server(("127.0.0.1", 0))
    relay = Relay([listener])
    relay.start()
    clients: list[socket.socket] = []

    def connect() -> socket.socket:
        clients.append(socket.create_connection(listener.getsockname()[:2], timeout=LIMIT_S))
        return clients[-1]

    yield relay, connect
    for client in clients:
        client.close()


Started = tuple[Relay, Callable[[], socket.socket]]


def test_all_bytes_arrive_in_both_directions(relay: Started) -> None:
    """A client that ends its half first, as gRPC does, still gets the whole answer."""
    started, connect = relay
    started.use([Backend(echo).address])
    client = connect()
    sent = np.random.default_rng(1).bytes(20_000_000)
    received = bytearray()

    def receive() -> None:
        while data := client.recv(1 << 20):
            received.extend(data)

    reader = threading.Thread(target=receive)
    reader.start()
    client.sendall(sent)
    client.shutdown(socket.SHUT_WR)
    reader.join(LIMIT_S)
    assert bytes(received) == sent


def test_a_client_that_does_not_read_delays_nobody(relay: Started) -> None:
    started, connect = relay
    started.use([Backend(echo).address])
    stalled = connect()
    stalled.setblocking(False)
    full_since = time.monotonic()
    while time.monotonic() - full_since < 0.3:  # until nothing has been taken for a while
        with suppress(BlockingIOError):
            stalled.send(bytes(1 << 20))
            full_since = time.monotonic()
    other = connect()
    for _ in range(100):
        other.sendall(b"question")
        assert other.recv(8, socket.MSG_WAITALL) == b"question"


def test_new_connections_go_to_the_worker_with_the_fewest(relay: Started) -> None:
    started, connect = relay
    backends = [Backend(echo), Backend(echo)]
    started.use([each.address for each in backends])
    for _ in range(6):
        client = connect()
        client.sendall(b"x")
        assert client.recv(1) == b"x"
    assert [len(each.connections) for each in backends] == [3, 3]


def test_connections_wait_until_a_worker_is_ready(relay: Started) -> None:
    """Connections come while a worker is started again, or changes its certificate."""
    started, connect = relay
    gone = Backend(echo)
    started.use([gone.address])
    gone.close()
    client = connect()
    client.sendall(b"early")
    started.use([gone.address, Backend(echo).address])
    assert client.recv(5, socket.MSG_WAITALL) == b"early"


def test_a_broken_connection_ends_on_the_other_side(relay: Started) -> None:
    started, connect = relay
    backend = Backend(lambda connection: (connection.recv(1), connection.close())[0])
    started.use([backend.address])
    client = connect()
    client.sendall(b"x")
    assert client.recv(1) == b""


def test_hosts_do_not_look_alike_to_workers(relay: Started) -> None:
    """T6: limits of one host are not those of all hosts together."""
    started, connect = relay

    def answer(connection: socket.socket) -> None:
        connection.sendall(f"{connection.getpeername()[0]:15}".encode())

    started.use([Backend(answer).address])
    address = connect().getpeername()

    def seen_by_worker(host: str) -> str:
        with socket.create_connection(address, LIMIT_S, source_address=(host, 0)) as client:
            return client.recv(15, socket.MSG_WAITALL).decode().strip()

    seen = [seen_by_worker(host) for host in ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.2")]
    assert seen[0] == "127.0.0.1"
    assert len(set(seen)) == 3
    assert seen[1] == seen[3]


def open_pipes() -> int:
    links = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed meanwhile
            links.append(os.readlink(f"/proc/self/fd/{number}"))
    return sum(link.startswith("pipe:") for link in links)


def test_idle_connections_hold_no_pipes(relay: Started) -> None:
    """T6: many connections that do nothing leave the descriptors to others."""
    started, connect = relay
    started.use([Backend(echo).address])
    before = open_pipes()
    for _ in range(50):
        client = connect()
        client.sendall(b"x")
        assert client.recv(1) == b"x"
    until = time.monotonic() + LIMIT_S
    while open_pipes() > before:
        assert time.monotonic() < until
        time.sleep(0.01)
