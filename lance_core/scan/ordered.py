"""Rows of a scan in the order of some columns.

If few rows are wanted, the scan reads only the columns that decide the order, keeps the best rows that it
has seen, and takes the other columns of these rows at the end. Memory then grows with the limit, not with the
table. The scan begins at both ends of the plan, since many tables are sorted by time. The last of the best
rows is a bound for the other rows: pages without a row before it are not read. Otherwise all rows are read,
and sorted in memory. For a caller of a server, they may take half of the memory budget. If there are more,
only the columns that decide are sorted, and rows are taken in this order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lance_core.encodings.concatenation import concatenated
from lance_core.encodings.values import take_values
from lance_core.errors import InvalidInputError
from lance_core.process.readers import has_reader
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.options import DEFAULT_BATCH_BYTES, ColumnOrdering, ScanOptions
from lance_core.scan.plan.ordering import reaching
from lance_core.scan.plan.projection import ROW_ADDRESS, project
from lance_core.scan.plan.scan_plan import FragmentScan, ScanPlan
from lance_core.scan.run.batch_cutter import BatchCutter, BatchRun
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.execute import scan_batches, scan_table
from lance_core.scan.run.sorting import may_precede, sorted_places
from lance_core.scan.run.strategy import Strategy
from lance_core.scan.take.keys import Keys
from lance_core.scan.take.row_taker import RowTaker
from lance_core.schema.arrow_values import array_of, numbers_of
from lance_core.table.snapshot import Snapshot

# If fewer than one row in this many is wanted, taking single rows costs less than reading all rows.
_TAKEN_SHARE = 16
# Number of gathered rows at which they are sorted, and only the best are kept. A larger number needs more
# memory, a smaller one more sorting.
_SORTED_ROWS = 1 << 17
# Bytes of rows that are gathered at a time.
_GATHERED_BYTES = 32 << 20
# Number of rows at each end of the plan, which are read first, and of each part between the ends. For each
# part, the best rows so far give a new bound, and pages beyond the bound are not read.
_END_ROWS = 1 << 18
_PART_ROWS = 1 << 22

_NUMBER = ""
"""Name of the column with the row numbers. No column of a table has an empty name."""


def ordered_runs(
    snapshot: Snapshot, plan: ScanPlan, budget: MemoryBudget, files: DataFiles, strategy: Strategy
) -> Generator[BatchRun, None, None]:
    """Yield the batches of a plan with `order_by`, as `scan_batch_runs` yields those of other plans.

    Raises:
        LanceError: something cannot be read.
    """
    options = plan.options
    if options.limit == 0:
        return
    wanted = plan.num_rows if options.limit is None else options.limit + (options.offset or 0)
    # Where rows are hidden from the caller, the batches must not depend on their number.
    few = options.limit is not None if options.guards else wanted < plan.num_rows // _TAKEN_SHARE
    if few and not options.include_deleted_rows:
        addresses = _best_addresses(snapshot, plan, wanted, budget, files, strategy)[options.offset or 0 :]
    else:
        rows = _all_rows(snapshot, plan, budget, files, strategy)
        if rows is not None:
            yield from _sorted_in_memory(rows, snapshot, plan, budget, files, strategy)
            return
        addresses = _sorted_addresses(snapshot, plan, budget, files, strategy)
    projection = project(snapshot.manifest.schema, options)
    taker = RowTaker(snapshot, projection, files, strategy.trace)
    yield from taker.batch_runs(addresses, budget, options, read_bytes=_GATHERED_BYTES)


def _all_rows(
    snapshot: Snapshot, plan: ScanPlan, budget: MemoryBudget, files: DataFiles, strategy: Strategy
) -> pa.Table | None:
    """Return the rows of a plan in the order of the scan; None if they are too large for a `Reader`."""
    unordered = replace(plan, options=_unordered(plan.options))
    if not has_reader():
        return scan_table(snapshot, unordered, files, strategy)
    return _rows_within(snapshot, unordered, budget.limit_bytes // 2, budget, files, strategy)


def _rows_within(
    snapshot: Snapshot,
    plan: ScanPlan,
    most_bytes: int,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy,
) -> pa.Table | None:
    """Return the rows of a plan; None if they have more than `most_bytes`."""
    found: list[pa.RecordBatch] = []
    num_bytes = 0
    with (
        budget.require(0) as reservation,
        closing(scan_batches(snapshot, plan, budget, files, strategy)) as batches,
    ):
        for batch in batches:
            num_bytes += batch.nbytes
            if num_bytes > most_bytes:
                return None
            found.append(batch)
            reservation.resize(num_bytes)
    return pa.Table.from_batches(found, plan.schema)


def _sorted_addresses(
    snapshot: Snapshot, plan: ScanPlan, budget: MemoryBudget, files: DataFiles, strategy: Strategy
) -> Keys:
    """Return the addresses of the rows of a plan in order, between its offset and its limit.

    Raises:
        InvalidInputError: the columns that decide are larger than the memory budget, or deleted rows, which
            cannot be taken, are among the rows.
    """
    options = plan.options
    keys = None
    if not options.include_deleted_rows:
        wanted = _plan_of_keys(snapshot, plan, with_row_address=True)
        keys = _rows_within(snapshot, wanted, budget.limit_bytes, budget, files, strategy)
    if keys is None:
        raise InvalidInputError(
            "there are too many rows to sort, ask for fewer with a limit or a filter",
            expected=f"at most {budget.limit_bytes} bytes in the columns of order_by and the row addresses",
        )
    addresses: Keys = numbers_of(keys[ROW_ADDRESS].take(_wanted_places(keys, options)))
    return addresses


def _best_addresses(
    snapshot: Snapshot,
    plan: ScanPlan,
    num_rows: int,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy,
) -> Keys:
    """Return the addresses of the first `num_rows` rows in the order of a plan."""
    order_by = plan.options.order_by
    keys = _plan_of_keys(snapshot, plan, with_row_address=True)
    best = _numbered(pa.Table.from_batches([], keys.schema), 0)
    with budget.require(0) as reservation:
        for first_number, part in _parts(keys):
            waiting: list[pa.Table] = []
            num_seen = num_waiting = 0
            if best.num_rows == num_rows:
                part = _bounded(snapshot, part, best, order_by[0])
            with closing(scan_batches(snapshot, part, budget, files, strategy)) as batches:
                for batch in batches:
                    rows = _numbered(pa.Table.from_batches([batch]), first_number + num_seen)
                    num_seen += batch.num_rows
                    if best.num_rows == num_rows:
                        rows = _without_worse(rows, best, order_by[0])
                    waiting.append(rows)
                    num_waiting += rows.num_rows
                    if num_waiting >= max(num_rows, _SORTED_ROWS):
                        best = _best_of(best, waiting, num_rows, order_by)
                        waiting, num_waiting = [], 0
                        reservation.resize(best.get_total_buffer_size())
            if num_waiting:
                best = _best_of(best, waiting, num_rows, order_by)
    addresses: Keys = numbers_of(best[ROW_ADDRESS])
    return addresses


def _parts(plan: ScanPlan) -> Iterator[tuple[int, ScanPlan]]:
    """Yield parts of a plan, first those at its ends, each with the number of its first row in the plan."""
    if not plan.num_rows:
        return
    starts = [0, _END_ROWS, *range(_END_ROWS + _PART_ROWS, plan.num_rows - _END_ROWS, _PART_ROWS)]
    starts = [start for start in starts if start < plan.num_rows]
    if (last := plan.num_rows - _END_ROWS) > starts[-1]:
        starts.append(last)
    parts = list(pairwise([*starts, plan.num_rows]))
    for start, end in (parts[0], *parts[:0:-1]):
        scans = []
        before = 0
        for scan in plan.fragment_scans:
            after = before + scan.end - scan.start
            if before < end and start < after:
                first, past = max(start - before, 0), min(end, after) - before
                scans.append(FragmentScan(scan.fragment_id, scan.start + first, scan.start + past))
            before = after
        yield start, plan.with_fragment_scans(scans)


def _bounded(snapshot: Snapshot, part: ScanPlan, best: pa.Table, ordering: ColumnOrdering) -> ScanPlan:
    """Return a part of a plan without the rows that come after the best rows by the first column."""
    bound = best[ordering.column_name][-1]
    condition = reaching(snapshot.manifest.schema, ordering, bound)
    if condition is None:
        return part
    from lance_core.expressions.builders import conjunction  # late: most scans do not filter

    given = part.options.filter
    both = condition if given is None else conjunction([given, condition])
    return replace(part, options=replace(part.options, filter=both))


def _numbered(rows: pa.Table, first: int) -> pa.Table:
    """Return rows with their numbers in the plan as the last column. Of equal rows the first is the best."""
    numbers = np.arange(first, first + rows.num_rows, dtype=np.int64)
    return rows.append_column(_NUMBER, array_of(numbers))


def _best_of(
    best: pa.Table, others: Sequence[pa.Table], num_rows: int, order_by: Sequence[ColumnOrdering]
) -> pa.Table:
    """Return the first `num_rows` of numbered rows, which may be in any order."""
    rows = pa.concat_tables([best, *others])
    keys = [rows[ordering.column_name] for ordering in order_by]
    places = sorted_places([*keys, rows.columns[-1]], [*order_by, ColumnOrdering(_NUMBER)])
    return rows.take(places[:num_rows])


def _without_worse(rows: pa.Table, best: pa.Table, ordering: ColumnOrdering) -> pa.Table:
    """Return the rows that may come before the last of the best rows, by the column that decides first."""
    if not best.num_rows:
        return rows.slice(0, 0)
    name = ordering.column_name
    is_better = may_precede(rows[name].chunk(0), best[name][-1], ordering)
    return rows if is_better is None else rows.filter(is_better)


def _sorted_in_memory(
    rows: pa.Table,
    snapshot: Snapshot,
    plan: ScanPlan,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy,
) -> Iterator[BatchRun]:
    """Yield the rows of a plan, which come in the order of the scan."""
    options = plan.options
    with budget.require(rows.get_total_buffer_size()):
        if _shows_keys(snapshot, plan):
            keys = rows
        else:
            keys = scan_table(snapshot, _plan_of_keys(snapshot, plan), files, strategy)
        places = _wanted_places(keys, options)
        del keys
        step = max(1, _GATHERED_BYTES * rows.num_rows // max(rows.nbytes, 1))
        columns = [_joined(column.chunks) for column in rows.columns]
        del rows
        cutter = BatchCutter(plan.schema, options)
        for start in range(0, len(places), step):
            for batch in _gathered(columns, places[start : start + step], plan.schema):
                yield from cutter.cut_rows(batch)


def _unordered(options: ScanOptions) -> ScanOptions:
    """Return the options of the rows before they are sorted and divided into batches."""
    return replace(
        options,
        order_by=(),
        limit=None,
        offset=None,
        batch_rows=None,
        batch_bytes=DEFAULT_BATCH_BYTES,
        strict_batch_size=False,
    )


def _plan_of_keys(snapshot: Snapshot, plan: ScanPlan, *, with_row_address: bool = False) -> ScanPlan:
    """Return the plan of the same rows with the columns that decide their order."""
    options = replace(
        _unordered(plan.options),
        columns=tuple(ordering.column_name for ordering in plan.options.order_by),
        computed=None,
        with_row_id=plan.options.include_deleted_rows,
        with_row_address=with_row_address,
    )
    return replace(plan, options=options, schema=project(snapshot.manifest.schema, options).schema)


def _shows_keys(snapshot: Snapshot, plan: ScanPlan) -> bool:
    """Return whether the rows of a plan have the columns that decide their order."""
    if plan.options.computed is not None:
        return False
    return {ordering.column_name for ordering in plan.options.order_by} <= set(plan.schema.names)


def _wanted_places(rows: pa.Table, options: ScanOptions) -> pa.Array:
    """Return the numbers of all rows of a scan in order, between its offset and its limit."""
    places = sorted_places([rows[ordering.column_name] for ordering in options.order_by], options.order_by)
    start = options.offset or 0
    return places[start:] if options.limit is None else places[start : start + options.limit]


def _joined(parts: Sequence[pa.Array]) -> list[pa.Array]:
    """Return the values in as few arrays as can hold them."""
    if len(parts) < 2:
        return list(parts)
    try:
        return [concatenated(list(parts))]
    except pa.ArrowCapacityError:
        middle = len(parts) // 2
        return _joined(parts[:middle]) + _joined(parts[middle:])


def _gathered(
    columns: Sequence[Sequence[pa.Array]], places: pa.Array, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows at `places`, in one batch if one array can hold each column."""
    try:
        arrays = [_at(arrays, places) for arrays in columns]
    except pa.ArrowCapacityError:
        if len(places) < 2:
            raise
        middle = len(places) // 2
        yield from _gathered(columns, places[:middle], schema)
        yield from _gathered(columns, places[middle:], schema)
    else:
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _at(arrays: Sequence[pa.Array], places: pa.Array) -> pa.Array:
    """Return the values at `places` of consecutive arrays."""
    if len(arrays) == 1:
        return take_values(arrays[0], places)
    wanted = numbers_of(places).astype(np.int64)
    ends = np.cumsum([len(array) for array in arrays])
    numbers = np.searchsorted(ends, wanted, side="right")
    taken, origins = [], []
    for number, array in enumerate(arrays):
        chosen = np.flatnonzero(numbers == number)
        taken.append(take_values(array, array_of(wanted[chosen] - (ends[number] - len(array)))))
        origins.append(chosen)
    return take_values(concatenated(taken), array_of(np.argsort(np.concatenate(origins))))
