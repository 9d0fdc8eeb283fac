"""Coverage of indices before and after a compaction, found in the versions around it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyroaring

from lance_core.changes.compaction.results import IndexCoverage, LostCoverage
from lance_core.errors import VersionNotFoundError
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.storage import Storage
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import read_manifest
from lance_core.table.transaction import read_transaction


@dataclass(frozen=True)
class CoverageReport:
    """Coverage of the indices of a table before and after a compaction."""

    index_coverage: tuple[IndexCoverage, ...] = ()
    """All indices by name."""
    lost_coverage: tuple[LostCoverage, ...] = ()
    """Indices that cover fewer rows than before."""


def coverage_report(storage: Storage, after: Manifest) -> CoverageReport:
    """Return what indices cover in the version `after` and in the version before it.

    The report is empty if `after` was not made by a compaction, or if the version before was removed.

    Raises:
        CorruptFileError: An index of one of the versions does not decode.
        StorageError: The storage failed.
    """
    if not after.stored_index_segments:
        return CoverageReport()
    try:
        rewrite = read_transaction(storage, after).rewrite
        before = read_manifest(storage, after.version - 1) if rewrite.groups else None
    except VersionNotFoundError:
        return CoverageReport()
    if before is None:
        return CoverageReport()
    covered, still = _covered(before), _covered(after)
    return CoverageReport(
        tuple(
            IndexCoverage(name, each.kind, each.num_rows, still[name].num_rows if name in still else 0)
            for name, each in sorted(covered.items())
        ),
        tuple(_lost(after, rewrite, covered, still)),
    )


def coverage_report_of(storage: Storage, version: int) -> CoverageReport:
    """Return the report of the compaction that made a version (see `coverage_report`); an empty one if the
    version was removed.
    """
    try:
        return coverage_report(storage, read_manifest(storage, version))
    except VersionNotFoundError:
        return CoverageReport()


@dataclass
class _Covered:
    kind: str
    fragments: pyroaring.BitMap = field(default_factory=pyroaring.BitMap)
    num_rows: int = 0


def _covered(manifest: Manifest) -> dict[str, _Covered]:
    """Return what each index covers."""
    covered: dict[str, _Covered] = {}
    for segment in manifest.index_segments:
        if not segment.is_of_system:
            each = covered.setdefault(segment.name, _Covered(segment.index_type))
            each.fragments |= segment.description.fragment_ids
    for each in covered.values():
        each.num_rows = sum(
            fragment.num_rows for fragment in manifest.fragments if fragment.id in each.fragments
        )
    return covered


def _lost(
    after: Manifest,
    rewrite: Transaction.Rewrite,
    covered: dict[str, _Covered],
    still: dict[str, _Covered],
) -> list[LostCoverage]:
    added = {file.path: fragment for fragment in after.message.fragments for file in fragment.files}
    lost = []
    for name, each in sorted(covered.items()):
        new = [
            added[fragment.files[0].path]
            for group in rewrite.groups
            if all(old.id in each.fragments for old in group.old_fragments)
            for fragment in group.new_fragments
        ]
        known = still[name].fragments if name in still else ()
        left = [fragment for fragment in new if fragment.id not in known]
        if left:
            num_rows = sum(fragment.physical_rows for fragment in left)
            lost.append(LostCoverage(name, each.kind, tuple(fragment.id for fragment in left), num_rows))
    return lost
