"""Actions on settings and metadata."""

from dataclasses import asdict
from typing import Any

from flight_server.handlers.actions.bodies import parse_change, texts
from flight_server.requests.commands import parse_describe
from flight_server.requests.json_fields import boolean
from flight_server.requests.names import shown
from flight_server.service import Service
from lance_core.errors import InvalidInputError


def get_config(service: Service, body: bytes) -> dict[str, Any]:
    return asdict(service.datasets.settings(parse_describe(body, "get_config")))


def update_config(service: Service, body: bytes) -> dict[str, Any]:
    maps = ("config", "table_metadata", "schema_metadata")
    fields = {**dict.fromkeys(maps, texts), "field_metadata": _by_field, "replace": boolean}
    reference, values = parse_change("update_config", body, fields)
    if not values.keys() & {*maps, "field_metadata"}:
        raise InvalidInputError(f"update_config: expected one of {', '.join(maps)} and field_metadata")
    return {"version": service.changes.update_settings(reference, **values)}


def _by_field(field: str, value: Any) -> dict[str, dict[str, str | None]]:
    if not isinstance(value, dict):
        raise InvalidInputError(f"{field}: expected an object of objects by the path of a field")
    return {path: texts(f"{field}.{shown(path)}", entries) for path, entries in value.items()}
