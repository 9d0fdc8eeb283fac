"""Actions on staged writes."""

from typing import Any

from flight_server.service import Service
from flight_server.write_command import parse_abort, parse_commit


def commit(service: Service, body: bytes) -> dict[str, Any]:
    return {"version": service.staged.commit(parse_commit(body))}


def abort(service: Service, body: bytes) -> dict[str, Any]:
    return {"removed": service.staged.abort(*parse_abort(body))}
