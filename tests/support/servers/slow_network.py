"""Proxy of a TCP port that passes bytes on no faster than a network would."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

_CHUNK_BYTES = 64 << 10


@dataclass
class SlowNetwork:
    """Connections to a server through a proxy.

    Attributes:
        port: Port of the proxy on 127.0.0.1.
        num_bytes: Bytes that came from the server so far.
    """

    port: int
    num_bytes: int = 0


@contextmanager
def slow_network(port: int, bytes_per_second: float) -> Iterator[SlowNetwork]:
    """Run a proxy that passes on at most `bytes_per_second` of what a local server at `port` sends."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        network = SlowNetwork(listener.getsockname()[1])
        threading.Thread(
            target=_accept, args=(listener, port, bytes_per_second, network), daemon=True
        ).start()
        yield network


def _accept(listener: socket.socket, port: int, bytes_per_second: float, network: SlowNetwork) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:  # the proxy has ended
            return
        # A small buffer, so that the server notices at once how slow the network is.
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256 << 10)
        server.connect(("127.0.0.1", port))
        threading.Thread(
            target=_pass_on, args=(client, server, bytes_per_second, network), daemon=True
        ).start()


def _pass_on(
    client: socket.socket, server: socket.socket, bytes_per_second: float, network: SlowNetwork
) -> None:
    with closing(client), closing(server), selectors.DefaultSelector() as waiting:
        waiting.register(client, selectors.EVENT_READ, server)
        waiting.register(server, selectors.EVENT_READ, client)
        free_at = time.monotonic()
        while True:
            for key, _ in waiting.select():
                source, target = key.fileobj, key.data
                assert isinstance(source, socket.socket)
                try:
                    data = source.recv(_CHUNK_BYTES)
                    if not data:
                        return
                    if source is server:
                        network.num_bytes += len(data)
                        free_at = max(free_at, time.monotonic()) + len(data) / bytes_per_second
                        time.sleep(max(0.0, free_at - time.monotonic()))
                    target.sendall(data)
                except OSError:
                    return
