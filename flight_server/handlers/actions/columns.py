"""Actions that change columns."""

from typing import Any

import pyarrow as pa

from flight_server.handlers.actions.bodies import expressions, parse_change
from flight_server.handlers.actions.datasets import schema_field
from flight_server.requests.json_fields import Checker, boolean, check_fields, list_of, string
from flight_server.service import Service
from lance_core.changes.columns.add import add_columns as add_with_values
from lance_core.changes.columns.add import add_null_columns
from lance_core.changes.columns.alter import Alteration
from lance_core.changes.columns.alter import alter_columns as alter
from lance_core.changes.columns.column_sources import ExpressionColumns
from lance_core.changes.columns.drop import drop_columns as drop
from lance_core.errors import InvalidInputError
from lance_core.expressions.sql import parse_type


def add_columns(service: Service, body: bytes) -> dict[str, Any]:
    fields = {"columns": expressions, "schema": schema_field}
    reference, values = parse_change("add_columns", body, fields)
    transaction_id = values.pop("transaction_id", None)
    if len(values) != 1:
        raise InvalidInputError("add_columns: expected columns, or the schema of columns of nulls")
    with service.mutations.opened(reference) as opened:
        if "schema" in values:
            made = add_null_columns(opened.snapshot, values["schema"], transaction_id=transaction_id)
        else:
            source = ExpressionColumns(values["columns"])
            made = add_with_values(opened.snapshot, source, transaction_id=transaction_id)
    return {"version": made.manifest.version}


def drop_columns(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_change("drop_columns", body, {"columns": list_of(string)}, ("columns",))
    with service.mutations.opened(reference) as opened:
        made = drop(opened.snapshot, **values)
    return {"version": made.manifest.version}


def alter_columns(service: Service, body: bytes) -> dict[str, Any]:
    fields = {"columns": list_of(_alteration)}
    reference, values = parse_change("alter_columns", body, fields, ("columns",))
    with service.mutations.opened(reference) as opened:
        made = alter(opened.snapshot, values["columns"], transaction_id=values.get("transaction_id"))
    return {"version": made.manifest.version}


def _alteration(field: str, value: Any) -> Alteration:
    fields: dict[str, Checker] = {
        "path": string,
        "name": string,
        "nullable": boolean,
        "data_type": _data_type,
        "schema": schema_field,
    }
    given = check_fields(field, value, fields, ("path",))
    if "schema" in given:  # a type of Arrow, of which SQL names a part only
        schema = given.pop("schema")
        if "data_type" in given or len(schema) != 1:
            raise InvalidInputError(f"{field}: expected a data_type, or the schema of one field of this type")
        given["data_type"] = schema.field(0).type
    return Alteration.parse(given)


def _data_type(field: str, value: Any) -> pa.DataType:
    """Return a type as SQL writes it in a CAST."""
    return parse_type(string(field, value))
