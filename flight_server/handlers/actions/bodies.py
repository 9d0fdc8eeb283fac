"""Common parts of the bodies and answers of actions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flight_server.requests.json_fields import Checker, check_fields, parse_object, string
from flight_server.requests.names import DatasetReference, is_path_component, parse_name, shown
from flight_server.requests.write_command import transaction_id, write_target
from lance_core.errors import InvalidInputError


@dataclass(frozen=True)
class Done:
    """The answer of an action, and facts for its line in the log."""

    answer: dict[str, Any]
    facts: dict[str, object]


def parse_change(
    action: str, body: bytes, fields: Mapping[str, Checker], required: tuple[str, ...] = ()
) -> tuple[DatasetReference, dict[str, Any]]:
    """Return the dataset and branch that an action changes, and the other fields of its body.

    `fields` come beside `dataset`, `branch` and `transaction_id`; InvalidInputError names what is wrong.
    """
    table = {"dataset": string, "branch": string, "transaction_id": transaction_id, **fields}
    values = check_fields(action, parse_object(body), table, ("dataset", *required))
    return write_target(parse_name(values.pop("dataset")), values.pop("branch", None)), values


def parse_refs(
    action: str, body: bytes, fields: Mapping[str, Checker], required: tuple[str, ...] = ()
) -> tuple[DatasetReference, dict[str, Any]]:
    """Return the dataset whose tags or branches an action is about, perhaps with a version, and the other
    fields of the body.
    """
    values = check_fields(action, parse_object(body), {"dataset": string, **fields}, ("dataset", *required))
    return parse_name(values.pop("dataset")), values


def ref_name(field: str, value: Any) -> str:
    """Return the name of a tag (threat T9)."""
    if not is_path_component(string(field, value)):
        raise InvalidInputError(f"{field}: not a valid name of a tag", found=shown(value))
    return str(value)


def branch_name(field: str, value: Any) -> str:
    """Return the name of a branch (threat T9)."""
    if not all(map(is_path_component, string(field, value).split("/"))):
        raise InvalidInputError(f"{field}: not a valid name of a branch", found=shown(value))
    return str(value)


def texts(field: str, value: Any) -> dict[str, str | None]:
    """Return an object of strings and nulls. (A null removes the entry of this name.)"""
    if not isinstance(value, dict):
        raise InvalidInputError(f"{field}: expected an object of strings and nulls")
    return {
        key: None if entry is None else string(f"{field}.{shown(key)}", entry) for key, entry in value.items()
    }


def expressions(field: str, value: Any) -> dict[str, str]:
    """Return an object of SQL expressions by the names of columns."""
    if not isinstance(value, dict) or not value:
        raise InvalidInputError(f"{field}: expected an object of SQL expressions by name")
    return {key: string(f"{field}.{shown(key)}", entry) for key, entry in value.items()}
