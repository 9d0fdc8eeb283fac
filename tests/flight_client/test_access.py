"""Tokens and TLS, on the client's side: our handlers behind a server of Arrow that checks both."""

from __future__ import annotations

import datetime
import ipaddress
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pyarrow import flight

import flight_client
from flight_server.server import FlightServer
from flight_server.service import Service
from flight_server.settings import Settings
from support.comparison import assert_tables_equal
from support.served import Root

TOKEN = "correct horse"


@dataclass(frozen=True)
class Certificate:
    """A certificate that vouches for itself, of 127.0.0.1, and its key; PEM."""

    certificate: bytes
    key: bytes

    @staticmethod
    def make() -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
        now = datetime.datetime.now(datetime.UTC)
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        signed = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(address, critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        return Certificate(
            signed.public_bytes(pem),
            key.private_bytes(
                pem, serialization.PrivateFormat.PKCS8, encryption_algorithm=serialization.NoEncryption()
            ),
        )


class _Guard(flight.ServerMiddlewareFactory):
    """Lets in who has the token, and who sends the header `x-tenant`, too."""

    def start_call(self, info: flight.CallInfo, headers: dict[str, list[str]]) -> None:
        if headers.get("authorization") != [f"Bearer {TOKEN}"]:
            raise flight.FlightUnauthenticatedError("no token, or another one")
        if headers.get("x-tenant") != ["shop"]:
            raise flight.FlightUnauthorizedError("not this tenant")


class _SecureServer(FlightServer):
    """Our handlers behind TLS and a token."""

    def __init__(self, service: Service, pair: Certificate) -> None:
        self._service = service
        self._host = "127.0.0.1"
        flight.FlightServerBase.__init__(
            self,
            "grpc+tls://127.0.0.1:0",
            tls_certificates=[(pair.certificate, pair.key)],
            middleware={"guard": _Guard()},
        )

    @property
    def uri(self) -> str:
        return f"grpc+tls://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def pair() -> Certificate:
    return Certificate.make()


@pytest.fixture(scope="module")
def secure_uri(root: Root, pair: Certificate) -> Iterator[str]:
    server = _SecureServer(Service(Settings(str(root.path))), pair)
    yield server.uri
    server.shutdown()


HEADERS = {"X-Tenant": "shop"}


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
    shown = repr(client) + repr(client._servers) + repr(client._servers.access)
    assert TOKEN not in shown
    assert "PRIVATE" not in shown
