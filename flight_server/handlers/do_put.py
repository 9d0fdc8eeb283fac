"""DoPut: batches into a dataset."""

from dataclasses import asdict

from pyarrow import flight

from flight_server.handlers.descriptor import write_of
from flight_server.handlers.incoming import Incoming
from flight_server.handlers.rpc import rpc
from flight_server.handlers.upload import Upload
from flight_server.service import Service


@rpc
def do_put(
    service: Service,
    context: flight.ServerCallContext,
    descriptor: flight.FlightDescriptor,
    reader: flight.MetadataRecordBatchReader,
    writer: flight.FlightMetadataWriter,
) -> None:
    command = write_of(descriptor)
    with service.admission.put():
        upload = Upload(
            Incoming(reader, service.settings, service.admission.check_stream, service.allocator),
            writer,
            is_cancelled=context.is_cancelled,
            needs_finish=command.needs_finish or not service.settings.allow_unfinished_append,
            report_bytes=command.report_bytes,
        )
        if command.stage:
            upload.tell({"staged": [service.staged.stage(command, upload)]})
        else:
            written = asdict(service.mutations.put(command, upload))
            counts = written.pop("counts")
            upload.tell({"result": written | counts})
