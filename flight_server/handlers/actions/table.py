"""Actions that read one dataset."""

import base64
from typing import Any

from flight_server.reading.index_facts import index_facts
from flight_server.requests.commands import parse_count, parse_describe, parse_explain
from flight_server.service import Service


def describe(service: Service, body: bytes) -> dict[str, Any]:
    described = service.datasets.describe(parse_describe(body))
    summary = described.summary
    return {
        "dataset": summary.name,
        "version": summary.version,
        "branch": described.branch,
        "identity": described.identity,
        "schema": base64.b64encode(summary.schema.serialize()).decode(),
        "rows": summary.num_rows,
        "bytes": summary.num_bytes,
        "fragments": -1 if described.fragment_ids is None else len(described.fragment_ids),
        "data_storage_version": described.data_storage_version,
        "indices": [index_facts(index, described.fragment_ids or frozenset()) for index in described.indices],
        "config": described.config,
        "metadata": described.metadata,
        "tags": list(described.tags),
        "branches": list(described.branches),
        "servers": service.servers.count,
    }


def list_fragments(service: Service, body: bytes) -> dict[str, Any]:
    version, fragments = service.datasets.fragments(parse_describe(body, "list_fragments"))
    return {
        "version": version,
        "fragments": [
            {
                "id": fragment.id,
                "rows": fragment.num_rows,
                "physical_rows": fragment.physical_rows,
                "bytes": fragment.num_bytes,
            }
            for fragment in fragments
        ],
    }


def validate(service: Service, body: bytes) -> dict[str, Any]:
    return {"version": service.datasets.validate(parse_describe(body, "validate"))}


def count_rows(service: Service, body: bytes) -> dict[str, Any]:
    return {"count": service.reads.count(parse_count(body))}


def explain_scan(service: Service, body: bytes) -> dict[str, Any]:
    command, analyze = parse_explain(body)
    return service.reads.explain(command, analyze=analyze).as_data()
