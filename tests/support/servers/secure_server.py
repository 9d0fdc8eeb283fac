"""Certificates, and a server that is not ours: it refuses callers of another tenant."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pyarrow import flight

from flight_server.handlers.call_headers import MIDDLEWARE, ReadHeaders
from flight_server.server import FlightServer
from flight_server.service import Service

TOKEN = "correct horse"


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key; PEM."""

    certificate: bytes
    key: bytes

    @staticmethod
    def make() -> Certificate:
        """Return a certificate of 127.0.0.1 that vouches for itself."""
        return _signed("127.0.0.1", None)

    def write(self, folder: Path) -> None:
        """Write the files `cert.pem` and `key.pem`."""
        (folder / "cert.pem").write_bytes(self.certificate)
        (folder / "key.pem").write_bytes(self.key)


@dataclass(frozen=True)
class Authority:
    """An authority that vouches for others; PEM."""

    certificate: bytes
    key: bytes

    @staticmethod
    def make() -> Authority:
        made = _signed("authority of tests", None)
        return Authority(made.certificate, made.key)

    def certificate_of(self, name: str) -> Certificate:
        """Return a certificate of a host or a client."""
        return _signed(name, self)


def _signed(name: str, authority: Authority | None) -> Certificate:
    """Return a certificate that the authority signed, or the certificate itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer, issuer_key = subject, key
    if authority is not None:
        issuer = x509.load_pem_x509_certificate(authority.certificate).subject
        loaded = serialization.load_pem_private_key(authority.key, None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        issuer_key = loaded
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
    )
    if name[0].isdigit():
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(name))])
        builder = builder.add_extension(address, critical=False)
    pem = serialization.Encoding.PEM
    return Certificate(
        builder.sign(issuer_key, hashes.SHA256()).public_bytes(pem),
        key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, encryption_algorithm=serialization.NoEncryption()
        ),
    )


class _Guard(flight.ServerMiddlewareFactory):
    """Lets in who has the token, and who sends the header `x-tenant`, where there are tenants."""

    def __init__(self, tenant: str | None) -> None:
        super().__init__()
        self._tenant = tenant

    def start_call(self, info: flight.CallInfo, headers: dict[str, list[str]]) -> None:
        if headers.get("authorization") != [f"Bearer {TOKEN}"]:
            raise flight.FlightUnauthenticatedError("no token, or another one")
        if self._tenant is not None and headers.get("x-tenant") != [self._tenant]:
            raise flight.FlightUnauthorizedError("not this tenant")


class SecureServer(FlightServer):
    """Our handlers behind TLS and a token."""

    def __init__(self, service: Service, pair: Certificate, tenant: str | None = None) -> None:
        self._service = service
        self._host = "127.0.0.1"
        flight.FlightServerBase.__init__(
            self,
            "grpc+tls://127.0.0.1:0",
            tls_certificates=[(pair.certificate, pair.key)],
            middleware={"guard": _Guard(tenant), MIDDLEWARE: ReadHeaders(None)},
        )

    @property
    def uri(self) -> str:
        return f"grpc+tls://127.0.0.1:{self.port}"
