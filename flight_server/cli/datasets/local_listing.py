"""The datasets below a local directory, listed as a server lists them."""

import secrets
from collections.abc import Iterator
from typing import Any

from flight_server.service import Service
from flight_server.settings import Settings


def list_datasets(root: str, pattern: str) -> Iterator[dict[str, Any]]:
    """Yield the facts of every dataset whose name fits a glob, or the error of one that cannot be read."""
    # No ticket is signed. With a key of its own, the service leaves no file in the directory.
    settings = Settings.resolve(root, {"signing_key": secrets.token_hex()}, environment={})
    for summary in Service(settings).datasets.summaries(pattern):
        if summary.error is not None:
            yield {"dataset": summary.name, "error": summary.error}
        else:
            yield {
                "dataset": summary.name,
                "version": summary.version,
                "rows": summary.num_rows,
                "bytes": summary.num_bytes,
                "columns": len(summary.schema),
            }
