"""Actions on indices: building, dropping, extending, and facts about them."""

from typing import Any

from flight_server.handlers.actions.bodies import parse_change, parse_refs
from flight_server.requests.json_fields import Checker, boolean, integer, integers, list_of, string
from flight_server.requests.write_command import CommitCommand, receipt, receipts
from flight_server.service import Service
from lance_core.errors import InvalidInputError


def create_index(service: Service, body: bytes) -> dict[str, Any]:
    fields: dict[str, Checker] = {
        "columns": list_of(string),
        "index_type": string,
        "name": string,
        "replace": boolean,
        "train": boolean,
        "parameters": _parameters,
        "fragment_ids": integers(),
        "model": receipt,
    }
    reference, values = parse_change("create_index", body, fields, ("columns", "index_type"))
    column = _only_column("create_index", values.pop("columns"))
    if "fragment_ids" not in values:
        if "model" in values:
            raise InvalidInputError("create_index: model is for a segment, which needs fragment_ids")
        return {"version": service.changes.create_index(reference, column, **values)}
    for name in ("replace", "train", "transaction_id"):
        if name in values:
            raise InvalidInputError(f"create_index: {name} is not allowed with fragment_ids")
    return {"receipt": service.staged.build_segment(reference, column, **values)}


def train_index(service: Service, body: bytes) -> dict[str, Any]:
    fields: dict[str, Checker] = {
        "columns": list_of(string),
        "index_type": string,
        "parameters": _parameters,
        "fragment_ids": integers(),
    }
    reference, values = parse_change("train_index", body, fields, ("columns", "index_type"))
    if "transaction_id" in values:
        raise InvalidInputError("train_index: transaction_id is not allowed, it makes no version")
    column = _only_column("train_index", values.pop("columns"))
    return {"receipt": service.staged.train_index(reference, column, **values)}


def commit_index(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_change("commit_index", body, {"receipts": receipts}, ("receipts",))
    transaction_id = values.get("transaction_id")
    command = CommitCommand(
        reference, "create_index", tuple(values["receipts"]), transaction_id=transaction_id
    )
    return {"version": service.staged.commit(command).version}


def drop_index(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_change("drop_index", body, {"name": string}, ("name",))
    return {"version": service.changes.drop_index(reference, **values)}


def optimize_indices(service: Service, body: bytes) -> dict[str, Any]:
    fields: dict[str, Checker] = {
        "num_indices_to_merge": integer(),
        "index_names": list_of(string),
        "retrain": boolean,
    }
    reference, values = parse_change("optimize_indices", body, fields)
    return {"version": service.changes.optimize_indices(reference, **values)}


def index_statistics(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_refs("index_statistics", body, {"name": string}, ("name",))
    return service.datasets.index_statistics(reference, **values)


def prewarm_index(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_refs("prewarm_index", body, {"name": string}, ("name",))
    return {"version": service.datasets.prewarm_index(reference, **values)}


def _only_column(action: str, columns: tuple[str, ...]) -> str:
    """Return the column of an index; InvalidInputError if there is not exactly one."""
    if len(columns) != 1:
        raise InvalidInputError(f"{action}.columns", expected="one column", found=len(columns))
    return columns[0]


def _parameters(field: str, value: Any) -> dict[str, Any]:
    """Return the options of a kind of index, which the kind checks."""
    if not isinstance(value, dict):
        raise InvalidInputError(f"{field}: expected an object of options by name")
    return value
