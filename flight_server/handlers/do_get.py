"""DoGet: the record batches of a ticket."""

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
from pyarrow import flight, ipc

from flight_server.handlers.rpc import rpc, translated_errors
from flight_server.service import ScanStream, Service


@rpc
def do_get(
    service: Service, context: flight.ServerCallContext, ticket: flight.Ticket
) -> flight.GeneratorStream:
    stream = service.stream(ticket.ticket)
    batches = _batches(service, context, stream)
    next(batches)  # from here on the stream has its slot, and gives it back when it is closed
    compression = None if stream.compression == "none" else stream.compression
    return flight.GeneratorStream(
        stream.schema, batches, options=ipc.IpcWriteOptions(compression=compression)
    )


def _batches(
    service: Service, context: flight.ServerCallContext, stream: ScanStream
) -> Iterator[pa.RecordBatch | pa.Table | None]:
    """First None, once the stream is admitted, then the batches. Until then errors are the handler's.

    Bare batches with dictionary columns arrive without their dictionaries; as tables they arrive whole.
    """
    with service.admission.stream(), closing(stream.batches) as batches:
        yield None
        as_table = any(has_dictionary(field.type) for field in stream.schema)
        with translated_errors(service, context, "do_get"):
            for batch in batches:
                service.admission.check_stream()
                yield pa.Table.from_batches([batch]) if as_table else batch


def has_dictionary(data_type: pa.DataType) -> bool:
    """Whether a dictionary type stands anywhere in `data_type`."""
    if isinstance(data_type, pa.BaseExtensionType):
        return has_dictionary(data_type.storage_type)
    children = (data_type.field(position).type for position in range(data_type.num_fields))
    return pa.types.is_dictionary(data_type) or any(has_dictionary(child) for child in children)
