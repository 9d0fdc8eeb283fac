"""Scans of many small fragments: the rows of a group of fragments are decoded and filtered together.

Opening a file, a window of a scan, and the statistics of a fragment have a price of their own. For a few
rows, these cost more than to decode the rows. So the columns of a filter are decoded for all fragments of a
group in one step, and the other columns for those with matching rows.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice, pairwise

import numpy as np
import pyarrow as pa

from lance_core.encodings.file_pages import TooManyBytes
from lance_core.errors import LanceError
from lance_core.expressions.tree import conjuncts
from lance_core.number_sets import distinct
from lance_core.process.counters import note_rows
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.projection import project_inputs
from lance_core.scan.plan.scan_plan import LEAST_JOINED_FRAGMENTS, FragmentScan, ScanPlan
from lance_core.scan.read.columns import batches_of
from lance_core.scan.read.live_rows import Offsets, places
from lance_core.scan.read.row_selection import select_rows
from lance_core.scan.run.batch_cutter import BatchCutter, BatchRun
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.execute import scan_batch_runs, scan_table
from lance_core.scan.run.fragment_groups import ColumnArrays, FragmentGroup, GroupReader
from lance_core.scan.run.strategy import Strategy
from lance_core.table.snapshot import Snapshot

_MOST_ROWS = 4096
"""Most rows of a small fragment."""
_MOST_FILE_BYTES = 256 << 10
"""Most bytes of the files of a small fragment."""
_FIRST_GROUP, _MOST_GROUP = 8, 256
"""Most fragments of the first group of a stream, so that the first batch comes soon, and of other groups."""
_FIRST_PART = 64
"""Most fragments of the first part of a plan, so that the first batch comes soon."""
_GROUP_BYTES = 8 << 20
"""About the most decoded bytes of the columns of a filter in a group, and of the returned columns."""
_STREAM_BYTES = 2 << 20
"""The limit of a stream, which holds a group while its client does not read: about the largest batch."""


def has_small(snapshot: Snapshot, plan: ScanPlan, strategy: Strategy) -> bool:
    """Return whether a plan has small local fragments that are read together.

    The answer depends on the plan and the manifest alone, as the batches of a scan do. A plan with a filter
    and a limit has to have small fragments only.
    """
    options = plan.options
    if snapshot.storage.is_remote:
        return False
    if options.include_deleted_rows or options.blob_handling == "all_binary":
        return False
    if not strategy.prune or strategy.trace is not None:  # a trace shows what statistics leave out
        return False
    parts = _parts(snapshot, plan)
    if _has_late_limit(plan):
        return next(parts)[0] and next(parts, None) is None
    return any(is_small for is_small, _ in parts)


def _has_late_limit(plan: ScanPlan) -> bool:
    """Return whether a limit holds for the rows that pass a filter, so that all have to be in one part."""
    options = plan.options
    return options.filter is not None and (options.limit is not None or bool(options.offset))


def _parts(snapshot: Snapshot, plan: ScanPlan) -> Iterator[tuple[bool, ScanPlan]]:
    """Yield the parts of a plan in order, and whether they have small fragments only.

    For the first part, not all fragments are looked at: there may be many thousands.
    """
    fragments = snapshot.manifest.fragment_by_id

    def is_small(scan: FragmentScan) -> bool:
        fragment = fragments[scan.fragment_id]
        if fragment.physical_rows > _MOST_ROWS:
            return False
        sizes = [file.size for file in fragment.files]
        return all(sizes) and sum(sizes) <= _MOST_FILE_BYTES

    most = sys.maxsize if _has_late_limit(plan) else _FIRST_PART
    others: list[FragmentScan] = []
    for are_small, scans in groupby(plan.fragment_scans, is_small):
        run = iter(scans)
        first = list(islice(run, LEAST_JOINED_FRAGMENTS))
        if not are_small or len(first) < LEAST_JOINED_FRAGMENTS:
            others += chain(first, run)
            continue
        if others:
            yield False, plan.with_fragment_scans(others)
            others = []
        while part := [*first, *islice(run, most)]:
            yield True, plan.with_fragment_scans(part)
            first, most = [], sys.maxsize
    if others:
        yield False, plan.with_fragment_scans(others)


def small_runs(
    snapshot: Snapshot,
    plan: ScanPlan,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy,
) -> Generator[BatchRun, None, None]:
    """Yield the rows of a plan that `has_small` fragments as batches; see `scan_batch_runs`."""
    cutter = BatchCutter(plan.schema, plan.options)
    for number, (is_small, part) in enumerate(_parts(snapshot, plan)):
        rest = part
        if is_small:
            small = _SmallFragments(
                snapshot, part, files, begins_small=number == 0, group_bytes=_STREAM_BYTES
            )
            for found in small:
                if not found.num_rows:
                    continue
                cuts, num_bytes = cutter.fit(found.columns, found.cuts(plan.options.batch_rows))
                with budget.require(num_bytes):
                    yield from cutter.cut(found.columns, cuts)
                del found  # before the next group is decoded
            rest = small.rest
        if rest.fragment_scans:
            yield from scan_batch_runs(snapshot, rest, budget, files, strategy)


def small_table(snapshot: Snapshot, plan: ScanPlan, files: DataFiles, strategy: Strategy) -> pa.Table:
    """Return the rows of a plan that `has_small` fragments as one table; see `scan_table`."""
    chunks: list[list[pa.Array]] = [[] for _ in plan.schema]
    for number, (is_small, part) in enumerate(_parts(snapshot, plan)):
        rest = part
        if is_small:
            small = _SmallFragments(snapshot, part, files, begins_small=number == 0 and _has_late_limit(plan))
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
    """Rows of a group of fragments that a filter passes, or all of them.

    Attributes:
        columns: The returned columns; empty without rows, and if rows are only counted.
        ends: Numbers of rows at which batches end: without a filter, each batch has rows of one fragment.
    """

    num_rows: int
    columns: ColumnArrays
    ends: Sequence[int]

    def cuts(self, batch_rows: int | None) -> Offsets:
        """Return the rows where batches of at most `batch_rows` begin and end."""
        cuts = [0]
        for start, end in pairwise([0, *self.ends]):
            cuts += [*range(start + (batch_rows or end), end, batch_rows or end), end]
        return np.array(cuts)


class _SmallFragments:
    """The groups of a plan whose fragments are all small, in order."""

    def __init__(
        self,
        snapshot: Snapshot,
        plan: ScanPlan,
        files: DataFiles,
        *,
        begins_small: bool = False,
        are_counted: bool = False,
        group_bytes: int = _GROUP_BYTES,
    ) -> None:
        """Prepare to read.

        If it `begins_small`, the first group has few fragments: its batch comes soon, and a limit may
        end the scan. No second group is made for the few fragments that would be left.

        If rows `are_counted`, their columns are not read, and a limit does not hold.
        """
        are_few = len(plan.fragment_scans) <= 2 * _FIRST_GROUP
        self._first_group = _FIRST_GROUP if begins_small and not are_few else _MOST_GROUP
        condition, schema = plan.options.filter, snapshot.manifest.schema
        self._snapshot = snapshot
        self._plan = plan
        self._files = files
        self._conditions = () if condition is None else conjuncts(condition)  # guards come first
        inputs = project_inputs(schema, self._conditions)
        self._input_names = inputs.schema.names
        self._inputs = GroupReader(snapshot, inputs, files, group_bytes)
        self._outputs = (
            None if are_counted else GroupReader(snapshot, plan.projection(schema), files, group_bytes)
        )
        # Without a filter, the scans of the plan are those of its limit.
        is_cut = condition is None or are_counted
        self._skip = 0 if is_cut else plan.options.offset or 0
        self._left = None if is_cut else plan.options.limit
        self._is_cut = is_cut
        self._done = 0

    @property
    def rest(self) -> ScanPlan:
        """The plan of what is not read yet; nothing at the end."""
        scans = () if self._left == 0 else self._plan.fragment_scans[self._done :]
        options = self._plan.options
        if not self._is_cut and (options.offset or 0, options.limit) != (self._skip, self._left):
            options = replace(options, offset=self._skip, limit=self._left)
        return replace(self._plan, options=options).with_fragment_scans(scans)

    def __iter__(self) -> Iterator[_PassingRows]:
        """Yield the matching rows of each group, up to the limit.

        Ends early at an error: a scan of the `rest` raises it behind the rows before it, and names the page.
        """
        most = self._first_group
        while self._left != 0 and self._done < len(self._plan.fragment_scans):
            found = None
            with suppress(LanceError):
                found = self._filtered(self._plan.fragment_scans[self._done : self._done + most])
            if found is None:
                return
            num_fragments, num_matching, rows = found
            most = min(2 * num_fragments, _MOST_GROUP)
            for scan in self._plan.fragment_scans[self._done : self._done + num_fragments]:
                note_rows(scan.fragment_id, 1, scan.end - scan.start)
            self._done += num_fragments
            self._skip = max(0, self._skip - num_matching)
            self._left = None if self._left is None else self._left - rows.num_rows
            yield rows

    def _filtered(self, scans: Sequence[FragmentScan]) -> tuple[int, int, _PassingRows]:
        """Filter the first of some fragments, as many as there is room for.

        Returns:
            The number of these fragments, the number of matching rows, and those that are returned.
        """
        reader = self._inputs if self._conditions else self._outputs
        assert reader is not None
        num_fragments = reader.fit(scans)
        while True:
            try:
                return self._filtered_group(scans[:num_fragments])
            except TooManyBytes:
                num_fragments = (num_fragments + 1) // 2

    def _filtered_group(self, scans: Sequence[FragmentScan]) -> tuple[int, int, _PassingRows]:
        """Filter some fragments; see `_filtered`. Raises TooManyBytes if several have to be fewer."""
        group = FragmentGroup(self._snapshot, self._files, scans)
        num_fragments = len(scans)
        counts = np.array([scan.end - scan.start for scan in scans])
        ends = np.cumsum(counts)
        if not self._conditions and self._outputs is not None:
            num_rows = int(ends[-1])
            found = _PassingRows(num_rows, self._outputs.read(group), ends.tolist())
            return num_fragments, num_rows, found
        matching = self._matching(group, int(ends[-1]))
        rows = matching[self._skip : None if self._left is None else self._skip + self._left]
        if self._outputs is None or not len(rows):
            return num_fragments, len(matching), _PassingRows(len(rows), [], [len(rows)])
        numbers = ends.searchsorted(rows, side="right")
        kept = distinct(numbers)
        room = self._outputs.fit([scans[number] for number in kept])
        if room < len(kept):  # the others are filtered once more, which is rare
            num_fragments = int(kept[room])
            kept = kept[:room]
            end = ends[num_fragments - 1]
            matching, rows = (some[: some.searchsorted(end)] for some in (matching, rows))
            numbers = numbers[: len(rows)]
        columns = self._outputs.read(group.some(kept))
        kept_ends = np.cumsum(counts[kept])
        if len(rows) < kept_ends[-1]:
            among = rows + (kept_ends - ends[kept])[kept.searchsorted(numbers)]
            columns = [select_rows(arrays, among) for arrays in columns]
        return num_fragments, len(matching), _PassingRows(len(rows), columns, [len(rows)])

    def _matching(self, group: FragmentGroup, num_rows: int) -> Offsets:
        """Return the matching rows of a group with `num_rows` rows, counted from the first row."""
        from lance_core.expressions import evaluate  # late: most processes do not filter

        values = dict(zip(self._input_names, self._inputs.read(group), strict=True))
        rows: Offsets = np.arange(num_rows)
        for condition in self._conditions:
            if not len(rows):
                break
            masks = [evaluate.passing(condition, batch) for batch in batches_of(values, len(rows))]
            chosen = places(masks[0] if len(masks) == 1 else pa.concat_arrays(masks))
            if len(chosen) < len(rows):
                rows = rows[chosen]
                values = {name: select_rows(arrays, chosen) for name, arrays in values.items()}
        return rows
