"""DoPut: writing is not served yet."""

from pyarrow import flight

from flight_server.handlers.rpc import rpc
from flight_server.service import Service
from lance_core.errors import UnsupportedFeatureError


@rpc
def do_put(
    service: Service,
    context: flight.ServerCallContext,
    descriptor: flight.FlightDescriptor,
    reader: flight.MetadataRecordBatchReader,
    writer: flight.FlightMetadataWriter,
) -> None:
    raise UnsupportedFeatureError("DoPut is not supported yet; this server only reads")
