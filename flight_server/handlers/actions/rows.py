"""Actions that change rows."""

from dataclasses import asdict
from typing import Any

from flight_server.handlers.actions.bodies import expressions, parse_change
from flight_server.requests.json_fields import string
from flight_server.service import Service


def delete(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_change("delete", body, {"predicate": string}, ("predicate",))
    return asdict(service.changes.delete(reference, **values))


def update(service: Service, body: bytes) -> dict[str, Any]:
    fields = {"updates": expressions, "where": string}
    reference, values = parse_change("update", body, fields, ("updates",))
    return asdict(service.changes.update(reference, **values))
