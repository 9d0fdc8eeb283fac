"""The actions of DoAction: one JSON object in, one out. The registry is what ListActions tells."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flight_server.handlers.actions import datasets, server, staging, table
from flight_server.service import Service


@dataclass(frozen=True)
class Action:
    """One action: what it does, for ListActions, and how."""

    description: str
    run: Callable[[Service, bytes], dict[str, Any]]


ACTIONS: Mapping[str, Action] = {
    "health": Action(
        "{} -> {status, version, uptime, caches}: whether the server answers",
        server.health,
    ),
    "describe": Action(
        "{dataset, version | tag | asof, branch} -> {dataset, version, schema, rows, bytes, fragments, "
        "data_storage_version, indices, config, metadata, tags, branches}: one version of a "
        "dataset; schema is a base64 IPC message",
        table.describe,
    ),
    "count_rows": Action(
        "{dataset, version | tag | asof, branch, filter | substrait_filter} -> {count}: rows of one version "
        "that pass the filter, all of them without one",
        table.count_rows,
    ),
    "explain_scan": Action(
        "{scan, analyze} -> {columns, filter, limit, offset, rows_returned, statistics, pages_total, "
        "pages_pruned, fragments}: for each fragment and column how many pages a scan reads and how many "
        "statistics rule out; analyze runs it",
        table.explain_scan,
    ),
    "create_dataset": Action(
        "{dataset, schema, data_storage_version, enable_stable_row_ids, transaction_id, properties} -> "
        "{version}: make a dataset without rows; schema is a base64 IPC message",
        datasets.create_dataset,
    ),
    "drop_dataset": Action(
        "{dataset} -> {dataset}: remove a dataset with all its versions, tags and branches",
        datasets.drop_dataset,
    ),
    "commit": Action(
        "{dataset, branch, operation: append | overwrite, staged: [receipt], read_version, transaction_id, "
        "properties} -> {version}: make one version of what was staged with DoPut, all of it or none",
        staging.commit,
    ),
    "abort": Action(
        "{dataset, branch, staged: [receipt]} -> {removed}: remove what was staged; receipts that are not "
        "there are no error",
        staging.abort,
    ),
}
