"""The opening of a version of a dataset on a server."""

from __future__ import annotations

import base64
from datetime import datetime

import pyarrow as pa
from pyarrow import flight

from flight_client.errors import InvalidInputError
from flight_client.network.connection import Connection, to_json
from flight_client.network.connections import Connections
from flight_client.reading.scanner import ReadOptions, Snapshot, Target


def open_snapshot(
    connections: Connections,
    options: ReadOptions,
    name: str,
    version: int | str | None = None,
    *,
    branch: str | None = None,
    asof: str | datetime | None = None,
) -> Snapshot:
    """Return a version of a dataset; arguments and errors are those of `Client.snapshot`."""
    if not isinstance(version, int | str | None) or isinstance(version, bool):
        raise InvalidInputError(f"version: expected a number or a tag, found {version!r}")
    body = {
        "dataset": name,
        "version": version if isinstance(version, int) else None,
        "tag": version if isinstance(version, str) else None,
        "branch": branch,
        "asof": asof,
    }
    described = connections.action("describe", body, repeat=True)
    stored_schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(described["schema"])))
    target = Target(
        described["dataset"], described["version"], described["branch"], described.get("identity")
    )
    schema = _scan_schema(connections, target)
    num_rows = described["rows"]
    # If rows are hidden from the caller, the server counts the others only when it is asked.
    if num_rows < 0:
        num_rows = connections.action("count_rows", target.fields(), repeat=True)["count"]
    num_servers = max(described.get("servers", len(connections.uris)), len(connections.uris))
    return Snapshot(connections, target, schema, stored_schema, num_rows, num_servers, options)


def _scan_schema(connections: Connections, target: Target) -> pa.Schema:
    """Return the schema of a scan of all columns.

    The schema comes from GetFlightInfo, because pyarrow's GetSchema raises other error classes than all other
    calls.
    """
    command = {**target.fields(), "limit": 0}
    descriptor = flight.FlightDescriptor.for_command(to_json({"scan": command}))

    def run(connection: Connection) -> pa.Schema:
        return connection.client.get_flight_info(descriptor, connection.options()).schema

    return connections.call(run)
