"""Writes of several streams as one version: data files are staged, then committed by their receipts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa

from flight_client.errors import CommitUnknownError, InternalError, LanceError, UnavailableError
from flight_client.network.connections import Connections
from flight_client.progress import Progress
from flight_client.writing.upload import UploadMode, upload

_OF_COMMIT = {"branch", "transaction_id", "properties", "read_version", "stream"}
"""Fields of the commit. The other fields belong to the uploads, and the branch to both."""

_UNKNOWN = (CommitUnknownError, InternalError, UnavailableError)
"""Errors after which a commit may have landed."""


@dataclass(frozen=True)
class WriteResult:
    """Result of a write: the new version, and what the write added."""

    version: int
    rows: int
    bytes: int
    """Size of the new data files."""
    fragments: int
    """Number of new fragments."""


@dataclass(frozen=True)
class MergeResult(WriteResult):
    """Result of a merge: the new version, and the numbers of changed rows."""

    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int


def stage(
    connections: Connections,
    name: str,
    data: Any,
    mode: UploadMode,
    *,
    schema: pa.Schema | None,
    fields: Mapping[str, Any],
) -> list[str]:
    """Stage rows for a later commit, and return the receipts of their data files."""
    staged = {**fields, "stage": True}
    answer = upload(connections, name, data, mode, schema=schema, progress=False, fields=staged)
    return list(answer["staged"])


def commit(
    connections: Connections, name: str, receipts: Sequence[str], operation: UploadMode, **fields: Any
) -> int:
    """Make one version of receipts, and return its number. The same `transaction_id` commits once."""
    body = {"transaction_id": str(uuid4()), **fields, "dataset": name, "operation": operation}
    answer = connections.action("commit", {**body, "staged": list(receipts)}, repeat=True)
    return int(answer["version"])


def write_in_parallel(
    connections: Connections,
    name: str,
    table: pa.Table,
    mode: UploadMode,
    parallel: int,
    fields: Mapping[str, Any],
    bar: Progress,
) -> int:
    """Stage slices of a table in several streams, commit them in order, and return the new version.

    The bar counts the rows of staged slices.

    Raises:
        LanceError: the server reported an error. The staged data is removed, unless the result of the commit
            is unknown.
    """
    of_commit = {key: value for key, value in fields.items() if key in _OF_COMMIT}
    of_stage = {key: value for key, value in fields.items() if key not in _OF_COMMIT - {"branch"}}
    size = max(1, -(-table.num_rows // parallel))
    parts = [table.slice(start, size) for start in range(0, max(table.num_rows, 1), size)]
    with ThreadPoolExecutor(parallel) as pool:
        uploads = [
            pool.submit(stage, connections, name, part, mode, schema=None, fields=of_stage) for part in parts
        ]
        rows = {future: part.num_rows for future, part in zip(uploads, parts, strict=True)}
        for future in as_completed(uploads):
            bar.add(rows[future])
    receipts = [receipt for future in uploads if future.exception() is None for receipt in future.result()]
    try:
        for future in uploads:
            future.result()
        return commit(connections, name, receipts, mode, **of_commit)
    except _UNKNOWN:
        raise
    except LanceError:
        with suppress(LanceError):  # the server removes the data later, when it expires
            abort(connections, name, receipts, fields.get("branch"))
        raise


def abort(connections: Connections, name: str, receipts: Sequence[str], branch: str | None = None) -> int:
    """Remove staged rows, and return the number of receipts."""
    body = {"dataset": name, "branch": branch, "staged": list(receipts)}
    return int(connections.action("abort", body, repeat=True)["removed"])
