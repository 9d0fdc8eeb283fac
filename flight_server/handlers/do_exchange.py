"""DoExchange: looking rows up by key is not served yet."""

from pyarrow import flight

from flight_server.handlers.rpc import rpc
from flight_server.service import Service
from lance_core.errors import UnsupportedFeatureError


@rpc
def do_exchange(
    service: Service,
    context: flight.ServerCallContext,
    descriptor: flight.FlightDescriptor,
    reader: flight.MetadataRecordBatchReader,
    writer: flight.MetadataRecordBatchWriter,
) -> None:
    raise UnsupportedFeatureError("DoExchange is not supported yet; stream rows with DoGet")
