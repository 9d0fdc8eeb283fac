"""Actions that read one dataset."""

import base64
from dataclasses import asdict
from typing import Any

from flight_server.commands import parse_describe
from flight_server.service import Service


def describe(service: Service, body: bytes) -> dict[str, Any]:
    described = service.describe(parse_describe(body))
    summary = described.summary
    return {
        "dataset": summary.name,
        "version": summary.version,
        "schema": base64.b64encode(summary.schema.serialize()).decode(),
        "rows": summary.num_rows,
        "bytes": summary.num_bytes,
        "fragments": described.num_fragments,
        "data_storage_version": described.data_storage_version,
        "indices": [asdict(index) for index in described.indices],
        "config": described.config,
        "metadata": described.metadata,
        "tags": list(described.tags),
        "branches": list(described.branches),
    }
