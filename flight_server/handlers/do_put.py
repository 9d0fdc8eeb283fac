"""DoPut: batches into a dataset."""

from dataclasses import asdict

from pyarrow import flight

from flight_server.handlers.call import Call, named
from flight_server.handlers.descriptor import write_of
from flight_server.handlers.incoming import Incoming
from flight_server.handlers.rpc import rpc
from flight_server.handlers.upload import Upload
from flight_server.rights.needed import rights_to
from flight_server.service import Service


@rpc
def do_put(
    service: Service,
    call: Call,
    descriptor: flight.FlightDescriptor,
    reader: flight.MetadataRecordBatchReader,
    writer: flight.FlightMetadataWriter,
) -> None:
    command = write_of(descriptor)
    service = service.needing(*rights_to(command.mode))
    call.describe(lambda: {**named(command.dataset), "operation": command.mode})
    with service.admission.put(call.caller):
        upload = Upload(
            Incoming(reader, service, call.received),
            writer,
            is_cancelled=call.is_cancelled,
            needs_finish=command.needs_finish or not service.settings.allow_unfinished_append,
            report_bytes=command.report_bytes,
        )
        if command.report_bytes is not None:  # a client that reads reports waits for this before its rows
            upload.tell_progress()
        received = upload.received
        call.describe(lambda: {"rows": received.rows, "bytes": received.bytes})
        if command.stage:
            receipt = service.staged.stage(command, upload)
            call.describe(lambda: {"staged": True})
            call.staged()
            upload.tell({"staged": [receipt]})
        else:
            written = asdict(service.changes.put(command, upload))
            counts = written.pop("counts")
            result = written | counts
            call.changed(result)
            upload.tell({"result": result})
