"""Actions that make and drop datasets."""

from typing import Any

import pyarrow as pa

from flight_server.handlers.schema_caps import check_schema
from flight_server.json_fields import Checker, base64_bytes, check_fields, parse_object, string
from flight_server.mutations import NoRows
from flight_server.names import parse_name
from flight_server.service import Service
from flight_server.write_command import TABLE_FIELDS, WriteCommand, write_target
from lance_core.errors import InvalidInputError


def create_dataset(service: Service, body: bytes) -> dict[str, Any]:
    fields = {"dataset": string, "schema": schema_field, **TABLE_FIELDS}
    values = check_fields("create_dataset", parse_object(body), fields, ("dataset", "schema"))
    target = write_target(parse_name(values.pop("dataset")))
    schema = values.pop("schema")
    written = service.mutations.put(WriteCommand(target, mode="create", **values), NoRows(schema))
    return {"version": written.version}


def drop_dataset(service: Service, body: bytes) -> dict[str, Any]:
    fields: dict[str, Checker] = {"dataset": string}
    values = check_fields("drop_dataset", parse_object(body), fields, ("dataset",))
    target = write_target(parse_name(values["dataset"]))
    if target.branch is not None:
        raise InvalidInputError("drop_dataset: a branch is not a dataset")
    service.mutations.drop(target.name)
    return {"dataset": target.name}


def schema_field(field: str, value: Any) -> pa.Schema:
    """An IPC message in base64."""
    data = base64_bytes(field, value)
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"{field} is no schema", found=error) from None
    check_schema(schema)
    return schema
