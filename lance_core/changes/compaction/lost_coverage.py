"""Indices that cover fewer rows after a compaction, found in the version that it made."""

from __future__ import annotations

import pyroaring

from lance_core.changes.compaction.results import LostCoverage
from lance_core.errors import VersionNotFoundError
from lance_core.storage import Storage
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import read_manifest
from lance_core.table.transaction import read_transaction


def lost_coverage(storage: Storage, after: Manifest) -> tuple[LostCoverage, ...]:
    """Return the indices that cover fewer rows in the version `after` than in the version before.

    The result is empty if `after` was not made by a compaction, or if the version before was removed.

    Raises:
        CorruptFileError: An index of one of the versions does not decode.
        StorageError: The storage failed.
    """
    if not after.index_segments:
        return ()
    try:
        rewrite = read_transaction(storage, after).rewrite
        before = read_manifest(storage, after.version - 1) if rewrite.groups else None
    except VersionNotFoundError:
        return ()
    if before is None:
        return ()
    added = {file.path: fragment for fragment in after.message.fragments for file in fragment.files}
    covered, kinds = _covered(before)
    still, _ = _covered(after)
    lost = []
    for name, fragments in sorted(covered.items()):
        new = [
            added[fragment.files[0].path]
            for group in rewrite.groups
            if all(old.id in fragments for old in group.old_fragments)
            for fragment in group.new_fragments
        ]
        left = [fragment for fragment in new if fragment.id not in still.get(name, ())]
        if left:
            num_rows = sum(fragment.physical_rows for fragment in left)
            lost.append(LostCoverage(name, kinds[name], tuple(fragment.id for fragment in left), num_rows))
    return tuple(lost)


def lost_coverage_of(storage: Storage, version: int) -> tuple[LostCoverage, ...]:
    """Return the index coverage that a version lost (see `lost_coverage`); empty if it was removed."""
    try:
        return lost_coverage(storage, read_manifest(storage, version))
    except VersionNotFoundError:
        return ()


def _covered(manifest: Manifest) -> tuple[dict[str, pyroaring.BitMap], dict[str, str]]:
    """Return the fragment ids that each index covers, and the kind of each index."""
    covered: dict[str, pyroaring.BitMap] = {}
    kinds = {}
    for segment in manifest.index_segments:
        if segment.is_of_system:
            continue
        fragments = segment.description.fragment_ids
        covered[segment.name] = covered.get(segment.name, pyroaring.BitMap()) | fragments
        kinds[segment.name] = segment.index_type
    return covered, kinds
