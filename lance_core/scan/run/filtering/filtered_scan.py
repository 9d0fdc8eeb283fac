"""The jobs of a scan with a filter: first those that find matching rows, then those that decode them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from lance_core.pool import num_workers
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.indices import FilterMasks
from lance_core.scan.plan.projection import project_filtered
from lance_core.scan.plan.pruning import Pruner
from lance_core.scan.plan.scan_plan import ScanPlan
from lance_core.scan.read.fragments import FragmentOpener
from lance_core.scan.run.batch_cutter import BatchCutter
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.filtering.filter_windows import FilterWindow, FilterWindows
from lance_core.scan.run.filtering.index_masks import index_masks, is_few
from lance_core.scan.run.filtering.matching_rows import MatchingRows, MatchingWindow
from lance_core.scan.run.filtering.row_filter import RowFilter
from lance_core.scan.run.readahead import ALONE_BYTES, Job, run_ahead, run_alone, run_reads
from lance_core.scan.run.strategy import Strategy
from lance_core.scan.run.window_batches import WindowsTogether
from lance_core.table.snapshot import Snapshot

_ALL = 1 << 30
"""More jobs than any scan has."""
_FEW_ROWS = 1 << 14
"""Rows that are filtered in less time than statistics take, which describe half as many each."""
_FEW_BYTES = ALONE_BYTES
"""Bytes of rows that the calling thread filters and decodes in less time than jobs take."""
_FEW_FRAGMENTS = 4
"""Fragments that are opened in less time than statistics of all of them take."""


def matching_jobs(
    snapshot: Snapshot,
    plan: ScanPlan,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy,
    cutter: BatchCutter | None = None,
) -> Generator[Job[MatchingWindow | WindowsTogether], None, None]:
    """Yield the jobs that decode the matching rows, divided into whole batches; see `run_ahead`.

    `cutter` is that of `MatchingRows`.
    """
    is_remote = snapshot.storage.is_remote
    masks = index_masks(snapshot, plan.options, files) if strategy.prune else None
    # With a limit, few of the matching rows may be wanted. Requests to a store run side by side.
    holds_outputs = plan.options.limit is None and not is_remote
    windows = _windows(snapshot, plan, files, strategy, masks, holds_outputs=holds_outputs)
    few = None if is_remote else windows.only_window(_FEW_BYTES)
    rows = MatchingRows(
        _jobs(windows, snapshot, plan, budget, masks) if few is None else None,
        plan.options,
        len(plan.schema),
        strategy.dense_share,
        is_stream=strategy.is_stream,
        cutter=None if is_remote else cutter,
    )
    with closing(rows):
        if few is not None:
            with budget.require(few.num_bytes):
                rows.add(few.reads, run_reads(few.reads))
            if rows.num_bytes <= _FEW_BYTES:
                yield from run_alone(rows, budget)
                return
        alone = _ALL if is_few(plan, masks) and not is_remote else 0
        yield from run_ahead(rows, budget, 2 + num_workers(is_remote), is_remote, num_alone=alone)


def filter_jobs(
    snapshot: Snapshot,
    plan: ScanPlan,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy,
    masks: FilterMasks | None,
) -> Generator[Job[FilterWindow], None, None]:
    """Return the jobs that find the matching rows, among the rows of `masks`; see `run_ahead`."""
    return _jobs(_windows(snapshot, plan, files, strategy, masks), snapshot, plan, budget, masks)


def _windows(
    snapshot: Snapshot,
    plan: ScanPlan,
    files: DataFiles,
    strategy: Strategy,
    masks: FilterMasks | None,
    *,
    holds_outputs: bool = False,
) -> FilterWindows:
    """Return the windows in which the matching rows are, among the rows of `masks`.

    `holds_outputs` is that of `RowFilter`.
    """
    condition = plan.options.filter
    assert condition is not None
    projection = project_filtered(snapshot.manifest.schema, plan.options, condition)
    # A trace shows what statistics leave out, so it needs them in any case. What indices find is rare,
    # also in the fragments that they do not cover.
    is_small = plan.num_rows <= _FEW_ROWS and len(plan.fragment_scans) <= _FEW_FRAGMENTS
    asks = snapshot.storage.is_remote or strategy.trace is not None or masks is not None or not is_small
    return FilterWindows(
        plan,
        FragmentOpener(
            snapshot,
            projection,
            files,
            strategy.trace,
            deleted=plan.options.include_deleted_rows,
        ),
        Pruner(
            snapshot,
            condition,
            files,
            enabled=strategy.prune,
            asks=asks,
            masks=masks,
            only_indexed=plan.options.fast_search,
        ),
        RowFilter(
            condition,
            projection,
            strategy,
            learns=strategy.prune,
            guards=plan.options.guards,
            holds_outputs=holds_outputs,
        ),
        is_stream=strategy.is_stream,
    )


def _jobs(
    windows: FilterWindows,
    snapshot: Snapshot,
    plan: ScanPlan,
    budget: MemoryBudget,
    masks: FilterMasks | None,
) -> Generator[Job[FilterWindow], None, None]:
    """Return the jobs that filter windows; see `run_ahead`."""
    is_remote = snapshot.storage.is_remote
    # With a limit, the first window often has all rows that are wanted. `run_ahead` begins other windows
    # beside the last one that the calling thread filters by itself.
    num_alone = 0 if plan.options.limit is None else 1 if is_remote else 2
    if is_few(plan, masks) and not is_remote:
        num_alone = _ALL
    return run_ahead(windows, budget, 2 + num_workers(is_remote), is_remote, num_alone=num_alone)
