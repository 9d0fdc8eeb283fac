"""Relay: connections to one port, handed on to the workers.

gRPC in Arrow does not share its port between processes, and cannot take over a connection that another
process accepted. So the supervising process accepts the connections, and moves their bytes to and from the
worker with the fewest connections. `splice` moves them within the kernel, so that Python never sees them, and
TLS stays between the client and the worker. Clients that follow the locations of endpoints connect to the
workers directly.
"""

import errno
import fcntl
import hashlib
import logging
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from flight_server.logs import is_logged, log_event

Address = tuple[str, int]

_THIS_MACHINE = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
"""Addresses of clients on this machine; the first one stands for all."""

_PIPE_BYTES = 1 << 18
_MOVES_AT_A_TIME = 16
"""Moves of one connection before the others have their turn."""

_LONGEST_WAIT_SECONDS = 10.0
"""Seconds for which a connection waits for a worker: they may all be starting, or changing certificates."""

_SECONDS_BETWEEN_TRIES = 0.02
_SPLICE_FLAGS = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
_EVENTS = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET


class _Flow:
    """One direction of a connection: from a socket through a pipe to a socket. Idle flows hold no pipe."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self._source = source
        self._sink = sink
        self._pipe: tuple[int, int] | None = None
        self._held = 0
        self._is_ended = False
        self.is_closed = False

    def move(self) -> bool:
        """Move bytes until either socket would block. Return whether there may be more to move now.

        Raises:
            OSError: one of the connections broke.
        """
        moves = 0
        while moves < _MOVES_AT_A_TIME and not self.is_closed and self._fill() | self._empty():
            moves += 1
        return moves == _MOVES_AT_A_TIME

    def release(self) -> None:
        """Close the pipe."""
        if self._pipe is not None:
            for end in self._pipe:
                os.close(end)
            self._pipe = None

    def _fill(self) -> bool:
        if self._is_ended or self._held >= _PIPE_BYTES:
            return False
        if self._pipe is None:
            self._pipe = os.pipe()
            with suppress(OSError):  # a user may have only so much memory in pipes
                fcntl.fcntl(self._pipe[1], fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        try:
            count = os.splice(
                self._source.fileno(), self._pipe[1], _PIPE_BYTES - self._held, flags=_SPLICE_FLAGS
            )
        except BlockingIOError:
            count = -1
        if count == 0:
            self._is_ended = True
        self._held += max(count, 0)
        if not self._held:
            self.release()
            if self._is_ended:
                self._finish()
        return count > 0

    def _empty(self) -> bool:
        if not self._held or self._pipe is None:
            return False
        try:
            count = os.splice(self._pipe[0], self._sink.fileno(), self._held, flags=_SPLICE_FLAGS)
        except BlockingIOError:
            return False
        self._held -= count
        if not self._held:
            self.release()
            if self._is_ended:
                self._finish()
        return True

    def _finish(self) -> None:
        self.is_closed = True
        self._sink.shutdown(socket.SHUT_WR)


class _Connection:
    """Connection of a client, with that to its worker."""

    def __init__(self, client: socket.socket, worker: socket.socket, target: Address) -> None:
        self.target = target
        self.sockets = (client, worker)
        self._flows = (_Flow(client, worker), _Flow(worker, client))

    def move(self) -> bool:
        """Move bytes in both directions; see `_Flow.move`."""
        return self._flows[0].move() | self._flows[1].move()

    @property
    def is_closed(self) -> bool:
        """Whether both directions have ended."""
        return all(flow.is_closed for flow in self._flows)

    def close(self) -> None:
        for flow in self._flows:
            flow.release()
        for each in self.sockets:
            each.close()


class Relay:
    """Relay from listening sockets to the workers that are ready."""

    def __init__(self, listeners: Sequence[socket.socket]) -> None:
        self._listeners = {each.fileno(): each for each in listeners}
        self._targets: tuple[Address, ...] = ()
        self._connections: dict[int, _Connection] = {}
        self._busy: dict[_Connection, None] = {}
        """Connections with bytes to move, in the order of their turns."""
        self._waiting: deque[tuple[socket.socket, float]] = deque()
        """Accepted connections without a worker, and until when they wait for one."""
        self._epoll = select.epoll()

    def start(self) -> None:
        """Begin to accept connections, in a thread that ends with the process."""
        for number, listener in self._listeners.items():
            listener.setblocking(False)
            listener.listen(socket.SOMAXCONN)
            self._epoll.register(number, select.EPOLLIN)
        threading.Thread(target=self._run, name="relay", daemon=True).start()

    def use(self, targets: Sequence[Address]) -> None:
        """Hand new connections on to these workers."""
        self._targets = tuple(targets)

    def _run(self) -> None:
        try:
            while True:
                self._turn()
        except Exception as error:  # a defect: without the relay the port is dead, and nobody would notice
            log_event(logging.ERROR, "relay_failed", {"error": type(error).__name__}, error)
            os._exit(1)

    def _turn(self) -> None:
        """Wait for something to do, and do it."""
        timeout = 0.0 if self._busy else _SECONDS_BETWEEN_TRIES if self._waiting else -1.0
        for number, _ in self._epoll.poll(timeout):
            if number in self._listeners:
                self._accept(self._listeners[number])
            elif number in self._connections:
                self._busy[self._connections[number]] = None
        busy, self._busy = self._busy, {}
        for connection in busy:
            self._move(connection)
        for _ in range(len(self._waiting)):
            self._hand_on(*self._waiting.popleft())

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                log_event(logging.WARNING, "accept_failed", {"message": error.strerror})
                time.sleep(_SECONDS_BETWEEN_TRIES)  # it stays in the queue of the kernel
            return
        self._waiting.append((client, time.monotonic() + _LONGEST_WAIT_SECONDS))

    def _hand_on(self, client: socket.socket, until: float) -> None:
        """Connect a client with the worker that has the fewest connections, or let it wait."""
        counts = dict.fromkeys(self._targets, 0)
        for connection in self._connections.values():
            if connection.target in counts:
                counts[connection.target] += 1
        for target in sorted(counts, key=lambda each: counts[each]):
            try:
                worker = _connected(target, _stand_in(client))
            except OSError:
                continue
            try:
                self._connect(client, worker, target)
            except OSError:  # the client has left
                client.close()
                worker.close()
            return
        if time.monotonic() < until:
            self._waiting.append((client, until))
        else:
            client.close()

    def _connect(self, client: socket.socket, worker: socket.socket, target: Address) -> None:
        connection = _Connection(client, worker, target)
        for each in connection.sockets:
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for each in connection.sockets:
            self._connections[each.fileno()] = connection
            self._epoll.register(each.fileno(), _EVENTS)
        if is_logged(logging.DEBUG):
            facts = {"peer": _shown(client, "getpeername"), "as": _shown(worker, "getsockname")}
            log_event(logging.DEBUG, "relayed", facts)

    def _move(self, connection: _Connection) -> None:
        try:
            is_busy = connection.move()
        except OSError:
            self._forget(connection)
            return
        if connection.is_closed:
            self._forget(connection)
        elif is_busy:
            self._busy[connection] = None

    def _forget(self, connection: _Connection) -> None:
        for each in connection.sockets:
            self._connections.pop(each.fileno(), None)
        connection.close()


def _connected(target: Address, source: str) -> socket.socket:
    """Return a connection to a worker from an address of this machine, or from any if it cannot be used."""
    with suppress(OSError):  # to a worker with an IPv6 address, say
        return socket.create_connection(target, timeout=1.0, source_address=(source, 0))
    return socket.create_connection(target, timeout=1.0)


def _stand_in(client: socket.socket) -> str:
    """Return the loopback address that stands for the host of a client.

    A worker limits the calls of each host, where it asks nobody who calls. So hosts must not look alike.
    """
    host = str(client.getpeername()[0])
    if host in _THIS_MACHINE:
        return _THIS_MACHINE[0]
    first, second, third = hashlib.blake2b(host.encode(), digest_size=3).digest()
    return f"127.{1 + first % 254}.{second}.{1 + third % 254}"


def _shown(connected: socket.socket, end: str) -> str | None:
    """Return an address of a socket as the log shows it; None if the connection is gone."""
    try:
        host, port = getattr(connected, end)()[:2]
    except OSError:
        return None
    return f"{host}:{port}"
