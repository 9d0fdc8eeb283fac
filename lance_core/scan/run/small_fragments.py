"""Filters on many small fragments: the rows of a group of fragments are filtered together.

A window of a scan has a price of its own, and so have the statistics of a fragment. For a few rows, these
cost more than to decode the rows. So the columns of the filter are decoded for all fragments of a group in
one step, and the other columns for those with matching rows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from lance_core.encodings.values import concat_arrays
from lance_core.errors import LanceError
from lance_core.expressions.tree import conjuncts
from lance_core.process.counters import note_rows
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.projection import Projection, project_inputs
from lance_core.scan.plan.scan_plan import FragmentScan, ScanPlan
from lance_core.scan.read.columns import batches_of
from lance_core.scan.read.fragments import FragmentOpener
from lance_core.scan.read.live_rows import Offsets, places
from lance_core.scan.read.row_selection import select_rows
from lance_core.scan.run.batch_cutter import BatchCutter, BatchRun
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.execute import scan_batch_runs, scan_table
from lance_core.scan.run.readahead import ColumnRead, run_reads
from lance_core.scan.run.strategy import Strategy
from lance_core.table.snapshot import Snapshot

_LEAST_FRAGMENTS = 5
"""Least fragments of such a scan."""
_MOST_ROWS = 4096
"""Most rows of a fragment, in the mean."""
_MOST_BYTES = 256 << 10
"""Most bytes of the files of a fragment, in the mean."""
_FIRST_GROUP, _MOST_GROUP = 16, 256
"""Most fragments of the first group, so that the first batch comes soon, and of later ones."""
_GROUP_BYTES = 8 << 20
"""About the most bytes of the files of a group."""

_Columns = list[list[pa.Array]]
"""Arrays of each column, in the order of the rows."""


def are_small(snapshot: Snapshot, plan: ScanPlan, strategy: Strategy) -> bool:
    """Return whether a plan with a filter has so many small local fragments that they are filtered together.

    The answer depends on the plan and the manifest alone, as the batches of a scan do.
    """
    num_fragments = len(plan.fragment_scans)
    if num_fragments < _LEAST_FRAGMENTS or plan.num_rows > _MOST_ROWS * num_fragments:
        return False
    options = plan.options
    if snapshot.storage.is_remote or options.include_deleted_rows or options.blob_handling == "all_binary":
        return False
    if not strategy.prune or strategy.trace is not None:  # a trace shows what statistics leave out
        return False
    fragments, num_bytes = snapshot.manifest.fragment_by_id, 0
    for scan in plan.fragment_scans:
        sizes = [file.size for file in fragments[scan.fragment_id].files]
        num_bytes += sum(sizes)
        if not all(sizes) or num_bytes > _MOST_BYTES * num_fragments:
            return False
    return True


def small_runs(
    snapshot: Snapshot,
    plan: ScanPlan,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy,
) -> Generator[BatchRun, None, None]:
    """Yield the rows of a plan whose fragments `are_small` as batches; see `scan_batch_runs`."""
    small, cutter = _SmallFragments(snapshot, plan, files), BatchCutter(plan.schema, plan.options)
    for found in small:
        most_rows = plan.options.batch_rows or found.num_rows
        if found.num_rows:
            cuts = np.array([*range(0, found.num_rows, most_rows), found.num_rows])
            cuts, num_bytes = cutter.fit(found.columns, cuts)
            with budget.require(num_bytes):
                yield from cutter.cut(found.columns, cuts)
    if small.rest.fragment_scans:
        yield from scan_batch_runs(snapshot, small.rest, budget, files, strategy)


def small_table(snapshot: Snapshot, plan: ScanPlan, files: DataFiles, strategy: Strategy) -> pa.Table:
    """Return the rows of a plan whose fragments `are_small` as one table; see `scan_table`."""
    small = _SmallFragments(snapshot, plan, files)
    parts = [found.columns for found in small if found.num_rows]
    chunks = [list(chain.from_iterable(arrays)) for arrays in zip(*parts, strict=True)]
    chunks = chunks or [[] for _ in plan.schema]
    columns = [pa.chunked_array(some, field.type) for some, field in zip(chunks, plan.schema, strict=True)]
    table = pa.Table.from_arrays(columns, schema=plan.schema)
    if not small.rest.fragment_scans:
        return table
    return pa.concat_tables([table, scan_table(snapshot, small.rest, files, strategy)])


def count_small(snapshot: Snapshot, plan: ScanPlan, files: DataFiles) -> tuple[int, ScanPlan]:
    """Count the rows of a plan whose fragments `are_small`.

    Returns:
        The number of rows, and the plan of the fragments whose rows a scan has to count: after an error.
    """
    small = _SmallFragments(snapshot, plan, files, are_counted=True)
    return sum(found.num_rows for found in small), small.rest


@dataclass(frozen=True)
class _MatchingRows:
    """Rows of a group of fragments that a filter passes.

    Attributes:
        columns: The returned columns of these rows; empty if they are only counted.
    """

    num_rows: int
    columns: _Columns


class _SmallFragments:
    """The groups of a plan with a filter whose fragments are small, see `are_small`, in order."""

    def __init__(
        self, snapshot: Snapshot, plan: ScanPlan, files: DataFiles, *, are_counted: bool = False
    ) -> None:
        """Prepare to filter. If rows `are_counted`, their columns are not read, and a limit does not hold."""
        condition, schema = plan.options.filter, snapshot.manifest.schema
        assert condition is not None
        self._snapshot = snapshot
        self._files = files
        self._plan = plan
        self._conditions = conjuncts(condition)  # guards come first
        self._inputs = project_inputs(schema, self._conditions)
        self._outputs = None if are_counted else plan.projection(schema)
        self._skip = 0 if are_counted else plan.options.offset or 0
        self._left = None if are_counted else plan.options.limit
        self._done = 0

    @property
    def rest(self) -> ScanPlan:
        """The plan of what is not filtered yet; nothing at the end."""
        scans = () if self._left == 0 else self._plan.fragment_scans[self._done :]
        options = self._plan.options
        if (options.offset or 0, options.limit) != (self._skip, self._left) and self._outputs is not None:
            options = replace(options, offset=self._skip, limit=self._left)
        return replace(self._plan, options=options).with_fragment_scans(scans)

    def __iter__(self) -> Iterator[_MatchingRows]:
        """Yield the matching rows of each group, up to the limit.

        Ends early at an error: a scan of the `rest` raises it behind the rows before it, and names the page.
        """
        most = _FIRST_GROUP
        while self._left != 0 and (scans := self._group(most)):
            most = min(2 * most, _MOST_GROUP)
            found = None
            with suppress(LanceError):
                rows = self._matching(scans)
                chosen = rows[self._skip : None if self._left is None else self._skip + self._left]
                found = _MatchingRows(len(chosen), self._columns(scans, chosen))
            if found is None:
                return
            self._done += len(scans)
            self._skip = max(0, self._skip - len(rows))
            self._left = None if self._left is None else self._left - len(chosen)
            yield found

    def _group(self, most: int) -> Sequence[FragmentScan]:
        """Return the next fragment scans, at most `most`; nothing at the end."""
        fragments, room = self._snapshot.manifest.fragment_by_id, _GROUP_BYTES
        scans = self._plan.fragment_scans[self._done : self._done + most]
        for number, scan in enumerate(scans):
            room -= sum([file.size for file in fragments[scan.fragment_id].files])
            if room <= 0:
                return scans[: number + 1]
        return scans

    def _matching(self, scans: Sequence[FragmentScan]) -> Offsets:
        """Return the matching rows of a group, counted from its first row."""
        from lance_core.expressions import evaluate  # late: most processes do not filter

        values = dict(zip(self._inputs.schema.names, self._read(self._inputs, scans), strict=True))
        rows: Offsets = np.arange(sum([scan.end - scan.start for scan in scans]))
        for scan in scans:
            note_rows(scan.fragment_id, 1, scan.end - scan.start)
        for condition in self._conditions:
            if not len(rows):
                break
            masks = [evaluate.passing(condition, batch) for batch in batches_of(values, len(rows))]
            chosen = places(masks[0] if len(masks) == 1 else pa.concat_arrays(masks))
            if len(chosen) < len(rows):
                rows = rows[chosen]
                values = {name: select_rows(arrays, chosen) for name, arrays in values.items()}
        return rows

    def _columns(self, scans: Sequence[FragmentScan], rows: Offsets) -> _Columns:
        """Return the columns of ascending rows of a group."""
        if self._outputs is None or not len(rows):
            return []
        counts = np.array([scan.end - scan.start for scan in scans])
        starts = np.cumsum(counts) - counts
        numbers = starts.searchsorted(rows, side="right") - 1
        kept = np.unique(numbers)
        columns = self._read(self._outputs, [scans[number] for number in kept])
        kept_starts = np.cumsum(counts[kept]) - counts[kept]
        if len(rows) == kept_starts[-1] + counts[kept[-1]]:
            return columns
        among = rows - starts[numbers] + kept_starts[kept.searchsorted(numbers)]
        return [select_rows(arrays, among) for arrays in columns]

    def _read(self, projection: Projection, scans: Sequence[FragmentScan]) -> _Columns:
        """Return all rows of fragment scans."""
        opener = FragmentOpener(self._snapshot, projection, self._files)
        fragments = [opener.open(scan) for scan in scans]
        columns = []
        for number in range(len(projection.columns)):
            reads = [ColumnRead(part, number, part.start, part.end, 1) for part in fragments]
            arrays = list(chain.from_iterable(run_reads(reads)))
            try:
                columns.append([concat_arrays(arrays)])
            except (
                pa.ArrowCapacityError
            ):  # more text than 32-bit offsets count, or more items of dictionaries
                columns.append(arrays)
        return columns
