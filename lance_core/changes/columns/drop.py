"""A version with fewer columns: their data stays in the files until these are compacted and cleaned up."""

from __future__ import annotations

from collections.abc import Sequence

from lance_core.changes.columns.schema_evolution import preserves_nullability, without_fields
from lance_core.changes.retry import with_retries
from lance_core.commit.commit import commit
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import new_transaction, project


def drop_columns(
    snapshot: Snapshot, columns: Sequence[str], *, transaction_id: str | None = None, sync: bool = True
) -> Snapshot:
    """Remove columns, or children of structs by their dotted paths; indices on them are dropped.

    Raises:
        InvalidInputError: there is no such column, or none would be left.
        UnsupportedFeatureError: a child of a packed struct or of a blob.
        LanceError: as `commit` does.
    """

    def attempt(current: Snapshot) -> Manifest:
        manifest = current.manifest
        schema = without_fields(manifest.schema, columns)
        transaction = project(
            new_transaction(manifest.version, uuid=transaction_id),
            schema,
            preserves_nullability=preserves_nullability(manifest.schema, schema),
        )
        return commit(current.storage, transaction, sync=sync)

    return with_retries(snapshot, attempt, "project", transaction_id=transaction_id)
