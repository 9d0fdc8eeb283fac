"""Order in which a call tries servers."""

from __future__ import annotations

import pytest
from pyarrow import flight

from flight_client.errors import StorageError, UnavailableError
from flight_client.network.connection import Access
from flight_client.network.connections import Connections

SERVERS = [f"grpc://127.0.0.1:{port}" for port in (1, 2, 3)]


def endpoint(*locations: str) -> flight.FlightEndpoint:
    return flight.FlightEndpoint(b"ticket", [*locations, "arrow-flight-reuse-connection://?"])


def order(connections: Connections, named: flight.FlightEndpoint, first: int = 0) -> list[str]:
    """Return the addresses of one round."""
    turns = connections.turns_of(named, first)
    known = {location.uri.decode() for location in named.locations[:-1]} | set(connections.uris)
    return [turns.next().uri for _ in known]


def test_the_order_of_the_server_counts() -> None:
    connections = Connections(SERVERS[:1], Access())
    assert order(connections, endpoint(*SERVERS[1:]), first=5) == [*SERVERS[1:], SERVERS[0]]


def test_readers_spread_where_an_endpoint_names_one_server() -> None:
    """A server without peers does not know of the others that the client was told of."""
    connections = Connections(SERVERS, Access())
    assert order(connections, endpoint(), first=1) == [SERVERS[1], SERVERS[2], SERVERS[0]]
    assert order(connections, endpoint(SERVERS[0]), first=4) == [SERVERS[1], SERVERS[2], SERVERS[0]]


def test_a_server_that_did_not_answer_is_tried_last_for_a_while() -> None:
    connections = Connections(SERVERS[:1], Access())
    named = endpoint(*SERVERS)
    turns = connections.turns_of(named, 0)
    turns.next()
    turns.after(UnavailableError("no server answers", retryable=True))
    assert turns.next().uri == SERVERS[1]
    assert order(connections, named) == [SERVERS[1], SERVERS[2], SERVERS[0]]
    connections.to(SERVERS[0]).answered()
    assert order(connections, named) == SERVERS


def test_a_stopping_server_says_how_long() -> None:
    connections = Connections(SERVERS, Access(patience=0.0))
    turns = connections.turns()
    turns.next()
    turns.after(UnavailableError("the server is shutting down", retryable=True, retry_after=1e-6))
    assert connections.turns().next().uri == SERVERS[0]


def test_errors_of_the_storage_say_nothing_about_the_server() -> None:
    connections = Connections(SERVERS, Access())
    turns = connections.turns()
    turns.next()
    turns.after(StorageError("the store is slow", retryable=True))
    assert connections.turns().next().uri == SERVERS[0]


def test_every_server_is_asked_before_a_call_fails() -> None:
    turns = Connections(SERVERS, Access(attempts=2)).turns()
    for _ in SERVERS[1:]:
        turns.next()
        turns.after(UnavailableError("no server answers", retryable=True))
    turns.next()
    with pytest.raises(UnavailableError):
        turns.after(UnavailableError("no server answers", retryable=True))
