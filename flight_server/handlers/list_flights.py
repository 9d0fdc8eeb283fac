"""ListFlights: the datasets, from manifests alone."""

import json
from collections.abc import Iterator

from pyarrow import flight

from flight_server.handlers.call import Call
from flight_server.handlers.rpc import rpc
from flight_server.reading.datasets import DatasetSummary
from flight_server.requests.names import MAXIMUM_NAME_CHARACTERS
from flight_server.service import Service
from lance_core.errors import InvalidInputError


@rpc
def list_flights(service: Service, call: Call, criteria: bytes) -> Iterator[flight.FlightInfo]:
    """Yield the datasets whose names match the glob `criteria`, all if it is empty."""
    if len(criteria) > MAXIMUM_NAME_CHARACTERS:
        raise InvalidInputError(f"criteria of {len(criteria)} bytes; at most {MAXIMUM_NAME_CHARACTERS}")
    try:
        pattern = criteria.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInputError("the criteria are not UTF-8") from None
    for summary in service.needing("list").datasets.summaries(pattern):
        if call.is_cancelled():
            return
        yield _flight_info(summary)


def _flight_info(summary: DatasetSummary) -> flight.FlightInfo:
    known = {"version": summary.version} if summary.error is None else {"error": summary.error}
    return flight.FlightInfo(
        summary.schema,
        flight.FlightDescriptor.for_path(*summary.name.split("/")),
        [],
        total_records=summary.num_rows,
        total_bytes=summary.num_bytes,
        app_metadata=json.dumps({"dataset": summary.name, **known}).encode(),
    )
