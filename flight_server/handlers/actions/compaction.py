"""Actions that compact: all at once, or in steps that a cluster can share."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from flight_server.handlers.actions.bodies import parse_change
from flight_server.requests.json_fields import (
    Checker,
    boolean,
    check_fields,
    integer,
    list_of,
    number,
    string,
)
from flight_server.requests.write_command import receipts
from flight_server.service import Service
from lance_core.errors import InvalidInputError

_MAXIMUM_THREADS = 64


def compact(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_change("compact", body, {"options": _options})
    options, transaction_id = values.get("options", {}), values.get("transaction_id")
    version, metrics = service.upkeep.compact(reference, options, transaction_id=transaction_id)
    return {"version": version, **asdict(metrics)}


def compact_plan(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = _step("compact_plan", body, {"options": _options})
    return asdict(service.upkeep.plan_compaction(reference, values.get("options", {})))


def compact_execute(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = _step("compact_execute", body, {"task": string}, ("task",))
    receipt, metrics = service.staged.execute(reference, values["task"])
    counts = asdict(metrics)
    for name in ("lost_coverage", "index_coverage"):  # known to the commit only
        del counts[name]
    return {"receipt": receipt, **counts}


def compact_commit(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_change("compact_commit", body, {"receipts": receipts}, ("receipts",))
    version, report = service.upkeep.commit_compaction(reference, **values)
    return {"version": version, **asdict(report)}


def _step(
    action: str, body: bytes, fields: Mapping[str, Checker], required: tuple[str, ...] = ()
) -> tuple[Any, dict[str, Any]]:
    """Return the dataset and the other fields of a step that commits nothing; refuse a transaction id."""
    reference, values = parse_change(action, body, fields, required)
    if "transaction_id" in values:
        raise InvalidInputError(
            f"{action}: the field transaction_id is not allowed, because the action commits nothing"
        )
    return reference, values


_OPTIONS: Mapping[str, Checker] = {
    "target_rows_per_fragment": integer(0),
    "max_rows_per_group": integer(1),
    "max_bytes_per_file": integer(1),
    "materialize_deletions": boolean,
    "materialize_deletions_threshold": number,
    "defer_index_remap": boolean,
    "num_threads": integer(0, _MAXIMUM_THREADS),
    "batch_size": integer(1),
    "compaction_mode": string,
    "max_source_fragments": integer(1),
    "max_source_rows": integer(1),
    "max_source_bytes": integer(1),
    "excluded_fragment_ids": list_of(integer()),
    "data_storage_version": string,
}


def _options(field: str, value: Any) -> dict[str, Any]:
    return check_fields(field, value, _OPTIONS, required=())
