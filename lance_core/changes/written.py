"""Account of a version: the rows, bytes and fragments that its transaction added."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lance_core.changes.rows.row_change import COUNTS
from lance_core.commit.transaction_lookup import find_committed
from lance_core.storage import Storage
from lance_core.table.manifest import Manifest
from lance_core.table.transaction import read_transaction


@dataclass(frozen=True)
class Written:
    """Version, rows and bytes that a write added.

    Attributes:
        version: The version that the write made.
        rows: Number of rows in new fragments.
        bytes: Size of the new data files, as far as the transaction distinguishes them from others.
        fragments: Number of new fragments.
        counts: Rows that a merge inserted, updated and deleted: `num_inserted_rows` and so on.
    """

    version: int
    rows: int
    bytes: int
    fragments: int
    counts: Mapping[str, int] = field(default_factory=dict)


def written_by(storage: Storage, manifest: Manifest) -> Written:
    """Return what the transaction of a version added; errors are those of `read_transaction`."""
    transaction = read_transaction(storage, manifest)
    operation = transaction.WhichOneof("operation")
    name = {"append": "fragments", "overwrite": "fragments", "update": "new_fragments"}.get(str(operation))
    fragments = getattr(getattr(transaction, operation), name) if name else []
    files = [file for fragment in fragments for file in fragment.files]
    files += [each.new_file for each in transaction.data_replacement.replacements]
    return Written(
        version=manifest.version,
        rows=sum(fragment.physical_rows for fragment in fragments),
        bytes=sum(file.file_size_bytes for file in files),
        fragments=len(fragments),
        counts=json.loads(transaction.transaction_properties.get(COUNTS, "{}")),
    )


def find_written(
    storage: Storage, transaction_id: str | None, operations: Collection[str] | None = None
) -> Written | None:
    """Return the result of the transaction with this id; None if it made no version, or without an id.

    `operations` and errors are those of `find_committed`.
    """
    manifest = None if transaction_id is None else find_committed(storage, transaction_id, operations)
    return None if manifest is None else written_by(storage, manifest)
