"""DoExchange: batches of keys or of queries in, for each of them one batch of rows out."""

from pyarrow import flight

from flight_server.handlers.call import Call, named
from flight_server.handlers.descriptor import exchange_of
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
    """Answer batches; read the next one when the answer to the last one is sent (threat T31)."""
    command = exchange_of(descriptor)
    service = service.needing("read")
    num_rows = 0
    call.describe(lambda: {**named(command.dataset), "rows": num_rows})
    caller = call.caller
    client = call.reader()
    admission = service.admission
    with admission.exchange(caller):
        incoming = Incoming(reader, service, call.received)
        with admission.lookup(caller):
            exchange = service.reads.exchange(command, incoming.schema)
        writer.begin(exchange.schema)
        for asked, metadata in incoming.messages(are_questions=True):
            if metadata is not None:
                raise InvalidInputError("a DoExchange receives batches only, found a metadata message")
            if asked is not None:
                service.processors.note_call()
                service.send_rate.wait(caller)
                with admission.question(caller), client.waiting(), exchange.rows(asked) as rows:
                    writer.write_batch(rows)
                    size = num_bytes(rows)
                    call.sent(rows.num_rows, size)
                    num_rows += rows.num_rows
                    service.send_rate.spend(caller, size)
                if incoming.is_half_used:
                    return  # between two questions: the client misses nothing when it opens another stream
