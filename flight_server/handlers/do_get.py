"""DoGet: the record batches of a ticket."""

from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import chain

import pyarrow as pa
from pyarrow import flight, ipc

from flight_server.handlers.rpc import rpc, translated_errors
from flight_server.handlers.thread_state import kept_thread_state
from flight_server.service import ScanStream, Service
from lance_core.scan.batches import Stretch


@rpc
def do_get(
    service: Service, context: flight.ServerCallContext, ticket: flight.Ticket
) -> flight.GeneratorStream:
    stream = service.stream(ticket.ticket)
    parts = _parts(service, context, stream)
    next(parts)  # from here on the stream has its slot, and gives it back when it is closed
    compression = None if stream.compression == "none" else stream.compression
    return flight.GeneratorStream(stream.schema, parts, options=ipc.IpcWriteOptions(compression=compression))


def _parts(
    service: Service, context: flight.ServerCallContext, stream: ScanStream
) -> Iterator[pa.RecordBatch | pa.RecordBatchReader | None]:
    """First None, once the stream is admitted, then what to send. Until then errors are the handler's."""
    with service.admission.stream(), kept_thread_state(), closing(stream.stretches):
        yield None
        with translated_errors(service, context, "do_get"):
            stretches = _until_stopped(service, stream)
            if any(has_dictionary(field.type) for field in stream.schema):
                yield from _one_reader(stream.schema, stretches)
            else:
                yield from map(Stretch.sendable, stretches)


def _until_stopped(service: Service, stream: ScanStream) -> Iterator[Stretch]:
    while (stretch := next(stream.stretches, None)) is not None:
        service.admission.check_stream()
        yield stretch
        del stretch  # its memory must be free when the next one is asked for


def _one_reader(schema: pa.Schema, stretches: Iterator[Stretch]) -> Iterator[pa.RecordBatchReader]:
    """The batches as one reader: a bare batch is sent without its dictionaries, another reader with all of
    them again.

    An error inside a reader would arrive as an unknown one, so it ends the reader and is raised after it,
    where errors keep their class.
    """
    failure: Exception | None = None

    def readable() -> Generator[pa.RecordBatch, None, None]:
        nonlocal failure
        try:
            yield from chain.from_iterable(map(Stretch.batches, stretches))
        except Exception as error:
            failure = error

    yield pa.RecordBatchReader.from_batches(schema, readable())
    if failure is not None:
        raise failure


def has_dictionary(data_type: pa.DataType) -> bool:
    """Whether a dictionary type stands anywhere in `data_type`."""
    if isinstance(data_type, pa.BaseExtensionType):
        return has_dictionary(data_type.storage_type)
    children = (data_type.field(position).type for position in range(data_type.num_fields))
    return pa.types.is_dictionary(data_type) or any(has_dictionary(child) for child in children)
