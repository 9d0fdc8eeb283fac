"""Drop of an index: the manifest loses its segments. Its files stay for older versions until a cleanup."""

from __future__ import annotations

from lance_core.changes.retry import with_retries
from lance_core.commit.commit import commit
from lance_core.commit.index_section import index_entries
from lance_core.errors import IndexNotFoundError, UnsupportedFeatureError
from lance_core.table.fragment_reuse import FRAGMENT_REUSE
from lance_core.table.indices import MEM_WAL
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import create_index, new_transaction


def drop_index(
    snapshot: Snapshot, name: str, *, transaction_id: str | None = None, sync: bool = True
) -> Snapshot:
    """Make a version without any segment of an index.

    Args:
        snapshot: The opened version.
        name: Name of the index, not of a column.
        transaction_id: UUID of the transaction. Repeating it gives the first result.
        sync: Make the version durable before returning.

    Raises:
        IndexNotFoundError: There is no such index.
        UnsupportedFeatureError: The index belongs to the system: rows or other indices depend on it.
        CommitConflictError: Another commit is in conflict with this one.
        CommitUnknownError: The storage did not tell whether the version was made.
    """
    if name in (FRAGMENT_REUSE, MEM_WAL):
        raise UnsupportedFeatureError("dropping an index of the system", found=name)

    def attempt(current: Snapshot) -> Manifest:
        segments = index_entries(current.manifest)
        removed = [segment for segment in segments if segment.name == name]
        if not removed:
            names = sorted({segment.name for segment in segments})
            raise IndexNotFoundError("index not found", expected=", ".join(names) or "none", found=name)
        transaction = new_transaction(current.manifest.version, uuid=transaction_id)
        create_index(transaction, removed=removed)
        return commit(current.storage, transaction, read=current.manifest, sync=sync)

    return with_retries(snapshot, attempt, "create_index", transaction_id=transaction_id)
