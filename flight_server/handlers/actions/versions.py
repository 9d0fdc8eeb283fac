"""Actions on the versions of a dataset."""

import base64
from collections.abc import Iterable
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from flight_server.handlers.actions.bodies import parse_change
from flight_server.reading.reads import PlannedScan
from flight_server.requests.commands import VERSION
from flight_server.requests.json_fields import boolean, check_fields, integer, list_of, parse_object, string
from flight_server.requests.names import parse_name
from flight_server.requests.write_command import write_target
from flight_server.service import Service
from lance_core.errors import InvalidInputError

_DEFAULT_AGE = timedelta(days=14)
_MAXIMUM_AGE_SECONDS = 100 * 365 * 24 * 3600


def list_versions(service: Service, body: bytes) -> dict[str, Any]:
    fields = {
        "dataset": string,
        "branch": string,
        "limit": integer(1),
        "from_version": VERSION,
        "to_version": VERSION,
        "rows": boolean,
    }
    values = check_fields("list_versions", parse_object(body), fields, ("dataset",))
    reference = write_target(parse_name(values["dataset"]), values.get("branch"))
    chosen = {"from_version": "first", "to_version": "last", "limit": "limit", "rows": "with_effects"}
    given = {argument: values[field] for field, argument in chosen.items() if field in values}
    answer = []
    for entry in service.datasets.versions(reference, **given):
        shown = {
            "version": entry.version,
            "timestamp": entry.timestamp.isoformat(),
            "identity": entry.identity,
            "metadata": entry.metadata,
        }
        answer.append(shown | asdict(entry.effect) if entry.effect else shown)
    return {"versions": answer}


def find_transaction(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_change("find_transaction", body, {}, ("transaction_id",))
    made = service.datasets.find_transaction(reference, values["transaction_id"])
    if made is None:
        return {"version": None}
    return {"version": made.version, "rows": made.rows, "bytes": made.bytes, "fragments": made.fragments}


def restore(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_change("restore", body, {"version": VERSION}, ("version",))
    return {"version": service.changes.restore(reference, **values)}


def cleanup(service: Service, body: bytes) -> dict[str, Any]:
    fields = {
        "older_than_seconds": integer(0, _MAXIMUM_AGE_SECONDS),
        "retain_versions": integer(1),
        "versions": list_of(VERSION),
        "delete_unverified": boolean,
        "error_if_tagged_old_versions": boolean,
        "dry_run": boolean,
    }
    reference, values = parse_change("cleanup", body, fields)
    if values.pop("transaction_id", None) is not None:
        raise InvalidInputError(
            "cleanup: the field transaction_id is not allowed, because the action commits nothing"
        )
    dry_run = values.pop("dry_run", False)
    seconds = values.pop("older_than_seconds", None)
    if seconds is not None:
        values["older_than"] = timedelta(seconds=seconds)
    elif not values.keys() & {"retain_versions", "versions"}:
        values["older_than"] = _DEFAULT_AGE
    return service.upkeep.clean_up(reference, values, dry_run=dry_run)


def changes(service: Service, body: bytes) -> dict[str, Any]:
    fields = {"dataset": string, "branch": string, "from_version": VERSION, "to_version": VERSION}
    values = check_fields("changes", parse_object(body), fields, ("dataset", "from_version", "to_version"))
    reference = write_target(parse_name(values["dataset"]), values.get("branch"))
    begin, end = values["from_version"], values["to_version"]
    planned = service.reads.differences(reference, begin, end)
    return {
        "from_version": begin,
        "to_version": end,
        "inserted": _endpoints([planned.inserted]),
        "updated": _endpoints([planned.updated]),
        "deleted": _endpoints(planned.deleted),
    }


def _endpoints(plans: Iterable[PlannedScan]) -> list[dict[str, Any]]:
    """Return tickets for DoGet; `rows` is -1 if a filter decides about the rows of a ticket."""
    return [
        {
            "ticket": base64.b64encode(ticket).decode(),
            "expires": plan.expires,
            "rows": plan.num_rows if len(plan.tickets) == 1 else -1,
        }
        for plan in plans
        if plan.num_rows
        for ticket in plan.tickets
    ]
