"""Our handlers behind a server of Arrow that checks tokens and speaks TLS, which our own does not do yet."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pyarrow import flight

from flight_server.server import FlightServer
from flight_server.service import Service

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
            middleware={"guard": _Guard(tenant)},
        )

    @property
    def uri(self) -> str:
        return f"grpc+tls://127.0.0.1:{self.port}"
