"""Actions on settings and metadata."""

from typing import Any

from flight_server.handlers.actions.bodies import parse_change, texts
from flight_server.requests.commands import parse_describe
from flight_server.requests.json_fields import boolean
from flight_server.requests.names import shown
from flight_server.service import Service
from lance_core.changes.settings import update_settings
from lance_core.errors import InvalidInputError


def get_config(service: Service, body: bytes) -> dict[str, Any]:
    manifest = service.open(parse_describe(body, "get_config")).manifest
    return {
        "version": manifest.version,
        "config": dict(manifest.config),
        "table_metadata": dict(manifest.table_metadata),
        "schema_metadata": dict(manifest.schema.metadata),
    }


def update_config(service: Service, body: bytes) -> dict[str, Any]:
    maps = ("config", "table_metadata", "schema_metadata")
    fields = {**dict.fromkeys(maps, texts), "field_metadata": _by_field, "replace": boolean}
    reference, values = parse_change("update_config", body, fields)
    if not values.keys() & {*maps, "field_metadata"}:
        raise InvalidInputError(f"update_config: expected one of {', '.join(maps)} and field_metadata")
    with service.mutations.opened(reference) as opened:
        made = update_settings(opened.snapshot, **values)
    return {"version": made.manifest.version}


def _by_field(field: str, value: Any) -> dict[str, dict[str, str | None]]:
    if not isinstance(value, dict):
        raise InvalidInputError(f"{field}: expected an object of objects by the path of a field")
    return {path: texts(f"{field}.{shown(path)}", entries) for path, entries in value.items()}
