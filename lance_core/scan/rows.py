"""The rows of a plan, as its options order and divide them: a stream of batches, or a table."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import ROW_ADDRESS, project
from lance_core.scan.plan.scan_plan import FEW_ROWS, LEAST_JOINED_FRAGMENTS, ScanPlan
from lance_core.scan.run.batch_cutter import BatchCutter, BatchRun
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.execute import count_matching, scan_batch_runs, scan_table
from lance_core.scan.run.strategy import Strategy
from lance_core.schema.arrow_values import numbers_of
from lance_core.table.row_ids import RowIds
from lance_core.table.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_core.scan.plan.indices import FilterMasks
    from lance_core.scan.take.row_taker import RowTaker

_DEFAULT = Strategy()
_FEW_BYTES = 1 << 20
"""Most estimated bytes of rows that a stream takes instead of scanning them."""


def plan_runs(
    snapshot: Snapshot,
    plan: ScanPlan,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy = _DEFAULT,
) -> Generator[BatchRun, None, None]:
    """Yield the batches of a plan, in order; see `scan_batch_runs`, whose errors these are."""
    options = plan.options
    scan: Callable[..., Generator[BatchRun, None, None]] = scan_batch_runs
    if options.fusion is not None:
        from lance_core.scan.hybrid.search import hybrid_runs  # late: most scans search nothing

        scan = hybrid_runs
    elif options.search_filter is not None:
        from lance_core.scan.hybrid.filtered import filtered_runs  # late, too

        scan = filtered_runs
    elif options.nearest is not None:
        from lance_core.scan.nearest.search import nearest_runs  # late, too

        scan = nearest_runs
    elif options.text_query is not None:
        from lance_core.scan.text_search.search import text_runs  # late, too

        scan = text_runs
    elif options.order_by:
        from lance_core.scan.ordered import ordered_runs  # late: most scans keep the order of the rows

        scan = ordered_runs
    else:
        few = None
        if options.filter is not None:
            few = _found_rows(snapshot, plan, files, strategy, _FEW_BYTES)
        elif options.limit is not None and len(plan.fragment_scans) == 1:
            few = _first_rows(snapshot, plan, files, strategy, _FEW_BYTES)
        if few is not None:
            scan = partial(_runs_of, few)
        elif _has_small(snapshot, plan, files, strategy):
            from lance_core.scan.run.small_fragments import small_runs  # late: few tables need it

            scan = small_runs
    runs = scan(snapshot, plan, budget, files, strategy)
    if options.strict_batch_size and plan.schema.names:
        from lance_core.scan.run.even_batches import even_runs  # late, too

        with closing(runs):
            yield from even_runs(runs, options.batch_rows or 1)
    else:
        yield from runs


def _runs_of(
    rows: pa.RecordBatch,
    snapshot: Snapshot,
    plan: ScanPlan,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy,
) -> Generator[BatchRun, None, None]:
    """Yield the rows of a plan, which have been read, as batches."""
    with budget.require(rows.get_total_buffer_size()):
        yield from BatchCutter(plan.schema, plan.options).cut_rows(rows)


def plan_batches(
    snapshot: Snapshot,
    plan: ScanPlan,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy = _DEFAULT,
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches of `plan_runs` one by one."""
    with closing(plan_runs(snapshot, plan, budget, files, strategy)) as runs:
        # A `for` loop would keep a run in memory while it asks for the next one.
        yield from chain.from_iterable(map(BatchRun.batches, runs))


def plan_table(
    snapshot: Snapshot,
    plan: ScanPlan,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy = _DEFAULT,
) -> pa.Table:
    """Return the rows of a plan as one table; see `scan_table`, whose errors these are."""
    if not plan.options.order_by and not plan.options.is_search:
        few = None
        if plan.options.filter is not None:
            few = _found_rows(snapshot, plan, files, strategy)
        elif plan.options.limit is not None:
            few = _first_rows(snapshot, plan, files, strategy)
        if few is not None:
            return pa.Table.from_batches([few], plan.schema)
        if _has_small(snapshot, plan, files, strategy):
            from lance_core.scan.run.small_fragments import small_table  # late, too

            return small_table(snapshot, plan, files, strategy)
        return scan_table(snapshot, plan, files, strategy)
    with closing(plan_runs(snapshot, plan, budget, files, replace(strategy, is_stream=False))) as runs:
        return pa.Table.from_batches([run.rows for run in runs], plan.schema)


def count_plan_rows(
    snapshot: Snapshot,
    plan: ScanPlan,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy = _DEFAULT,
) -> int:
    """Return the number of rows of a plan; see `count_matching`, whose errors these are."""
    if not plan.options.is_search:
        count, rest = _count_few(snapshot, plan, files, strategy)
        if _has_small(snapshot, rest, files, strategy, are_counted=True):
            from lance_core.scan.run.small_fragments import count_small  # late, as above

            few, rest = count_small(snapshot, rest, files)
            count += few
        if rest.fragment_scans:
            count += count_matching(snapshot, rest, budget, files, strategy)
        return count
    with closing(plan_runs(snapshot, plan, budget, files, strategy)) as runs:
        return sum(run.rows.num_rows for run in runs)


def _has_small(
    snapshot: Snapshot, plan: ScanPlan, files: DataFiles, strategy: Strategy, *, are_counted: bool = False
) -> bool:
    """Return whether some rows of a plan are read by groups of small fragments."""
    options = plan.options
    if len(plan.fragment_scans) < LEAST_JOINED_FRAGMENTS or not (are_counted or plan.schema.names):
        return False
    if are_counted and (options.filter is None or options.limit is not None or options.offset):
        return False
    from lance_core.scan.run.small_fragments import has_small  # late: most tables have few fragments

    if not has_small(snapshot, plan, strategy):
        return False
    if options.filter is None or not options.use_scalar_index or not snapshot.manifest.searchable_segments:
        return True
    from lance_core.scan.run.filtering.index_masks import index_masks  # late: few tables have indices

    return index_masks(snapshot, options, files) is None


