"""Versions of a dataset as lists show them: totals, times, and the effect of each on the rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lance_core.errors import CommitConflictError
from lance_core.scan.changes import Effect, effect_on_rows
from lance_core.storage import Storage
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot, read_manifests
from lance_core.table.transaction import read_transaction
from lance_core.table.versions import listed_manifests


@dataclass(frozen=True)
class RowEffect:
    """Effect of a version on the rows of the version before.

    Attributes:
        rows: Kind of the effect.
        new_fragments: Ids of the fragments that the version before does not have, each with its rows.
    """

    rows: Effect
    new_fragments: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class VersionEntry:
    """Entry of a version in a list.

    Attributes:
        timestamp: Time of the commit, in UTC.
        identity: Text that distinguishes the version from one of the same number in another dataset.
        metadata: Totals of the fragments and files, see `summarize_version`.
        effect: None if it was not requested, or the version before is not in the list.
    """

    version: int
    timestamp: datetime
    identity: str
    metadata: dict[str, str]
    effect: RowEffect | None


def version_entries(
    snapshot: Snapshot, first: int, last: int, *, limit: int | None = None, with_effects: bool = False
) -> list[VersionEntry]:
    """Return the versions of a branch from `first` to `last`, both inclusive, oldest first.

    Args:
        snapshot: any version of the branch.
        first, last: numbers of versions; they need not exist.
        limit: most versions of the result, which are then the newest ones. None means all.
        with_effects: compare each version with the one before, if that is in the list.

    Raises:
        LanceError: a manifest or transaction cannot be read.
    """
    listed = listed_manifests(snapshot.storage)
    numbers = [number for number in listed if first <= number <= last][-(limit or 0) :]
    entries = []
    before: Manifest | None = None
    for manifest in read_manifests(snapshot, {number: listed[number] for number in numbers}):
        is_next = before is not None and before.version == manifest.version - 1
        effect = _effect(snapshot.storage, before, manifest) if with_effects and before and is_next else None
        metadata = summarize_version(manifest)
        entries.append(
            VersionEntry(manifest.version, manifest.timestamp, manifest.identity, metadata, effect)
        )
        before = manifest
    return entries


def summarize_version(manifest: Manifest) -> dict[str, str]:
    """Return the `metadata` of a version in `LanceDataset.versions`: totals of its fragments and files."""
    totals = manifest.totals
    entries = {
        "total_data_file_rows": totals.physical_rows,
        "total_data_files": totals.files,
        "total_deletion_file_rows": totals.deleted_rows,
        "total_deletion_files": totals.deletion_files,
        "total_files_size": totals.file_bytes,
        "total_fragments": totals.fragments,
        "total_rows": totals.physical_rows - totals.deleted_rows,
    }
    return {name: str(total) for name, total in entries.items()}


def _effect(storage: Storage, before: Manifest, manifest: Manifest) -> RowEffect:
    try:
        rows: Effect = effect_on_rows(read_transaction(storage, manifest))
    except CommitConflictError:  # made by a library that wrote no transactions
        rows = "changed"
    known = set(before.fragment_ids)
    return RowEffect(
        rows, tuple((each.id, each.num_rows) for each in manifest.fragments if each.id not in known)
    )
