"""Exact search: every vector of a plan is compared with the queries.

Worker threads read windows of vectors and keep the nearest rows of each; the column is never in memory as a
whole. With a filter, the scan that finds matching rows runs first, a few windows ahead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lance_core.expressions.tree import Expression
from lance_core.file.page_ranges import PlainValues
from lance_core.pool import num_workers
from lance_core.process.counters import note_rows
from lance_core.process.deferred import DeferredError, Lookahead
from lance_core.process.readers import look_at_reader
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.nearest.candidates import Candidates, best_of_all
from lance_core.scan.nearest.comparing import Comparer, NearestRows, join_rows
from lance_core.scan.plan.nearest import NearestQuery
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import project
from lance_core.scan.plan.scan_plan import FragmentScan, ScanPlan
from lance_core.scan.read.columns import Column, StoredColumn
from lance_core.scan.read.fragments import FragmentOpener, FragmentReader
from lance_core.scan.read.live_rows import Offsets
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.filtering.filter_windows import FilterWindow
from lance_core.scan.run.filtering.filtered_scan import filter_jobs
from lance_core.scan.run.filtering.index_masks import index_masks
from lance_core.scan.run.filtering.row_filter import Matches
from lance_core.scan.run.page_cuts import cut_rows
from lance_core.scan.run.readahead import Job, Source, run_ahead
from lance_core.scan.run.strategy import Strategy
from lance_core.scan.take.keys import Keys, address_of
from lance_core.schema.arrow_values import numbers_of
from lance_core.table.snapshot import Snapshot

# Bytes of vectors that one thread reads and compares at once: they stay in the cache of the processor.
_READ_BYTES = 2 << 20
# Windows begin between two mini-blocks of a flat column (docs/format.md, "Mini-block pages").
_READ_MULTIPLE = 4096
# If at least this share of a range of rows is compared, the range is read whole.
_DENSE_SHARE = 1 / 4
# Most queries that a kernel compares with a range of rows at once. Between its calls, a caller that has left
# is noticed. Its memory grows with the queries.
_MOST_QUERIES = 4096
_VECTORS, _ROW_IDS = 0, 1
"""Numbers of the columns of the projection. The second one exists only with stable row ids."""


@dataclass(frozen=True)
class _Search:
    """Facts that all reads of a search share."""

    comparers: tuple[Comparer, ...]
    """The queries, at most `_MOST_QUERIES` each."""
    k: int
    has_row_ids: bool

    @classmethod
    def of(cls, query: NearestQuery, metric: str, *, has_row_ids: bool) -> _Search:
        """Return the search of a query by a metric."""
        numbers = query.numbers
        if len(numbers) <= _MOST_QUERIES or not query.is_batch:
            return cls((Comparer(query, metric),), query.k, has_row_ids)
        groups = np.array_split(numbers, -(-len(numbers) // _MOST_QUERIES))
        return cls(tuple(Comparer(query, metric, group) for group in groups), query.k, has_row_ids)

    def nearest(self, arrays: Sequence[pa.Array], rows: Offsets | None, keys: Keys | None) -> NearestRows:
        """Return the nearest rows of each query; see `Comparer.nearest`."""
        found = self._of_all(lambda comparer: comparer.nearest(arrays, self.k, rows, keys))
        assert found is not None
        return found

    def in_file(self, place: PlainValues, rows: Offsets | None, keys: Keys | None) -> NearestRows | None:
        """Return the nearest rows of each query, if vectors need not be read; see `Comparer.in_file`."""
        return self._of_all(lambda comparer: comparer.in_file(place, self.k, rows, keys))

    def _of_all(self, compare: Callable[[Comparer], NearestRows | None]) -> NearestRows | None:
        """Return what all comparers find; None if one of them finds nothing."""
        if len(self.comparers) == 1:
            return compare(self.comparers[0])
        parts: list[NearestRows] = []
        first = 0
        for comparer in self.comparers:
            look_at_reader()
            found = compare(comparer)
            if found is None:
                return None
            parts.append(found._replace(queries=found.queries + np.int32(first)))
            first += comparer.num_queries
        return join_rows(parts)

    def candidates(
        self, fragment: FragmentReader, found: NearestRows, rows: Offsets, ids: Keys | None
    ) -> Candidates:
        """Return what was found among rows of a fragment, with the given physical row numbers and ids."""
        addresses = address_of(fragment.scan.fragment_id, rows[found.rows])
        row_ids = addresses if ids is None else ids[found.rows]
        return Candidates(found.queries, found.distances, row_ids, addresses)


@dataclass(frozen=True)
class RangeRead:
    """Comparison of the live rows of the physical range `[start, end)` of a fragment, or of some of them.

    Attributes:
        rows: The physical rows to compare, ascending; None means all live rows.
        held: The vectors of `rows`, if they are decoded already.
    """

    search: _Search
    fragment: FragmentReader
    start: int
    end: int
    num_bytes: int
    rows: Offsets | None = None
    held: tuple[pa.Array, ...] | None = None

    def run(self) -> Candidates:
        rows = self.rows
        if rows is not None and (self.held is not None or not self._is_dense(rows)):
            return self._compare_some(rows)
        if rows is None and self.fragment.num_live_rows(self.start, self.end) < self.end - self.start:
            rows = self.fragment.live_rows(self.start, self.end)
        ids = self._ids(lambda column: column.read(self.start, self.end))
        chosen = None if rows is None else rows - self.start
        found = self._in_file(chosen, ids)
        if found is None:
            arrays = self.fragment.columns[_VECTORS].read(self.start, self.end)
            found = self.search.nearest(arrays, chosen, ids)
        return self.search.candidates(self.fragment, found, np.arange(self.start, self.end), ids)

    def _in_file(self, rows: Offsets | None, ids: Keys | None) -> NearestRows | None:
        """Return the nearest rows without a copy of the vectors; None if the vectors have to be read."""
        column = self.fragment.columns[_VECTORS]
        place = column.plain_values(self.start, self.end) if isinstance(column, StoredColumn) else None
        return None if place is None else self.search.in_file(place, rows, ids)

    def _compare_some(self, rows: Offsets) -> Candidates:
        """Compare rows that are taken one by one."""
        column = self.fragment.columns[_VECTORS]
        arrays = column.take(rows) if self.held is None else self.held
        ids = self._ids(lambda column: column.take(rows))
        found = self.search.nearest(arrays, None, ids)
        return self.search.candidates(self.fragment, found, rows, ids)

    def _is_dense(self, rows: Offsets) -> bool:
        return len(rows) >= _DENSE_SHARE * (self.end - self.start)

    def _ids(self, read: Callable[[Column], list[pa.Array]]) -> Keys | None:
        if not self.search.has_row_ids:
            return None
        ids = read(self.fragment.columns[_ROW_IDS])
        return numbers_of(ids[0]) if len(ids) == 1 else np.concatenate([numbers_of(part) for part in ids])


@dataclass(frozen=True)
class VectorWindow:
    """Vectors that one job compares."""

    reads: tuple[RangeRead, ...]


class VectorWindows(Source[VectorWindow]):
    """All live rows of a plan, in windows."""

    def __init__(self, search: _Search, scans: Sequence[FragmentScan], opener: FragmentOpener) -> None:
        self._search = search
        self._reads = Lookahead(self._all_reads(opener.open_all(scans)))

    def take(self, num_bytes: int) -> VectorWindow | None:
        """Return the next reads, of about `num_bytes` together; None at the end."""
        reads: list[RangeRead] = []
        while num_bytes > 0 and (read := self._reads.peek(in_turn=not reads)) is not None:
            reads.append(read)
            self._reads.take()
            num_bytes -= read.num_bytes
        return VectorWindow(tuple(reads)) if reads else None

    def _all_reads(self, fragments: Iterator[FragmentReader]) -> Iterator[RangeRead]:
        for fragment in fragments:
            column = fragment.columns[_VECTORS]
            width = max(column.bytes_per_row, 1.0)
            for start, end in cut_rows(
                column.page_rows,
                fragment.start,
                fragment.end,
                aimed_rows=max(1, int(_READ_BYTES / width)),
                growth=1.5,
                most_rows=None,
                multiple=_READ_MULTIPLE,
            ):
                note_rows(fragment.scan.fragment_id, 1, end - start)
                yield RangeRead(self._search, fragment, start, end, int(width * (end - start)) + 1)


class MatchingVectors(Source[VectorWindow]):
    """The rows that match a filter, as the jobs that find them give them."""

    def __init__(self, search: _Search, jobs: Generator[Job[FilterWindow], None, None]) -> None:
        self._search = search
        self._jobs = jobs
        self._job: Job[FilterWindow] | None = None
        self._waiting: deque[RangeRead] = deque()
        self._error = DeferredError()
        self._is_done = False

    def is_ready(self) -> bool:
        """Return whether rows are known, or the next job of the filter is done."""
        while not self._waiting and not self._is_done:
            if not self._advance(wait=False):
                return False
        return True

    def take(self, num_bytes: int) -> VectorWindow | None:
        """Return the next reads, of about `num_bytes` together; None at the end."""
        while not self._waiting and not self._is_done:
            self._advance(wait=True)
        reads: list[RangeRead] = []
        while self._waiting and num_bytes > 0:
            reads.append(self._waiting.popleft())
            num_bytes -= reads[-1].num_bytes
        if reads:
            return VectorWindow(tuple(reads))
        self._error.raise_kept()
        return None

    def _advance(self, *, wait: bool) -> bool:
        """Add the rows of the next job of the filter. Return False if it is not done yet."""
        if self._job is None:
            self._job = next(self._jobs, None)
            if self._job is None:
                self._is_done = True
                return True
        if not wait and not self._job.is_done:
            return False
        job, self._job = self._job, None
        with self._error:  # raised after the rows that were found before
            for some in job.results():
                for matches in some:
                    self._waiting += self._reads_of(matches)
        self._is_done = self._error.error is not None
        return True

    def _reads_of(self, matches: Matches) -> Iterator[RangeRead]:
        """Yield the reads of matching rows of one fragment, each of about `_READ_BYTES`."""
        if not matches.num_rows:
            return
        fragment, rows = matches.fragment, matches.rows
        width = max(fragment.columns[_VECTORS].bytes_per_row, 1.0)
        held = matches.held.get(_VECTORS)
        step = len(rows) if held is not None else max(1, int(_READ_BYTES / width))
        for first in range(0, len(rows), step):
            some = rows[first : first + step]
            start, end = int(some[0]), int(some[-1]) + 1
            num_bytes = int(width * len(some)) + 1
            yield RangeRead(
                self._search,
                fragment,
                start,
                end,
                num_bytes,
                some,
                None if held is None else tuple(held),
            )


def exact_candidates(
    snapshot: Snapshot,
    query: NearestQuery,
    metric: str,
    condition: Expression | None,
    plan: ScanPlan,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy,
) -> Candidates:
    """Return the nearest rows of each query among the rows of a plan.

    Args:
        snapshot: The version of the table.
        query: The search; an index is not used.
        metric: The metric, one of `METRICS`.
        condition: Condition of the rows that are searched; its first `plan.options.guards` parts are guards.
        plan: The fragments that are searched. All its rows are, whatever its limit and offset.
        budget, files, strategy: As for `scan_batches`.

    Raises:
        LanceError: Something cannot be read.
    """
    has_row_ids = snapshot.manifest.has_stable_row_ids
    search = _Search.of(query, metric, has_row_ids=has_row_ids)
    options = ScanOptions(
        columns=(query.column,),
        with_row_id=has_row_ids,
        filter=condition,
        guards=plan.options.guards,
        verify_checksums=plan.options.verify_checksums,
        use_scalar_index=plan.options.use_scalar_index,
    )
    projection = project(snapshot.manifest.schema, options)
    is_remote = snapshot.storage.is_remote
    most_jobs = 2 + num_workers(is_remote)
    if condition is None:
        opener = FragmentOpener(snapshot, projection, files, strategy.trace)
        windows = VectorWindows(search, plan.fragment_scans, opener)
        alone = 0 if is_remote else 1  # all windows are needed, so that remote ones begin at once
        with closing(run_ahead(windows, budget, most_jobs, is_remote, num_alone=alone)) as jobs:
            return best_of_all(_results(jobs), query.k)
    filtered = replace(plan, options=options, schema=projection.schema)
    quick = replace(strategy, is_stream=False)
    masks = index_masks(snapshot, options, files) if strategy.prune else None
    with closing(filter_jobs(snapshot, filtered, budget, files, quick, masks)) as found:
        matching = MatchingVectors(search, found)
        with closing(run_ahead(matching, budget, most_jobs, is_remote)) as jobs:
            return best_of_all(_results(jobs), query.k)


def _results(jobs: Iterator[Job[VectorWindow]]) -> Iterator[Candidates]:
    for job in jobs:
        yield from job.results()
