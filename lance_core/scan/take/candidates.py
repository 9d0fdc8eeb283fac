"""Candidates for a filter: rows that may match. Their values decide.

Candidates are rows that an index finds, and rows of fragments that no index covers. A take reads the values
of all candidates at once; a scan would read each fragment in windows of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lance_core.errors import LanceError
from lance_core.expressions.tree import Expression, conjuncts
from lance_core.index.row_mask import Offsets, offsets_of
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.indices import FilterMasks
from lance_core.scan.plan.projection import project_inputs
from lance_core.scan.plan.scan_plan import FEW_ROWS, ScanPlan
from lance_core.scan.read.columns import batch_of
from lance_core.scan.read.live_rows import places
from lance_core.scan.read.row_selection import select_rows
from lance_core.scan.run.filtering.index_masks import may_match
from lance_core.scan.take.address_finder import AddressFinder
from lance_core.scan.take.keys import Keys
from lance_core.scan.take.row_taker import RowTaker
from lance_core.scan.take.taker_cache import taker_of
from lance_core.table.fragment import Fragment
from lance_core.table.snapshot import Snapshot

_MOST_BESIDE = 1 << 15
"""Most rows of fragments without an index that are candidates. With more, a scan is faster."""
_MOST_FRAGMENTS = 256
"""Most fragments without an index whose rows are candidates. A taker has to open each of these fragments."""
_PRUNED_FRAGMENTS = 2
"""Number of fragments without an index from which on statistics leave out some of them first."""
_MOST_BYTES = 8 << 20
"""Most estimated bytes of the values of candidates."""


def matching_addresses(
    snapshot: Snapshot, plan: ScanPlan, masks: FilterMasks, files: DataFiles, taker: RowTaker | None = None
) -> tuple[Keys, ScanPlan] | None:
    """Return the addresses of live rows that a filter passes, in the order of a plan.

    Args:
        snapshot: A version of a table.
        plan: A plan with a filter. Its limit and its offset do not count.
        masks: What indices find for the filter.
        files: The files of the table.
        taker: A taker of the snapshot that will take the rows, and knows which ones are deleted.

    Returns:
        The addresses, and the plan of what has to be scanned: of fragments that no index covers, if they have
        many rows, and of parts of fragments. None if candidates are many. Also if something cannot be read or
        evaluated: the error of a scan names the condition and the page.
    """
    assert plan.options.filter is not None
    parts = conjuncts(plan.options.filter)
    try:
        plan = _may_match(snapshot, plan, masks, files)
    except LanceError:
        return None
    for most_beside in (_MOST_BESIDE, 0):
        found = _candidates(snapshot, plan, masks, most_beside)
        if found is None:
            return None
        if found.open_conditions and snapshot.storage.is_remote:
            continue
        conditions = [parts[number] for number in found.open_conditions]  # guards have the least numbers
        try:
            if taker is None or conditions:
                inputs = taker_of(snapshot, project_inputs(snapshot.manifest.schema, conditions), files)
            live = found.live_addresses((taker or inputs).addresses)
            if not conditions or not len(live):
                return live, found.rest
            if len(live) <= FEW_ROWS or inputs.estimated_bytes(live) <= _MOST_BYTES:
                return passing_candidates(conditions, inputs, live), found.rest
        except LanceError:
            return None
    return None


def _may_match(snapshot: Snapshot, plan: ScanPlan, masks: FilterMasks, files: DataFiles) -> ScanPlan:
    """Return a plan without the fragments beside an index in which no row matches, according to statistics.

    Comparing the statistics of all of them costs less than opening one of them.
    """
    found = masks.found
    if found is None or plan.options.fast_search or snapshot.storage.is_remote:
        return plan
    if sum(scan.fragment_id not in found.covered for scan in plan.fragment_scans) < _PRUNED_FRAGMENTS:
        return plan
    return may_match(snapshot, plan, masks, files)


@dataclass(frozen=True)
class _Candidates:
    """Rows that may match a filter.

    Attributes:
        rows: Fragments in the order of the plan, and physical rows of each, some of which may be deleted.
        open_conditions: Numbers of the conditions that have to be evaluated for them.
        rest: The plan without these rows.
    """

    rows: Sequence[tuple[Fragment, Offsets]]
    open_conditions: tuple[int, ...]
    rest: ScanPlan

    def live_addresses(self, finder: AddressFinder) -> Keys:
        """Return the addresses of the candidates that are not deleted; LanceError if deletions cannot be
        read.
        """
        addresses = [finder.of_live_among(fragment, rows) for fragment, rows in self.rows]
        return addresses[0] if len(addresses) == 1 else np.concatenate([np.empty(0, np.uint64), *addresses])


def _candidates(
    snapshot: Snapshot, plan: ScanPlan, masks: FilterMasks, most_beside: int
) -> _Candidates | None:
    """Return the rows that indices find, None if they are many, and up to `most_beside` rows of all fragments
    that no index covers: tables that change by key have many small ones.
    """
    found = masks.found
    if found is None:
        return None
    fragments = snapshot.manifest.fragment_by_id
    wanted = [
        (fragments[scan.fragment_id], scan, found.rows.get(scan.fragment_id))
        for scan in plan.fragment_scans
        if scan.fragment_id in found.rows or scan.fragment_id not in found.covered
    ]
    if plan.options.fast_search:
        wanted = [(fragment, scan, rows) for fragment, scan, rows in wanted if rows is not None]
    beside = [fragment.physical_rows for fragment, _, rows in wanted if rows is None]
    takes_beside = len(beside) <= _MOST_FRAGMENTS and sum(beside) <= most_beside
    candidates, left, num_found, rest = [], set[int](), 0, []
    for fragment, scan, rows in wanted:
        if scan.end - scan.start < fragment.num_rows or (rows is None and not takes_beside):
            rest.append(scan)
            continue
        left.update(masks.open_conditions(fragment.id))
        if rows is None:
            candidates.append((fragment, np.arange(fragment.physical_rows)))
            continue
        num_found += len(rows)
        if num_found > FEW_ROWS:
            return None
        candidates.append((fragment, offsets_of(rows)))
    return _Candidates(candidates, tuple(sorted(left)), plan.with_fragment_scans(rest))


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
