"""Masks of the rows that indices find for the filter of a scan."""

from __future__ import annotations

import numpy as np

from lance_core.index.row_sets import keys_of
from lance_core.number_sets import bitmap_of
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.indices import FilterMasks, ask_indices
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.pruning import Pruner
from lance_core.scan.plan.scan_plan import FEW_ROWS, ScanPlan
from lance_core.scan.read.live_rows import LiveRows
from lance_core.scan.read.row_columns import RowColumns
from lance_core.table.fragment import Fragment
from lance_core.table.row_ids import RowIds
from lance_core.table.snapshot import Snapshot


def index_masks(
    snapshot: Snapshot, options: ScanOptions, files: DataFiles, *, counts: bool = False
) -> FilterMasks | None:
    """Return the rows that indices find for the filter of a scan; None if they are not used.

    Arguments and errors are those of `lance_core.scan.plan.indices.ask_indices`.
    """
    condition = options.filter
    # Indices do not have rows that were deleted before they were built.
    if condition is None or not options.use_scalar_index or options.include_deleted_rows:
        return None
    if not snapshot.manifest.searchable_segments:
        return None

    def live(fragment: Fragment) -> LiveRows:
        return LiveRows(fragment.physical_rows, files.deletions(snapshot, fragment))

    def addresses_of(row_ids: RowIds) -> RowIds:
        return RowColumns(snapshot, files).addresses_of(row_ids, live)

    return ask_indices(snapshot, condition, files.indices, addresses_of, counts=counts)


def is_few(plan: ScanPlan, masks: FilterMasks | None) -> bool:
    """Return whether indices left so few rows of a plan that worker threads would not help to read them."""
    found = None if masks is None else masks.found
    if found is None or found.num_rows > FEW_ROWS:
        return False
    return plan.options.fast_search or all(scan.fragment_id in found.covered for scan in plan.fragment_scans)


def may_match(snapshot: Snapshot, plan: ScanPlan, masks: FilterMasks, files: DataFiles) -> ScanPlan:
    """Return a plan without the fragments in which no row matches, according to indices and statistics.

    Tables that change by key have many small fragments that no index covers, and a key is in few of them.
    """
    condition = plan.options.filter
    if condition is None or snapshot.storage.is_remote:  # statistics of a remote file take a request
        return plan
    fragments = snapshot.manifest.fragment_by_id
    pruner = Pruner(snapshot, condition, files, masks=masks, only_indexed=plan.options.fast_search)
    kept = pruner.keep_all([fragments[scan.fragment_id] for scan in plan.fragment_scans])
    left = [scan for scan, found in zip(plan.fragment_scans, kept, strict=True) if found.candidates]
    return plan if len(left) == len(kept) else plan.with_fragment_scans(left)


def count_found(
    snapshot: Snapshot, plan: ScanPlan, masks: FilterMasks, files: DataFiles
) -> tuple[int, ScanPlan]:
    """Count the rows of fragments in which indices answer the whole filter, without reading them.

    Returns:
        The number of rows, and the plan with the other fragments.
    """
    found = masks.found
    assert found is not None
    fragments = snapshot.manifest.fragment_by_id
    count, rest = 0, []
    for scan in plan.fragment_scans:
        rows = found.rows.get(scan.fragment_id)
        if rows is None and scan.fragment_id in found.covered:
            continue
        fragment = fragments[scan.fragment_id]
        is_whole = scan.end - scan.start == fragment.num_rows
        if rows is None or not is_whole or masks.open_conditions(scan.fragment_id):
            rest.append(scan)
            continue
        deleted = files.deletions(snapshot, fragment)
        count += len(rows) - (rows.intersection_cardinality(bitmap_of(deleted)) if len(deleted) else 0)
    return count, plan.with_fragment_scans(rest)


def answered_rows(
    snapshot: Snapshot, plan: ScanPlan, masks: FilterMasks, files: DataFiles
) -> tuple[RowIds, ScanPlan]:
    """Return the live rows of fragments in which indices answer the whole filter, without reading them.

    Returns:
        The addresses of the rows, ascending, and the plan with the other fragments.
    """
    found = masks.found
    if found is None:
        return np.empty(0, np.uint64), plan
    fragments = snapshot.manifest.fragment_by_id
    addresses, rest = [np.empty(0, np.uint64)], []
    for scan in plan.fragment_scans:
        rows = found.rows.get(scan.fragment_id)
        if rows is None and scan.fragment_id in found.covered:
            continue
        fragment = fragments[scan.fragment_id]
        is_whole = scan.end - scan.start == fragment.num_rows
        if rows is None or not is_whole or masks.open_conditions(scan.fragment_id):
            rest.append(scan)
            continue
        deleted = files.deletions(snapshot, fragment)
        addresses.append(keys_of(fragment.id, rows - bitmap_of(deleted) if len(deleted) else rows))
    return np.sort(np.concatenate(addresses)), plan.with_fragment_scans(rest)
