"""Drop of columns. Their data stays in the files until a compaction and a cleanup."""

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
    """Drop columns and the indices on them. A dotted path names a child of a struct or a list.

    Raises:
        InvalidInputError: There is no such column, or no column would be left.
        UnsupportedFeatureError: A path names a child of a packed struct or of a blob.
        LanceError: The errors of `commit`.
    """

    def attempt(current: Snapshot) -> Manifest:
        manifest = current.manifest
        schema = without_fields(manifest.schema, columns)
        transaction = project(
            new_transaction(manifest.version, uuid=transaction_id),
            schema,
            preserves_nullability=preserves_nullability(manifest.schema, schema),
        )
        return commit(current.storage, transaction, read=manifest, sync=sync)

    return with_retries(snapshot, attempt, "project", transaction_id=transaction_id)
