"""Actions that change indices. None is built here."""

from typing import Any

from flight_server.handlers.actions.bodies import parse_change
from flight_server.requests.json_fields import string
from flight_server.service import Service
from lance_core.changes.drop_index import drop_index as drop


def drop_index(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_change("drop_index", body, {"name": string}, ("name",))
    with service.mutations.opened(reference) as opened:
        made = drop(opened.snapshot, values["name"], transaction_id=values.get("transaction_id"))
    return {"version": made.manifest.version}
