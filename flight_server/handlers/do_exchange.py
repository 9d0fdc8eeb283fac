"""DoExchange: batches of keys in, for each of them one batch of rows out."""

from pyarrow import flight

from flight_server.handlers.call import Call, named
from flight_server.handlers.descriptor import lookup_of
from flight_server.handlers.incoming import Incoming
from flight_server.handlers.rpc import rpc
from flight_server.service import Service
from flight_server.telemetry.meters import num_bytes
from lance_core.errors import InvalidInputError


@rpc
def do_exchange(
    service: Service,
    call: Call,
    descriptor: flight.FlightDescriptor,
    reader: flight.MetadataRecordBatchReader,
    writer: flight.MetadataRecordBatchWriter,
) -> None:
    """Answer batches of keys; read the next batch when the answer to the last one is sent (threat T31)."""
    command = lookup_of(descriptor)
    service = service.needing("read")
    num_rows = 0
    call.describe(lambda: {**named(command.dataset), "rows": num_rows})
    caller = call.caller
    with service.admission.lookup(caller):
        incoming = Incoming(reader, service, call.received)
        lookup = service.reads.lookup(command, incoming.schema)
        writer.begin(lookup.schema)
        for keys, metadata in incoming.messages():
            if metadata is not None:
                raise InvalidInputError(
                    "a take over DoExchange receives batches of keys only, found a metadata message"
                )
            if keys is not None:
                service.processors.note_call()
                service.send_rate.wait(caller)
                with lookup.rows(keys) as rows:
                    writer.write_batch(rows)
                    size = num_bytes(rows)
                    call.sent(rows.num_rows, size)
                    num_rows += rows.num_rows
                    service.send_rate.spend(caller, size)
