"""GetSchema: the schema of a projection."""

from pyarrow import flight

from flight_server.handlers.descriptor import command_of
from flight_server.handlers.rpc import rpc
from flight_server.service import Service


@rpc
def get_schema(
    service: Service, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
) -> flight.SchemaResult:
    return flight.SchemaResult(service.schema(command_of(descriptor)))
