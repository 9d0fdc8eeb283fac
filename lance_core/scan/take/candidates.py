"""Candidates for a filter: rows that an index finds, or that no index knows, and of which the values decide.

A take reads the values of all candidates at once. A scan would read each fragment in windows of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lance_core.errors import LanceError
from lance_core.expressions.tree import Expression, conjuncts
from lance_core.index.row_sets import keys_of
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.indices import FilterMasks
from lance_core.scan.plan.projection import project_inputs
from lance_core.scan.plan.scan_plan import FEW_ROWS, ScanPlan
from lance_core.scan.read.columns import batch_of
from lance_core.scan.read.live_rows import places
from lance_core.scan.read.row_selection import select_rows
from lance_core.scan.take.keys import Keys, address_of
from lance_core.scan.take.row_taker import RowTaker
from lance_core.scan.take.taker_cache import taker_of
from lance_core.table.snapshot import Snapshot

_MOST_BESIDE = 1 << 15
"""Most rows of fragments without an index that are candidates. With more, a scan is faster."""
_MOST_BYTES = 8 << 20
"""Most estimated bytes of the values of candidates."""


def matching_addresses(
    snapshot: Snapshot, plan: ScanPlan, masks: FilterMasks, files: DataFiles, taker: RowTaker | None = None
) -> Keys | None:
    """Return the addresses of the live rows that a filter passes, in the order of a plan.

    Args:
        snapshot: A version of a table.
        plan: A plan with a filter. Its limit and its offset do not count.
        masks: What indices find for the filter.
        files: The files of the table.
        taker: A taker of the snapshot that will take the rows, and knows which ones are deleted.

    Returns:
        None if candidates are many, or if the plan has parts of fragments. Also if something cannot be read
        or evaluated: the error of a scan names the condition and the page.
    """
    found = _candidates(snapshot, plan, masks)
    if found is None:
        return None
    candidates, left = found
    if left and snapshot.storage.is_remote:
        return None
    assert plan.options.filter is not None
    parts = conjuncts(plan.options.filter)
    conditions = [parts[number] for number in left]  # guards have the least numbers
    try:
        if taker is None or left:
            inputs = taker_of(snapshot, project_inputs(snapshot.manifest.schema, conditions), files)
        live = (taker or inputs).addresses.only_live(candidates)
        if not left or not len(live):
            return live
        if len(live) > FEW_ROWS and inputs.estimated_bytes(live) > _MOST_BYTES:
            return None
        return passing_candidates(conditions, inputs, live)
    except LanceError:
        return None


def _candidates(
    snapshot: Snapshot, plan: ScanPlan, masks: FilterMasks
) -> tuple[Keys, tuple[int, ...]] | None:
    """Return the addresses of all rows that may match, if they are few; None for parts of fragments.

    These are the rows that indices find, and all rows of fragments that no index covers: tables that change
    by key have many small ones.

    Returns:
        The addresses, some of which may be of deleted rows, and the numbers of the conditions that have to be
        evaluated for them.
    """
    found = masks.found
    if found is None:
        return None
    fragments = snapshot.manifest.fragment_by_id
    addresses, left, num_found, num_beside = [np.empty(0, np.uint64)], set[int](), 0, 0
    for scan in plan.fragment_scans:
        is_covered = scan.fragment_id in found.covered
        rows = found.rows.get(scan.fragment_id) if is_covered else None
        if rows is None and (is_covered or plan.options.fast_search):
            continue
        fragment = fragments[scan.fragment_id]
        if scan.end - scan.start < fragment.num_rows:
            return None
        left.update(masks.open_conditions(fragment.id))
        num_found += 0 if rows is None else len(rows)
        num_beside += fragment.physical_rows if rows is None else 0
        if num_found > FEW_ROWS or num_beside > _MOST_BESIDE:
            return None
        if rows is None:
            addresses.append(address_of(fragment.id, np.arange(fragment.physical_rows)))
        else:
            addresses.append(keys_of(fragment.id, rows))
    return np.concatenate(addresses), tuple(sorted(left))


def passing_candidates(conditions: Sequence[Expression], taker: RowTaker, addresses: Keys) -> Keys:
    """Return the addresses of live candidates that meet all conditions, in their order.

    Args:
        conditions: Conditions in the order in which they are evaluated: each for rows that met those before.
        taker: Takes the columns that the conditions name.
        addresses: Addresses of live candidates.

    Raises:
        LanceError: something cannot be read, or a condition cannot be evaluated.
    """
    from lance_core.expressions import evaluate  # late: most processes do not filter

    batch = taker.of_live(addresses)
    values = {name: [array] for name, array in zip(batch.schema.names, batch.columns, strict=True)}
    for condition in conditions:
        if not len(addresses):
            break
        chosen = places(evaluate.passing(condition, batch_of(values, len(addresses))))
        if len(chosen) < len(addresses):
            addresses = addresses[chosen]
            values = {name: select_rows(arrays, chosen) for name, arrays in values.items()}
    return addresses
