"""GetFlightInfo: plan a scan, with one endpoint per range of its rows."""

import json
import struct

import pyarrow as pa
from pyarrow import flight

from flight_server.handlers.call import Call, named
from flight_server.handlers.descriptor import command_of
from flight_server.handlers.rpc import rpc
from flight_server.reading.reads import PlannedScan
from flight_server.service import Service

# "Use the connection you have": last, because clients that connect to the first location cannot connect to
# this one.
REUSE_CONNECTION = flight.Location("arrow-flight-reuse-connection://?")


@rpc
def get_flight_info(service: Service, call: Call, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
    """Plan a scan. Its endpoints name this server and the peers that are ready, best first."""
    command = command_of(descriptor)
    service = service.needing("read")
    call.describe(lambda: named(command.dataset))
    with call.step("plan"):
        planned = service.reads.plan(command, num_servers=service.servers.count)
    call.describe(lambda: {"version": planned.version, "endpoints": len(planned.tickets)})
    expires = expiration_time(planned.expires)
    endpoints = [
        flight.FlightEndpoint(ticket, [*locations, REUSE_CONNECTION], expiration_time=expires)
        for ticket, locations in zip(planned.tickets, _locations(service, planned), strict=True)
    ]
    metadata = {
        "dataset": planned.dataset,
        "version": planned.version,
        "fragments_total": planned.num_fragments,
        "fragments_pruned": planned.num_fragments_pruned,
        "pages_total": planned.num_pages,
        "pages_pruned": planned.num_pages_pruned,
        "statistics": planned.statistics,
    }
    return flight.FlightInfo(
        planned.schema,
        descriptor,
        endpoints,
        total_records=planned.num_rows,
        total_bytes=-1,
        ordered=planned.ordered,
        app_metadata=json.dumps(metadata).encode(),
    )


def _locations(service: Service, planned: PlannedScan) -> list[list[flight.Location]]:
    """Return the locations of each endpoint. Few locations are parsed, however many endpoints there are."""
    parsed: dict[str, flight.Location] = {}
    return [
        [parsed.get(uri) or parsed.setdefault(uri, flight.Location(uri)) for uri in uris]
        for uris in service.servers.of_endpoints(planned.affinities)
    ]


def expiration_time(expires: int) -> pa.TimestampScalar:
    """Return seconds since the epoch as the timestamp of an endpoint."""
    nanoseconds = struct.pack("<q", expires * 10**9)  # `pyarrow.scalar` would import pandas
    return pa.Array.from_buffers(pa.timestamp("ns", tz="UTC"), 1, [None, pa.py_buffer(nanoseconds)])[0]
