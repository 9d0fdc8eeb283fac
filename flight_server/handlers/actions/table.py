"""Actions that read one dataset."""

import base64
from typing import Any

from flight_server.reading.index_facts import index_facts
from flight_server.requests.commands import parse_count, parse_describe, parse_explain
from flight_server.service import Service
from lance_core.scan.validate import validate_snapshot


def describe(service: Service, body: bytes) -> dict[str, Any]:
    described = service.describe(parse_describe(body))
    summary = described.summary
    return {
        "dataset": summary.name,
        "version": summary.version,
        "branch": described.branch,
        "identity": described.identity,
        "schema": base64.b64encode(summary.schema.serialize()).decode(),
        "rows": summary.num_rows,
        "bytes": summary.num_bytes,
        "fragments": len(described.fragment_ids),
        "data_storage_version": described.data_storage_version,
        "indices": [index_facts(index, described.fragment_ids) for index in described.indices],
        "config": described.config,
        "metadata": described.metadata,
        "tags": list(described.tags),
        "branches": list(described.branches),
    }


def list_fragments(service: Service, body: bytes) -> dict[str, Any]:
    manifest = service.open(parse_describe(body, "list_fragments")).manifest
    return {
        "version": manifest.version,
        "fragments": [
            {
                "id": fragment.id,
                "rows": fragment.num_rows,
                "physical_rows": fragment.physical_rows,
                "bytes": sum(sizes) if all(sizes := [file.size for file in fragment.files]) else -1,
            }
            for fragment in manifest.fragments
        ],
    }


def validate(service: Service, body: bytes) -> dict[str, Any]:
    snapshot = service.open(parse_describe(body, "validate"))
    validate_snapshot(snapshot)
    return {"version": snapshot.manifest.version}


def count_rows(service: Service, body: bytes) -> dict[str, Any]:
    return {"count": service.count_rows(parse_count(body))}


def explain_scan(service: Service, body: bytes) -> dict[str, Any]:
    command, analyze = parse_explain(body)
    return service.explain(command, analyze=analyze).as_data()
