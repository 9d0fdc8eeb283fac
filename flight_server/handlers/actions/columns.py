"""Actions that change columns."""

from typing import Any

from flight_server.handlers.actions.bodies import expressions, parse_change
from flight_server.requests.json_fields import list_of, string
from flight_server.requests.schemas import alteration, schema_field
from flight_server.service import Service
from lance_core.errors import InvalidInputError


def add_columns(service: Service, body: bytes) -> dict[str, Any]:
    fields = {"columns": expressions, "schema": schema_field}
    reference, values = parse_change("add_columns", body, fields)
    transaction_id = values.pop("transaction_id", None)
    if len(values) != 1:
        raise InvalidInputError(
            "add_columns: expected either columns (SQL expressions) or schema (new columns of nulls)"
        )
    add = service.changes.add_null_columns if "schema" in values else service.changes.add_columns
    return {"version": add(reference, *values.values(), transaction_id=transaction_id)}


def drop_columns(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_change("drop_columns", body, {"columns": list_of(string)}, ("columns",))
    return {"version": service.changes.drop_columns(reference, **values)}


def alter_columns(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_change("alter_columns", body, {"columns": list_of(alteration)}, ("columns",))
    transaction_id = values.get("transaction_id")
    version = service.changes.alter_columns(reference, values["columns"], transaction_id=transaction_id)
    return {"version": version}
