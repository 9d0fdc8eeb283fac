"""Filters on many small fragments: the rows of a group of fragments are filtered together.

A window of a scan has a price of its own, and so have the statistics of a fragment. For a few rows, these
cost more than to decode the rows. So the columns of the filter are decoded for all fragments of a group in
one step, and the other columns for those with matching rows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, groupby

import numpy as np
import pyarrow as pa

from lance_core.encodings.values import concat_arrays
from lance_core.errors import LanceError
from lance_core.expressions.tree import conjuncts
from lance_core.number_sets import distinct
from lance_core.process.counters import note_rows
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.projection import Projection, project_inputs
from lance_core.scan.plan.scan_plan import FragmentScan, ScanPlan
from lance_core.scan.read.columns import batches_of
from lance_core.scan.read.fragments import FragmentOpener, FragmentReader
from lance_core.scan.read.live_rows import Offsets, places
from lance_core.scan.read.row_selection import select_rows
from lance_core.scan.run.batch_cutter import BatchCutter, BatchRun
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.execute import scan_batch_runs, scan_table
from lance_core.scan.run.readahead import ColumnRead, run_reads
from lance_core.scan.run.strategy import Strategy
from lance_core.table.snapshot import Snapshot

_LEAST_FRAGMENTS = 5
"""Least small fragments, one behind the other, that are filtered together."""
_MOST_ROWS = 4096
"""Most rows of a small fragment."""
_MOST_FILE_BYTES = 256 << 10
"""Most bytes of the files of a small fragment."""
_FIRST_GROUP, _MOST_GROUP = 8, 256
"""Most fragments of the first group, so that the first batch comes soon, and of later ones."""
_GROUP_BYTES = 16 << 20
"""About the most decoded bytes of the columns of a filter in a group, and of the returned columns."""
_STREAM_BYTES = 1 << 20
"""The limit of a stream, which holds a group while its client does not read."""

_ColumnArrays = list[list[pa.Array]]
"""Arrays of each column, in the order of the rows."""


def has_small(snapshot: Snapshot, plan: ScanPlan, strategy: Strategy) -> bool:
    """Return whether a plan with a filter has small local fragments that are filtered together.

    The answer depends on the plan and the manifest alone, as the batches of a scan do. A plan with a limit
    has to have small fragments only.
    """
    options = plan.options
    if len(plan.fragment_scans) < _LEAST_FRAGMENTS or snapshot.storage.is_remote:
        return False
    if options.include_deleted_rows or options.blob_handling == "all_binary":
        return False
    if not strategy.prune or strategy.trace is not None:  # a trace shows what statistics leave out
        return False
    parts = _parts(snapshot, plan)
    if options.limit is not None or options.offset:
        return next(parts)[0] and next(parts, None) is None
    return any(is_small for is_small, _ in parts)


def _parts(snapshot: Snapshot, plan: ScanPlan) -> Iterator[tuple[bool, ScanPlan]]:
    """Yield the parts of a plan in order, and whether they have small fragments only."""
    fragments = snapshot.manifest.fragment_by_id

    def is_small(scan: FragmentScan) -> bool:
        fragment = fragments[scan.fragment_id]
        if fragment.physical_rows > _MOST_ROWS:
            return False
        sizes = [file.size for file in fragment.files]
        return all(sizes) and sum(sizes) <= _MOST_FILE_BYTES

    runs = [(small, list(scans)) for small, scans in groupby(plan.fragment_scans, is_small)]
    joined = groupby(runs, lambda run: run[0] and len(run[1]) >= _LEAST_FRAGMENTS)
    for are_many, some in joined:
        yield are_many, plan.with_fragment_scans(chain.from_iterable(scans for _, scans in some))


def small_runs(
    snapshot: Snapshot,
    plan: ScanPlan,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy,
) -> Generator[BatchRun, None, None]:
    """Yield the rows of a plan that `has_small` fragments as batches; see `scan_batch_runs`."""
    cutter = BatchCutter(plan.schema, plan.options)
    for is_small, part in _parts(snapshot, plan):
        rest = part
        if is_small:
            small = _SmallFragments(snapshot, part, files, group_bytes=_STREAM_BYTES)
            for found in small:
                if not found.num_rows:
                    continue
                most_rows = plan.options.batch_rows or found.num_rows
                cuts = np.array([*range(0, found.num_rows, most_rows), found.num_rows])
                cuts, num_bytes = cutter.fit(found.columns, cuts)
                with budget.require(num_bytes):
                    yield from cutter.cut(found.columns, cuts)
                del found  # before the next group is decoded
            rest = small.rest
        if rest.fragment_scans:
            yield from scan_batch_runs(snapshot, rest, budget, files, strategy)


def small_table(snapshot: Snapshot, plan: ScanPlan, files: DataFiles, strategy: Strategy) -> pa.Table:
    """Return the rows of a plan that `has_small` fragments as one table; see `scan_table`."""
    chunks: list[list[pa.Array]] = [[] for _ in plan.schema]
    for is_small, part in _parts(snapshot, plan):
        rest = part
        if is_small:
            small = _SmallFragments(snapshot, part, files)
            for found in small:
                for column, arrays in zip(chunks, found.columns or [[]] * len(chunks), strict=True):
                    column += arrays
            rest = small.rest
        if rest.fragment_scans:
            table = scan_table(snapshot, rest, files, strategy)
            for column, more in zip(chunks, table.columns, strict=True):
                column += more.chunks
    columns = [pa.chunked_array(some, field.type) for some, field in zip(chunks, plan.schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=plan.schema)


def count_small(snapshot: Snapshot, plan: ScanPlan, files: DataFiles) -> tuple[int, ScanPlan]:
    """Count rows of a plan without a limit that `has_small` fragments.

    Returns:
        The number of rows, and the plan of the fragments whose rows a scan has to count.
    """
    count, rest = 0, list[FragmentScan]()
    for is_small, part in _parts(snapshot, plan):
        if is_small:
            small = _SmallFragments(snapshot, part, files, are_counted=True)
            count += sum(found.num_rows for found in small)
            part = small.rest
        rest += part.fragment_scans
    return count, plan.with_fragment_scans(rest)


@dataclass(frozen=True)
class _PassingRows:
    """Rows of a group of fragments that a filter passes.

    Attributes:
        columns: The returned columns; empty without rows, and if rows are only counted.
    """

    num_rows: int
    columns: _ColumnArrays


class _SmallFragments:
    """The groups of a plan with a filter whose fragments are all small, in order."""

    def __init__(
        self,
        snapshot: Snapshot,
        plan: ScanPlan,
        files: DataFiles,
        *,
        are_counted: bool = False,
        group_bytes: int = _GROUP_BYTES,
    ) -> None:
        """Prepare to filter. If rows `are_counted`, their columns are not read, and a limit does not hold."""
        condition, schema = plan.options.filter, snapshot.manifest.schema
        assert condition is not None
        self._plan = plan
        self._conditions = conjuncts(condition)  # guards come first
        inputs = project_inputs(schema, self._conditions)
        self._input_names = inputs.schema.names
        self._inputs = _GroupReader(snapshot, inputs, files, group_bytes)
        self._outputs = (
            None if are_counted else _GroupReader(snapshot, plan.projection(schema), files, group_bytes)
        )
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

    def __iter__(self) -> Iterator[_PassingRows]:
        """Yield the matching rows of each group, up to the limit.

        Ends early at an error: a scan of the `rest` raises it behind the rows before it, and names the page.
        """
        most = _FIRST_GROUP
        while self._left != 0 and self._done < len(self._plan.fragment_scans):
            found = None
            with suppress(LanceError):
                found = self._filtered(self._plan.fragment_scans[self._done : self._done + most])
            if found is None:
                return
            num_fragments, num_matching, rows = found
            most = min(2 * num_fragments, _MOST_GROUP)
            self._done += num_fragments
            self._skip = max(0, self._skip - num_matching)
            self._left = None if self._left is None else self._left - rows.num_rows
            yield rows

    def _filtered(self, scans: Sequence[FragmentScan]) -> tuple[int, int, _PassingRows]:
        """Filter the first of some fragments, as many as there is room for.

        Returns:
            The number of these fragments, the number of matching rows, and those that are returned.
        """
        fragments = self._inputs.open(scans)
        counts = np.array([scan.end - scan.start for scan in scans[: len(fragments)]])
        ends = np.cumsum(counts)
        matching = self._matching(fragments, int(ends[-1]))
        rows = matching[self._skip : None if self._left is None else self._skip + self._left]
        if self._outputs is None or not len(rows):
            return len(fragments), len(matching), _PassingRows(len(rows), [])
        numbers = ends.searchsorted(rows, side="right")
        kept = distinct(numbers)
        opened = self._outputs.open([scans[number] for number in kept])
        num_fragments = len(fragments)
        if len(opened) < len(kept):  # the others are filtered once more, which is rare
            num_fragments = int(kept[len(opened)])
            kept = kept[: len(opened)]
            end = ends[num_fragments - 1]
            matching, rows = (some[: some.searchsorted(end)] for some in (matching, rows))
            numbers = numbers[: len(rows)]
        columns = self._outputs.read(opened)
        kept_ends = np.cumsum(counts[kept])
        if len(rows) < kept_ends[-1]:
            among = rows + (kept_ends - ends[kept])[kept.searchsorted(numbers)]
            columns = [select_rows(arrays, among) for arrays in columns]
        return num_fragments, len(matching), _PassingRows(len(rows), columns)

    def _matching(self, fragments: Sequence[FragmentReader], num_rows: int) -> Offsets:
        """Return the matching rows of fragments with `num_rows` together, counted from the first row."""
        from lance_core.expressions import evaluate  # late: most processes do not filter

        values = dict(zip(self._input_names, self._inputs.read(fragments), strict=True))
        rows: Offsets = np.arange(num_rows)
        for fragment in fragments:
            note_rows(fragment.scan.fragment_id, 1, fragment.end - fragment.start)
        for condition in self._conditions:
            if not len(rows):
                break
            masks = [evaluate.passing(condition, batch) for batch in batches_of(values, len(rows))]
            chosen = places(masks[0] if len(masks) == 1 else pa.concat_arrays(masks))
            if len(chosen) < len(rows):
                rows = rows[chosen]
                values = {name: select_rows(arrays, chosen) for name, arrays in values.items()}
        return rows


class _GroupReader:
    """Reader of some columns of groups of fragments."""

    def __init__(
        self, snapshot: Snapshot, projection: Projection, files: DataFiles, group_bytes: int
    ) -> None:
        self._group_bytes = group_bytes
        self._opener = FragmentOpener(snapshot, projection, files)
        self._num_columns = len(projection.columns)
        # Sizes are estimated from metadata. The real size of compressed data is known from the group before.
        self._growth = 1.0

    def open(self, scans: Sequence[FragmentScan]) -> list[FragmentReader]:
        """Open the first of some fragments, at least one, up to about `group_bytes` of decoded columns."""
        opened: list[FragmentReader] = []
        room = self._group_bytes / self._growth
        for scan in scans:
            opened.append(self._opener.open(scan))
            room -= _estimated_bytes(opened[-1])
            if room < 0:
                break
        return opened

    def read(self, fragments: Sequence[FragmentReader]) -> _ColumnArrays:
        """Return all rows of fragments."""
        columns = []
        for number in range(self._num_columns):
            reads = [ColumnRead(part, number, part.start, part.end, 1) for part in fragments]
            arrays = list(chain.from_iterable(run_reads(reads)))
            try:
                columns.append([concat_arrays(arrays)])
            except pa.ArrowCapacityError:  # more text or items of dictionaries than one array holds
                columns.append(arrays)
        num_bytes = sum([array.get_total_buffer_size() for arrays in columns for array in arrays])
        self._growth = max(1.0, num_bytes / max(1.0, sum(map(_estimated_bytes, fragments))))
        return columns


def _estimated_bytes(fragment: FragmentReader) -> float:
    width = sum([column.bytes_per_row for column in fragment.columns])
    return (fragment.scan.end - fragment.scan.start) * width
