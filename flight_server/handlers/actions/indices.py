"""Actions that change indices. This server builds none."""

from typing import Any

from flight_server.handlers.actions.bodies import parse_change
from flight_server.requests.json_fields import string
from flight_server.service import Service


def drop_index(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_change("drop_index", body, {"name": string}, ("name",))
    return {"version": service.changes.drop_index(reference, **values)}
