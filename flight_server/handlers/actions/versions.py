"""Actions on the versions of a dataset."""

import base64
import sys
from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

from flight_server.handlers.actions.bodies import parse_change
from flight_server.reading.changes import change_commands
from flight_server.requests.commands import VERSION
from flight_server.requests.json_fields import boolean, check_fields, integer, list_of, parse_object, string
from flight_server.requests.names import parse_name
from flight_server.requests.write_command import write_target
from flight_server.service import PlannedScan, Service
from flight_server.writing.changes import earlier_result
from flight_server.writing.staging import Staging
from lance_core.api.history import summarize_version
from lance_core.changes.settings import restore_version
from lance_core.errors import CommitConflictError, InvalidInputError, VersionNotFoundError
from lance_core.maintenance.cleanup import CleanupPolicy, clean_up, explain_cleanup
from lance_core.pool import map_ahead
from lance_core.scan.changes import Effect, effect_on_rows
from lance_core.storage import Storage
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import open_snapshot
from lance_core.table.transaction import read_transaction
from lance_core.table.versions import list_versions as version_numbers

_DEFAULT_AGE = timedelta(days=14)
_MAXIMUM_AGE_SECONDS = 100 * 365 * 24 * 3600
_MAXIMUM_NAMED_FILES = 10_000


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
    storage = service.open(reference).storage
    first, last = values.get("from_version", 0), values.get("to_version", sys.maxsize)
    all_numbers = version_numbers(storage)
    numbers = [number for number in all_numbers if first <= number <= last][-values.get("limit", 0) :]

    def read(number: int) -> Manifest | None:
        try:
            return open_snapshot(storage, number).manifest
        except VersionNotFoundError:  # cleaned up since it was listed
            return None

    answer = []
    before: Manifest | None = None
    for manifest in map_ahead(read, numbers, storage.is_remote):
        if manifest is not None:
            entry = {
                "version": manifest.version,
                "timestamp": manifest.timestamp.isoformat(),
                "identity": manifest.identity,
                "metadata": summarize_version(manifest),
            }
            if values.get("rows") and before is not None and before.version == manifest.version - 1:
                entry |= _rows(storage, before, manifest)
            answer.append(entry)
        before = manifest
    return {"versions": answer}


def _rows(storage: Storage, before: Manifest, manifest: Manifest) -> dict[str, Any]:
    """Return the effect of a version on the rows of the version before, and the added fragments with their
    rows.
    """
    try:
        effect: Effect = effect_on_rows(read_transaction(storage, manifest))
    except CommitConflictError:  # made by a library that wrote no transactions
        effect = "changed"
    known = set(before.fragment_ids)
    new = [[each.id, each.num_rows] for each in manifest.fragments if each.id not in known]
    return {"rows": effect, "new_fragments": new}


def find_transaction(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_change("find_transaction", body, {}, ("transaction_id",))
    made = earlier_result(service.open(reference).storage, values["transaction_id"])
    if made is None:
        return {"version": None}
    return {"version": made.version, "rows": made.rows, "bytes": made.bytes, "fragments": made.fragments}


def restore(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_change("restore", body, {"version": VERSION}, ("version",))
    with service.mutations.opened(reference):
        older = service.open(replace(reference, version=values["version"]))
        made = restore_version(older, transaction_id=values.get("transaction_id"))
    return {"version": made.manifest.version}


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
        raise InvalidInputError("cleanup: makes no transaction, and has no transaction_id")
    dry_run = values.pop("dry_run", False)
    seconds = values.pop("older_than_seconds", None)
    if seconds is not None:
        values["older_than"] = timedelta(seconds=seconds)
    elif not values.keys() & {"retain_versions", "versions"}:
        values["older_than"] = _DEFAULT_AGE
    policy = CleanupPolicy(**values)
    with service.mutations.opened(reference) as opened:
        if policy.delete_unverified and Staging(opened.root).has_any():
            raise InvalidInputError("cleanup: delete_unverified would remove files of staged writes")
        if not dry_run:
            return asdict(clean_up(opened.snapshot, opened.root, policy))
        explained = explain_cleanup(
            opened.snapshot, opened.root, policy, include_files=True, max_files=_MAXIMUM_NAMED_FILES
        )
    return asdict(explained.stats) | {
        "files": [file.path for file in explained.candidate_files],
        "files_truncated": explained.candidate_files_truncated,
    }


def changes(service: Service, body: bytes) -> dict[str, Any]:
    fields = {"dataset": string, "branch": string, "from_version": VERSION, "to_version": VERSION}
    values = check_fields("changes", parse_object(body), fields, ("dataset", "from_version", "to_version"))
    reference = write_target(parse_name(values["dataset"]), values.get("branch"))
    begin, end = values["from_version"], values["to_version"]
    commands = change_commands(reference, begin, end, service.open)
    return {
        "from_version": begin,
        "to_version": end,
        "inserted": _endpoints([service.plan(commands.inserted)]),
        "updated": _endpoints([service.plan(commands.updated)]),
        "deleted": _endpoints(map(service.plan, commands.deleted)),
    }


def _endpoints(plans: Iterable[PlannedScan]) -> list[dict[str, Any]]:
    """Tickets for DoGet; `rows` is -1 where a filter is asked first."""
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
