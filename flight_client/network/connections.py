"""Connections to the servers of one folder of datasets: which server a call tries next, and for how long."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pyarrow import flight

from flight_client.errors import InvalidInputError, LanceError
from flight_client.network.connection import Access, Connection, check_process, to_json
from flight_client.network.retries import Retries

T = TypeVar("T")

REUSE = "arrow-flight-reuse-connection"
"""Scheme of the location that stands for the server that was asked."""

_TLS = "grpc+tls://"


class Turns:
    """Order in which one call tries the servers: each server once, then again from the beginning.

    Servers that did not answer lately come last.
    """

    def __init__(self, candidates: Sequence[Connection], retries: Retries) -> None:
        self._candidates = candidates
        self._retries = retries
        self._left: list[Connection] = []
        self._current = candidates[0]

    def next(self) -> Connection:
        """Return the server whose turn it is."""
        if not self._left:
            self._left = sorted(self._candidates, key=lambda each: each.is_avoided)
        self._current = self._left.pop(0)
        return self._current

    def succeed(self) -> None:
        """Begin to count failures anew, because the server made progress."""
        self._current.answered()
        self._retries.succeed()

    def after(self, error: LanceError) -> None:
        """Wait until the next attempt is due. Raise `error` if there is none."""
        self._current.avoid_after(error)
        self._retries.after(error)


class Connections:
    """Connections to the servers of one folder of datasets, one per server.

    A call tries the servers in `uris` until one answers. An endpoint may name more servers.
    """

    def __init__(self, uris: Sequence[str], access: Access) -> None:
        if not uris:
            raise InvalidInputError("uri: expected the address of a server, found none")
        self.uris = tuple(uris)
        self.access = access
        self._lock = threading.Lock()
        self._connections: dict[str, Connection] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Connections, (self.uris, self.access)

    def to(self, uri: str) -> Connection:
        """Return the connection to the server at an address, and keep it for later calls.

        Errors are those of `check_process`.
        """
        check_process()  # before the lock, which a thread of the other process may hold
        with self._lock:
            connection = self._connections.get(uri)
            if connection is None:
                connection = self._connections[uri] = Connection(uri, self.access)
            return connection

    def turns(self) -> Turns:
        """Return the turns of the servers in `uris`."""
        return Turns(list(map(self.to, self.uris)), self.access.retries(len(self.uris)))

    def turns_of(self, endpoint: flight.FlightEndpoint, first: int) -> Turns:
        """Return the turns of the servers that redeem the ticket of an endpoint.

        The locations of the endpoint come first, in the order that the server chose, then `uris`. If the
        endpoint names fewer than two servers, the order begins with server number `first`, so that the
        endpoints of a plan are spread over all servers. If there are credentials and all `uris` use TLS,
        locations without TLS are left out.
        """
        named = [location.uri.decode() for location in endpoint.locations]
        uris = [uri for uri in named if not uri.startswith(REUSE)]
        if self.access.proof.is_given and all(uri.startswith(_TLS) for uri in self.uris):
            uris = [uri for uri in uris if uri.startswith(_TLS)]
        candidates = list(dict.fromkeys([*uris, *self.uris]))
        begin = first % len(candidates) if len(uris) < 2 else 0
        connections = [self.to(uri) for uri in (*candidates[begin:], *candidates[:begin])]
        return Turns(connections, self.access.retries(len(connections)))

    def call(self, run: Callable[[Connection], T], *, repeat: bool = True) -> T:
        """Run a call on the first server that answers.

        Args:
            run: makes the call. Errors of pyarrow become errors of `flight_client`.
            repeat: whether the call may be repeated after a temporary error.

        Raises:
            LanceError: the error of the last attempt.
        """
        turns = self.turns()
        while True:
            connection = turns.next()
            try:
                with connection.calling():
                    answer = run(connection)
            except LanceError as error:
                if not (repeat or error.was_refused):
                    raise
                turns.after(error)
            else:
                turns.succeed()
                return answer

    def action(self, name: str, body: Mapping[str, Any], *, repeat: bool = False) -> dict[str, Any]:
        """Run an action of the server: one JSON object in, one out. Fields that are None are left out."""
        given = {key: value for key, value in body.items() if value is not None}
        action = flight.Action(name, to_json(given).encode())

        def run(connection: Connection) -> dict[str, Any]:
            (answer,) = connection.client.do_action(action, connection.options())
            return dict(json.loads(answer.body.to_pybytes()))

        return self.call(run, repeat=repeat)

    def close(self) -> None:
        """Close all connections. They open again when they are needed."""
        with self._lock:
            for connection in self._connections.values():
                connection.close()
