"""Actions that change rows."""

from typing import Any

from flight_server.handlers.actions.bodies import expressions, parse_change
from flight_server.requests.json_fields import string
from flight_server.service import Service
from lance_core.changes.rows.delete import delete as delete_rows
from lance_core.changes.rows.update import update as update_rows


def delete(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_change("delete", body, {"predicate": string}, ("predicate",))
    with service.mutations.opened(reference) as opened:
        made, rows = delete_rows(opened.snapshot, **values)
    return {"version": made.manifest.version, "rows": rows}


def update(service: Service, body: bytes) -> dict[str, Any]:
    fields = {"updates": expressions, "where": string}
    reference, values = parse_change("update", body, fields, ("updates",))
    with service.mutations.opened(reference) as opened:
        made, rows = update_rows(opened.snapshot, **values)
    return {"version": made.manifest.version, "rows": rows}
