"""Dropping an index: its entries leave the manifest. Its files stay for older versions until a cleanup."""

from __future__ import annotations

from lance_core.changes.retry import with_retries
from lance_core.commit.commit import commit
from lance_core.commit.index_section import FRAGMENT_REUSE, MEM_WAL, IndexSectionEditor
from lance_core.errors import IndexNotFoundError, UnsupportedFeatureError
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import create_index, new_transaction


def drop_index(
    snapshot: Snapshot, name: str, *, transaction_id: str | None = None, sync: bool = True
) -> Snapshot:
    """Make a version without any segment of an index.

    Args:
        snapshot: the version that the caller has open.
        name: of the index, not of a column.
        transaction_id: a UUID; one that was committed before changes nothing.
        sync: make the version durable before returning.

    Raises:
        IndexNotFoundError: there is no such index.
        UnsupportedFeatureError: the index belongs to the system; other indices or rows depend on it.
        CommitConflictError: other commits make this one impossible.
        CommitUnknownError: nobody can say whether the version was made.
    """
    if name in (FRAGMENT_REUSE, MEM_WAL):
        raise UnsupportedFeatureError("dropping an index of the system", found=name)

    def attempt(current: Snapshot) -> Manifest:
        segments = IndexSectionEditor(current.manifest.index_section).segments
        removed = [segment for segment in segments if segment.name == name]
        if not removed:
            names = sorted({segment.name for segment in segments})
            raise IndexNotFoundError("no such index", expected=", ".join(names) or "none", found=name)
        transaction = new_transaction(current.manifest.version, uuid=transaction_id)
        return commit(current.storage, create_index(transaction, removed=removed), sync=sync)

    return with_retries(snapshot, attempt, "create_index", transaction_id=transaction_id)
