"""Actions that make and drop datasets."""

from dataclasses import replace
from typing import Any

import pyarrow as pa

from flight_server.handlers.actions.bodies import parse_change
from flight_server.handlers.schema_caps import check_schema
from flight_server.requests.commands import VERSION
from flight_server.requests.json_fields import Checker, base64_bytes, check_fields, parse_object, string
from flight_server.requests.names import DatasetReference, parse_name
from flight_server.requests.write_command import TABLE_FIELDS, WriteCommand, write_target
from flight_server.service import Service
from flight_server.writing.changes import earlier_result
from flight_server.writing.uploads import NoRows
from lance_core.errors import DatasetExistsError, InvalidInputError
from lance_core.maintenance.clone import clone_table


def create_dataset(service: Service, body: bytes) -> dict[str, Any]:
    fields = {"dataset": string, "schema": schema_field, **TABLE_FIELDS}
    values = check_fields("create_dataset", parse_object(body), fields, ("dataset", "schema"))
    target = write_target(parse_name(values.pop("dataset")))
    schema = values.pop("schema")
    written = service.mutations.put(WriteCommand(target, mode="create", **values), NoRows(schema))
    return {"version": written.version}


def shallow_clone(service: Service, body: bytes) -> dict[str, Any]:
    """A repeated transaction finds the dataset that it made."""
    fields: dict[str, Checker] = {"target": string, "version": VERSION, "tag": string}
    reference, values = parse_change("shallow_clone", body, fields, ("target",))
    target = write_target(parse_name(values.pop("target")))
    if target.branch is not None:
        raise InvalidInputError("shallow_clone: the target is a dataset, and no branch of one")
    transaction_id = values.pop("transaction_id", None)
    mutations = service.mutations
    with mutations.opened(DatasetReference(reference.name)), mutations.target(target, creates=True) as made:
        if made.snapshot is None:
            source = service.open(replace(reference, **values))
            version = clone_table(source, made.storage, transaction_id=transaction_id).manifest.version
        else:
            earlier = earlier_result(made.storage, transaction_id, ("clone",))
            if earlier is None:
                raise DatasetExistsError(f"dataset {target.name} exists")
            version = earlier.version
    return {"dataset": target.name, "version": version}


def drop_dataset(service: Service, body: bytes) -> dict[str, Any]:
    fields: dict[str, Checker] = {"dataset": string}
    values = check_fields("drop_dataset", parse_object(body), fields, ("dataset",))
    target = write_target(parse_name(values["dataset"]))
    if target.branch is not None:
        raise InvalidInputError("drop_dataset: a branch is not a dataset")
    service.mutations.drop(target.name)
    return {"dataset": target.name}


def schema_field(field: str, value: Any) -> pa.Schema:
    """Return an IPC message in base64."""
    data = base64_bytes(field, value)
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"{field} is no schema", found=error) from None
    check_schema(schema)
    return schema