def _count_few(
    snapshot: Snapshot, plan: ScanPlan, files: DataFiles, strategy: Strategy
) -> tuple[int, ScanPlan]:
    """Count the rows of a plan without a limit that indices find, and few others whose values decide.

    Returns:
        The number of rows, and the plan of the fragments whose rows a scan has to count.
    """
    options = plan.options
    if options.filter is None or options.limit is not None or options.offset or not strategy.prune:
        return 0, plan
    if not options.use_scalar_index or not snapshot.manifest.searchable_segments:
        return 0, plan
    from lance_core.scan.run.filtering.index_masks import (  # late: few tables have indices
        count_found,
        index_masks,
    )
    from lance_core.scan.take.candidates import matching_addresses

    masks = index_masks(snapshot, options, files, counts=True)
    if masks is None:
        return 0, plan
    count, rest = count_found(snapshot, plan, masks, files)
    matching = matching_addresses(snapshot, rest, masks, files) if rest.fragment_scans else None
    if matching is None:
        return count, rest
    addresses, rest = matching
    return count + len(addresses), rest


def plan_addresses(
    snapshot: Snapshot, plan: ScanPlan, masks: FilterMasks, budget: MemoryBudget, files: DataFiles
) -> Generator[RowIds, None, None]:
    """Yield the addresses of the rows of a plan with row addresses and without a limit, ascending in each
    array.

    First come the rows of fragments in which indices answer the whole filter, which are not read, and then
    other rows that indices find, if these are few: they are taken.
    """
    from lance_core.scan.run.filtering.index_masks import (  # late: few tables have indices
        answered_rows,
        may_match,
    )
    from lance_core.scan.take.candidates import matching_addresses

    answered, plan = answered_rows(snapshot, plan, masks, files)
    yield answered
    matching = matching_addresses(snapshot, plan, masks, files)
    if matching is not None:
        addresses, plan = matching
        yield np.sort(addresses)
    plan = may_match(snapshot, plan, masks, files)
    if not plan.fragment_scans:  # a scan of nothing would ask the indices once more
        return
    # `plan_runs` would ask for few addresses once more.
    with closing(scan_batch_runs(snapshot, plan, budget, files)) as runs:
        for batch in chain.from_iterable(map(BatchRun.batches, runs)):
            yield numbers_of(batch.column(ROW_ADDRESS))


def _found_rows(
    snapshot: Snapshot, plan: ScanPlan, files: DataFiles, strategy: Strategy, most_bytes: int | None = None
) -> pa.RecordBatch | None:
    """Return the rows of a plan with a filter by one take, if indices find all of them and they are few.

    Return None otherwise, if takes do not give the rows of this scan, or if the rows may have more than
    `most_bytes`.
    """
    options = plan.options
    if not options.use_scalar_index or not snapshot.manifest.searchable_segments:
        return None
    from lance_core.scan.run.filtering.index_masks import index_masks  # late: few tables have indices
    from lance_core.scan.take.candidates import matching_addresses

    taker = _taker(snapshot, options, files, strategy)
    if taker is None:
        return None
    masks = index_masks(snapshot, options, files)
    if masks is None:
        return None
    matching = matching_addresses(snapshot, plan, masks, files, taker)
    if matching is None:
        return None
    addresses, rest = matching
    if rest.fragment_scans or len(addresses) > FEW_ROWS:
        return None
    try:
        first = options.offset or 0
        addresses = addresses[first : None if options.limit is None else first + options.limit]
        if most_bytes is not None and taker.estimated_bytes(addresses) > most_bytes:
            return None
        return taker.of_live(addresses)
    except InvalidInputError:  # these rows do not fit into one batch
        return None


def _first_rows(
    snapshot: Snapshot, plan: ScanPlan, files: DataFiles, strategy: Strategy, most_bytes: int | None = None
) -> pa.RecordBatch | None:
    """Return the rows of a plan without a filter by one take, which costs less than the windows of a scan.

    Return None if they are many, if takes do not give the rows of this scan, or if the rows may have more
    than `most_bytes`.
    """
    options = plan.options
    if options.filter is not None or not 0 < plan.num_rows <= FEW_ROWS or snapshot.storage.is_remote:
        return None
    taker = _taker(snapshot, options, files, strategy)
    if taker is None:
        return None
    try:
        return taker.of_live_rows(plan.fragment_scans, most_bytes)
    except InvalidInputError:  # these rows do not fit into one batch
        return None


def _taker(snapshot: Snapshot, options: ScanOptions, files: DataFiles, strategy: Strategy) -> RowTaker | None:
    """Return the taker of the columns of a scan; None if takes do not give what the scan gives."""
    from lance_core.scan.session import session_of
    from lance_core.scan.take.taker_cache import taker_of

    session = session_of(snapshot)
    is_plain = (
        options.computed is None
        and not options.include_deleted_rows
        and options.blob_handling != "all_binary"
        and (
            options.columns is None
            or {field.name for field in snapshot.manifest.schema.fields}.issuperset(options.columns)
        )
    )
    if not is_plain or files is not session.files or not strategy.prune or strategy.trace is not None:
        return None
    if options.with_row_id or options.with_row_address:
        return taker_of(snapshot, project(snapshot.manifest.schema, options), files)
    return session.taker(snapshot, options.columns, blob_handling=options.blob_handling)
