"""Transport: TLS, and the addresses on which a server may listen without it."""

import ipaddress
import os
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from flight_server.settings import Settings
from lance_core.errors import InvalidInputError


@dataclass(frozen=True)
class Certificates:
    """Certificate and key of a server, and the authorities of its clients; PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    client_authorities: bytes | None = None
    """Certificates that vouch for clients. None: clients need no certificate."""

    @staticmethod
    def load(settings: Settings) -> "Certificates | None":
        """Return the certificates of the settings; None: the server speaks plain text.

        Raises:
            InvalidInputError: a file cannot be read, is no PEM, or the key is not that of the certificate.
        """
        if settings.tls_cert is None or settings.tls_key is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # An empty password: OpenSSL would ask for one on the terminal.
            context.load_cert_chain(settings.tls_cert, settings.tls_key, password="")
        except OSError as error:  # ssl.SSLError is one
            raise InvalidInputError(
                f"the certificate {settings.tls_cert} and the key {settings.tls_key} cannot be used: "
                f"{_reason(error)}"
            ) from None
        authorities = None
        if settings.tls_client_ca is not None:
            try:
                context.load_verify_locations(settings.tls_client_ca)
                authorities = Path(settings.tls_client_ca).read_bytes()
            except OSError as error:
                raise InvalidInputError(
                    f"the certificates {settings.tls_client_ca} cannot be used: {_reason(error)}"
                ) from None
        certificate, key = Path(settings.tls_cert).read_bytes(), Path(settings.tls_key).read_bytes()
        return Certificates(certificate, key, authorities)


def ways_to_authenticate(settings: Settings) -> list[str]:
    """Return what a server with these settings accepts as a proof of identity; nothing: it asks nobody."""
    ways = {"accounts": settings.accounts_file, "jwt": settings.jwt_key_file, "mtls": settings.tls_client_ca}
    return [way for way, given in ways.items() if given is not None]


def check_transport(settings: Settings) -> None:
    """Refuse settings of TLS that are incomplete, and a server that is open to everybody on a network.

    Raises:
        InvalidInputError: naming what is missing. For addresses beyond loopback, TLS and authentication are
            required, unless the setting `insecure` is on.
    """
    if (settings.tls_cert is None) != (settings.tls_key is None):
        missing = "tls-cert" if settings.tls_cert is None else "tls-key"
        raise InvalidInputError(f"TLS needs a certificate and its key; --{missing} is missing")
    has_tls = settings.tls_cert is not None
    if settings.tls_client_ca is not None and not has_tls:
        raise InvalidInputError(
            "--tls-client-ca checks clients within TLS; --tls-cert and --tls-key are missing"
        )
    for location in settings.advertise if has_tls else ():
        if location.startswith(("grpc://", "grpc+tcp://")):
            raise InvalidInputError(
                f"--advertise {location}: clients would send their tokens in plain text; expected grpc+tls://"
            )
    if settings.grant and not ways_to_authenticate(settings):
        raise InvalidInputError(
            "the settings have grants, but nothing tells who calls; --accounts-file, --jwt-key-file or "
            "--tls-client-ca does"
        )
    hosts = [settings.host]
    if settings.http_port is not None or settings.health_port is not None:
        hosts.append(settings.monitoring_host)
    open_host = next((host for host in hosts if not is_loopback(host)), None)
    if settings.insecure or open_host is None:
        return
    lacking = [] if has_tls else ["TLS (--tls-cert, --tls-key)"]
    if not ways_to_authenticate(settings):
        lacking.append("authentication (--accounts-file, --jwt-key-file or --tls-client-ca)")
    if lacking:
        raise InvalidInputError(
            f"{open_host} can be reached from other machines, and the server has no "
            f"{' and no '.join(lacking)}; --insecure starts it nevertheless"
        )


def is_loopback(host: str) -> bool:
    """Return whether all addresses of a host are of this machine alone. An unknown host is not."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return False
    addresses = [ipaddress.ip_address(str(address[0]).partition("%")[0]) for *_, address in found]
    return bool(addresses) and all(address.is_loopback for address in addresses)


def identity_of(paths: list[str]) -> tuple[object, ...]:
    """Return what changes when one of the files is replaced or written."""
    found: list[object] = []
    for path in paths:
        try:
            status = os.stat(path)
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
        except OSError:
            found.append(None)
    return tuple(found)


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"no PEM, or not of each other ({error.reason or 'not readable'})"
    return error.strerror or type(error).__name__
