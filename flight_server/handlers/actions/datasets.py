"""Actions that make and drop datasets."""

from dataclasses import replace
from typing import Any

from flight_server.handlers.actions.bodies import parse_change
from flight_server.requests.commands import VERSION
from flight_server.requests.json_fields import Checker, check_fields, parse_object, string
from flight_server.requests.names import parse_name
from flight_server.requests.schemas import schema_field
from flight_server.requests.write_command import TABLE_FIELDS, WriteCommand, write_target
from flight_server.service import Service
from lance_core.errors import InvalidInputError


def create_dataset(service: Service, body: bytes) -> dict[str, Any]:
    fields = {"dataset": string, "schema": schema_field, **TABLE_FIELDS}
    values = check_fields("create_dataset", parse_object(body), fields, ("dataset", "schema"))
    target = write_target(parse_name(values.pop("dataset")))
    schema = values.pop("schema")
    return {"version": service.changes.create(WriteCommand(target, mode="create", **values), schema)}


def shallow_clone(service: Service, body: bytes) -> dict[str, Any]:
    """Make a dataset that begins with a version of another one.

    A repeated transaction id returns the dataset that it made.
    """
    fields: dict[str, Checker] = {"target": string, "version": VERSION, "tag": string}
    reference, values = parse_change("shallow_clone", body, fields, ("target",))
    target = write_target(parse_name(values.pop("target")))
    if target.branch is not None:
        raise InvalidInputError("shallow_clone: target: expected the name of a dataset, found a branch")
    transaction_id = values.pop("transaction_id", None)
    version = service.changes.clone(replace(reference, **values), target, transaction_id=transaction_id)
    return {"dataset": target.name, "version": version}


def drop_dataset(service: Service, body: bytes) -> dict[str, Any]:
    fields: dict[str, Checker] = {"dataset": string}
    values = check_fields("drop_dataset", parse_object(body), fields, ("dataset",))
    target = write_target(parse_name(values["dataset"]))
    if target.branch is not None:
        raise InvalidInputError(
            "drop_dataset: expected the name of a dataset, found a branch; delete_branch deletes a branch"
        )
    service.changes.drop(target.name)
    return {"dataset": target.name}
