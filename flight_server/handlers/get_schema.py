"""GetSchema: the schema of a projection."""

from pyarrow import flight

from flight_server.handlers.call import Call, named
from flight_server.handlers.descriptor import command_of
from flight_server.handlers.rpc import rpc
from flight_server.service import Service


@rpc
def get_schema(service: Service, call: Call, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
    command = command_of(descriptor)
    service = service.needing("read")
    call.describe(lambda: named(command.dataset))
    return flight.SchemaResult(service.reads.schema(command))
