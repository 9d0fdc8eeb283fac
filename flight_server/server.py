"""The Flight server: one line per RPC, everything else is in `handlers`."""

import errno
import socket
from collections.abc import Iterator
from typing import Any, TypeAlias

from pyarrow import flight

from flight_server.handlers.call_headers import MIDDLEWARE, ReadHeaders
from flight_server.handlers.credentials import Credentials, Handshakes
from flight_server.handlers.do_action import do_action, list_actions
from flight_server.handlers.do_exchange import do_exchange
from flight_server.handlers.do_get import do_get
from flight_server.handlers.do_put import do_put
from flight_server.handlers.get_flight_info import get_flight_info
from flight_server.handlers.get_schema import get_schema
from flight_server.handlers.list_flights import list_flights
from flight_server.security.transport import Certificates, check_transport
from flight_server.service import Service
from flight_server.settings import Settings
from lance_core.errors import InvalidInputError

Context: TypeAlias = flight.ServerCallContext
Descriptor: TypeAlias = flight.FlightDescriptor
WILDCARD_HOSTS = ("0.0.0.0", "::", "[::]")


_PROBLEMS = {
    errno.EADDRINUSE: "port {port} is in use on {host}; give another one with --port",
    errno.EADDRNOTAVAIL: "{host} is not an address of this machine",
    errno.EACCES: "port {port} may not be used by this user",
}


class FlightServer(flight.FlightServerBase):  # type: ignore[misc]
    """Flight server that listens as soon as it is constructed, with TLS if there is a certificate."""

    def __init__(self, service: Service, port: int | None = None) -> None:
        """Listen on `port` instead of the port of the settings, if it is given.

        Raise InvalidInputError if the server cannot listen at the address of its settings, or must not.
        """
        settings = service.settings
        port = settings.port if port is None else port
        check_transport(settings)
        certificates = Certificates.load(settings)
        self._service = service
        for probe in bound_sockets(settings.host, port):  # gRPC would write its reason to stderr
            probe.close()
        arguments = _tls(certificates)
        credentials = None
        if service.authenticator is not None:
            handshakes = Handshakes(service.authenticator, service.meters)
            credentials = Credentials(service.authenticator, handshakes, service.meters)
            if service.authenticator.takes_passwords:
                arguments["auth_handler"] = handshakes
        headers = ReadHeaders(credentials, keeps_trace=service.tracing is not None)
        arguments["middleware"] = {MIDDLEWARE: headers}
        super().__init__(uri_of(settings, port), **arguments)

    @property
    def uri(self) -> str:
        """Address to which clients connect that can reach the host."""
        return uri_of(self._service.settings, self.port)

    @property
    def locations(self) -> tuple[str, ...]:
        """The addresses to advertise.

        There are none if the server listens at all interfaces and none is configured.
        """
        bound = () if self._service.settings.host in WILDCARD_HOSTS else (self.uri,)
        return self._service.settings.advertise or bound

    def list_flights(self, context: Context, criteria: bytes) -> Iterator[flight.FlightInfo]:
        return list_flights(self._service, context, criteria)

    def get_flight_info(self, context: Context, descriptor: Descriptor) -> flight.FlightInfo:
        return get_flight_info(self._service, context, descriptor)

    def get_schema(self, context: Context, descriptor: Descriptor) -> flight.SchemaResult:
        return get_schema(self._service, context, descriptor)

    def do_get(self, context: Context, ticket: flight.Ticket) -> flight.FlightDataStream:
        return do_get(self._service, context, ticket)

    def do_put(
        self,
        context: Context,
        descriptor: Descriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        do_put(self._service, context, descriptor, reader, writer)

    def do_exchange(
        self,
        context: Context,
        descriptor: Descriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        do_exchange(self._service, context, descriptor, reader, writer)

    def do_action(self, context: Context, action: flight.Action) -> Iterator[flight.Result]:
        return do_action(self._service, context, action)

    def list_actions(self, context: Context) -> list[flight.ActionType]:
        return list_actions(self._service, context)


def _tls(certificates: Certificates | None) -> dict[str, Any]:
    """Return the arguments of `FlightServerBase` for TLS."""
    if certificates is None:
        return {}
    arguments: dict[str, Any] = {"tls_certificates": [(certificates.certificate, certificates.key)]}
    if certificates.client_authorities is not None:
        arguments |= {"verify_client": True, "root_certificates": certificates.client_authorities}
    return arguments


def uri_of(settings: Settings, port: int) -> str:
    """Return the address of a server with these settings that listens on a port."""
    host = f"[{settings.host}]" if ":" in settings.host.strip("[]") else settings.host
    return f"{'grpc' if settings.tls_cert is None else 'grpc+tls'}://{host}:{port}"


def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """Return sockets that are bound to a port of all addresses of a host; port 0 takes any free one.

    Raises:
        InvalidInputError: the port is in use or needs more rights, or the host is not this machine.
    """
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        raise InvalidInputError(f"the name of the host to listen on is not known: {host}") from None
    bound: list[socket.socket] = []
    for family, kind, protocol, _, address in found:
        bound.append(socket.socket(family, kind, protocol))
        # As gRPC does: connections of a server that has ended do not block its port.
        bound[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound[-1].bind((address[0], bound[0].getsockname()[1] if len(bound) > 1 else port, *address[2:]))
        except OSError as error:
            for each in bound:
                each.close()
            problem = _PROBLEMS.get(
                error.errno or 0, "cannot listen on {host}:{port}: " + str(error.strerror)
            )
            raise InvalidInputError(problem.format(host=host, port=port)) from None
    return bound
