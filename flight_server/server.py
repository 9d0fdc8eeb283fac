"""The Flight server: one line per RPC, everything else is in `handlers`."""

from collections.abc import Iterator
from typing import TypeAlias

from pyarrow import flight

from flight_server.handlers.do_action import do_action, list_actions
from flight_server.handlers.do_exchange import do_exchange
from flight_server.handlers.do_get import do_get
from flight_server.handlers.do_put import do_put
from flight_server.handlers.get_flight_info import get_flight_info
from flight_server.handlers.get_schema import get_schema
from flight_server.handlers.list_flights import list_flights
from flight_server.service import Service

Context: TypeAlias = flight.ServerCallContext
Descriptor: TypeAlias = flight.FlightDescriptor
_WILDCARD_HOSTS = ("0.0.0.0", "::", "[::]")


class FlightServer(flight.FlightServerBase):  # type: ignore[misc]
    """Listens from its construction on."""

    def __init__(self, service: Service) -> None:
        settings = service.settings
        self._service = service
        self._host = f"[{settings.host}]" if ":" in settings.host.strip("[]") else settings.host
        super().__init__(f"grpc://{self._host}:{settings.port}")

    @property
    def uri(self) -> str:
        """Where a client on a machine that reaches the host connects to."""
        return f"grpc://{self._host}:{self.port}"

    @property
    def locations(self) -> tuple[str, ...]:
        """The addresses to advertise; none when bound to every interface and none was configured."""
        bound = () if self._service.settings.host in _WILDCARD_HOSTS else (self.uri,)
        return self._service.settings.advertise or bound

    def list_flights(self, context: Context, criteria: bytes) -> Iterator[flight.FlightInfo]:
        return list_flights(self._service, context, criteria)

    def get_flight_info(self, context: Context, descriptor: Descriptor) -> flight.FlightInfo:
        return get_flight_info(self._service, context, descriptor, self.locations)

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
