"""Tokens and TLS, on the client's side: our handlers behind a server of Arrow that checks both."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import flight_client
from flight_server.service import Service
from flight_server.settings import Settings
from support.oracles.comparison import assert_tables_equal
from support.servers.secure_server import TOKEN, Certificate, SecureServer
from support.servers.served import Root

HEADERS = {"X-Tenant": "shop"}


@pytest.fixture(scope="module")
def pair() -> Certificate:
    return Certificate.make()


@pytest.fixture(scope="module")
def secure_uri(root: Root, pair: Certificate) -> Iterator[str]:
    server = SecureServer(Service(Settings(str(root.path))), pair, HEADERS["X-Tenant"])
    yield server.uri
    server.shutdown()


@pytest.mark.parametrize("given", ["PEM", "text", "path"])
def test_a_token_over_tls(secure_uri: str, pair: Certificate, root: Root, given: str, tmp_path: Path) -> None:
    """Every kind of call carries the token and the headers: actions, plans, streams, takes, lookups."""
    (tmp_path / "ca.pem").write_bytes(pair.certificate)
    certificates = {
        "PEM": pair.certificate,
        "text": pair.certificate.decode(),
        "path": tmp_path / "ca.pem",
    }
    client = flight_client.connect(
        secure_uri, token=TOKEN, tls_root_certs=certificates[given], headers=HEADERS
    )
    trips = pickle.loads(pickle.dumps(client.dataset("trips")))
    assert_tables_equal(root.trips, trips.to_table())
    assert_tables_equal(root.trips.take([5, 2]), trips.take([5, 2]))
    with trips.lookup(["id"]) as lookup:
        assert lookup.take([1]).num_rows == 1
    assert "trips" in client.datasets().names


def test_writes_carry_the_token(secure_uri: str, pair: Certificate) -> None:
    with flight_client.connect(
        secure_uri, token=TOKEN, tls_root_certs=pair.certificate, headers=HEADERS
    ) as client:
        assert client.write("secure", {"a": [1, 2]}, "create").rows == 2
        client.drop_dataset("secure")


@pytest.mark.parametrize("token", [None, "wrong"])
def test_without_the_token(secure_uri: str, pair: Certificate, token: str | None) -> None:
    client = flight_client.connect(secure_uri, token=token, tls_root_certs=pair.certificate, headers=HEADERS)
    with pytest.raises(flight_client.NotAuthenticatedError):
        client.dataset("trips")
    with pytest.raises(flight_client.NotAuthenticatedError):
        client.write("secure", {"a": [1]}, "create")


def test_without_the_right(secure_uri: str, pair: Certificate) -> None:
    client = flight_client.connect(secure_uri, token=TOKEN, tls_root_certs=pair.certificate)
    with pytest.raises(flight_client.NotAllowedError):
        client.datasets()


def test_a_server_that_nobody_vouches_for(secure_uri: str) -> None:
    other = Certificate.make()
    client = flight_client.connect(secure_uri, token=TOKEN, tls_root_certs=other.certificate, attempts=1)
    with pytest.raises(flight_client.UnavailableError):
        client.datasets()


def test_secrets_are_not_shown(pair: Certificate) -> None:
    client = flight_client.connect(
        "grpc+tls://127.0.0.1:1", token=TOKEN, private_key=pair.key, cert_chain=pair.certificate
    )
    shown = repr(client) + repr(client._connections) + repr(client._connections.access)
    assert TOKEN not in shown
    assert "PRIVATE" not in shown
