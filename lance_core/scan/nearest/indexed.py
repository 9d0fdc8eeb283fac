"""Search with a vector index, joined with an exact search of the rows that the index does not cover.

Every segment of the index gives its nearest rows. Rows that are deleted, that the segment does not cover any
more, or that do not match the filter are left out inside of the search. The distances are the estimates of
the index, or exact: if the search asks for it (`refine_factor`), if it has bounds of distances, or if rows
without an index take part, whose exact distances could not be compared with estimates. The distance of a row
with several vectors is always exact: the index only proposes rows with a vector near to one of the query.

Rows beyond the bounds of a search use up none of its places: if exact distances show that too few of the rows
that the index proposed are within the bounds, it is asked for more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np
import numpy.typing as npt

from lance_core.expressions.tree import Expression
from lance_core.index.vector.segment_search import Neighbours, SegmentQuery, VectorSegment
from lance_core.kernels import KeySet
from lance_core.number_sets import are_among
from lance_core.pool import num_workers, run_all
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.nearest.candidates import NO_CANDIDATES, Candidates, best_of, first_of_each, join
from lance_core.scan.nearest.comparing import Comparer, Distances
from lance_core.scan.nearest.exact import exact_candidates
from lance_core.scan.plan.nearest import NearestQuery
from lance_core.scan.plan.options import ScanOptions, column_options
from lance_core.scan.plan.projection import project
from lance_core.scan.plan.scan_plan import ScanPlan
from lance_core.scan.read.row_selection import read_rows
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.filtering.filtered_scan import filter_jobs
from lance_core.scan.run.filtering.index_masks import answered_rows, index_masks
from lance_core.scan.run.strategy import Strategy
from lance_core.scan.take.keys import Keys, address_of, are_ascending, fragments_of, grouped
from lance_core.scan.take.taker_cache import taker_of
from lance_core.schema.arrow_values import numbers_of
from lance_core.table.snapshot import Snapshot

# Bytes of vectors that are taken at once, for their exact distances.
_TAKEN_BYTES = 8 << 20
# Least share of live rows for which only the found rows are tested, instead of all rows that are searched.
_MOSTLY_LIVE = 0.9
# If at most this many rows meet a filter, their exact distances cost less than a search of the index.
_FEW_MATCHES = 2048
# Most exact distances of such rows that are computed at once, so that memory does not grow with the queries.
_MOST_COMPARED = 1 << 22
# If a search with bounds finds too few rows, it searches again for this many times as many rows.
_GROWTH = 4
# Most rows that such repeated searches may gather, for all queries together.
_MOST_GATHERED = 1 << 20
# Most query vectors that search a segment at once. More would not be in the cache of the processor together.
_MOST_GROUPED = 64

Allowed = Callable[[Keys], npt.NDArray[np.bool_]]


@dataclass(frozen=True)
class CoveringSegment:
    """An opened segment of a vector index, and the fragments of a search that it covers.

    Attributes:
        segment: The segment.
        fragment_ids: Ids of the fragments.
        sorted_ids: The same ids, ascending.
    """

    segment: VectorSegment
    fragment_ids: frozenset[int]
    sorted_ids: Keys

    @classmethod
    def of(cls, segment: VectorSegment, fragment_ids: frozenset[int]) -> CoveringSegment:
        """Return a segment with some fragments that it covers."""
        return cls(segment, fragment_ids, np.array(sorted(fragment_ids), np.uint64))


class IndexedSearch:
    """A search of some rows with an index."""

    def __init__(
        self,
        snapshot: Snapshot,
        query: NearestQuery,
        segments: Sequence[CoveringSegment],
        condition: Expression | None,
        plan: ScanPlan,
        budget: MemoryBudget,
        files: DataFiles,
        strategy: Strategy,
    ) -> None:
        """Prepare a search with one or more segments of one index; the arguments besides are those of
        `exact_candidates`.
        """
        self._snapshot = snapshot
        self._query = query
        self._segments = segments
        self._condition = condition
        self._plan = plan
        self._reads = budget, files, strategy
        projection = project(snapshot.manifest.schema, column_options(query.column))
        self._taker = taker_of(snapshot, projection, files)
        self._finder = self._taker.addresses
        self._metric = segments[0].segment.metric

    def candidates(self) -> Candidates:
        """Return the nearest rows of each query.

        Raises:
            LanceError: Something cannot be read.
        """
        query = self._query
        first, *more = [each.fragment_ids for each in self._segments]
        covered = first.union(*more) if more else first
        scans = self._plan.fragment_scans
        # The covered fragments are among those of the scans.
        is_all = len(covered) == len(scans)
        others = [] if is_all else [scan for scan in scans if scan.fragment_id not in covered]
        has_others = bool(others) and not self._plan.options.fast_search
        is_exact = all(each.segment.is_exact for each in self._segments)
        is_refined = (
            query.refine_factor is not None
            or query.vectors.is_multiple
            or (not is_exact and (has_others or self._has_bounds))
        )
        found = self._of_segments(covered, is_refined=is_refined)
        if not has_others:
            return found
        plan = self._plan.with_fragment_scans(others)
        compared = exact_candidates(self._snapshot, query, self._metric, self._condition, plan, *self._reads)
        return best_of([found, compared], query.k)

    @property
    def _has_bounds(self) -> bool:
        return (self._query.lower, self._query.upper) != (None, None)

    @property
    def _wanted(self) -> int:
        """Rows that the index is asked for, for each query vector."""
        return self._query.k * (self._query.refine_factor or 1)

    def _of_segments(self, covered: frozenset[int], *, is_refined: bool) -> Candidates:
        """Return the `k` nearest rows that the segments find for each query, with exact distances if
        `is_refined`.
        """
        matching: KeySet | None = None
        if self._condition is not None:
            row_ids, addresses = self._matching(covered)
            if len(row_ids) <= max(_FEW_MATCHES, self._query.k):
                return self._exact_of_all(row_ids, addresses)
            matching = KeySet(row_ids)
        if is_refined:
            return self._refined(matching)
        numbers = np.arange(len(self._query.numbers))
        return self._proposed(numbers, matching, self._wanted, within_bounds=True)

    def _refined(self, matching: KeySet | None) -> Candidates:
        """Return the `k` nearest rows of each query, with their exact distances."""
        query = self._query
        best, numbers, num_rows = NO_CANDIDATES, np.arange(len(query.numbers)), self._wanted
        within_bounds = False
        while len(numbers):
            proposed = self._proposed(numbers, matching, num_rows, within_bounds=within_bounds)
            exact = self._exact(proposed)
            # One round of proposals has each row once, unless two segments have the row.
            are_distinct = not len(best.queries) and (query.vectors.is_multiple or len(self._segments) == 1)
            best = best_of([exact if are_distinct else _distinct([best, exact])], query.k)
            if within_bounds or not self._has_bounds:
                break
            numbers = self._lacking(numbers, proposed, exact, num_rows)
            num_rows *= _GROWTH
            if num_rows * len(numbers) > _MOST_GATHERED:
                # Gathering all rows below the lower bound would need too much memory: estimates tell them.
                num_rows, within_bounds = self._wanted, True
        return best

    def _lacking(
        self, numbers: npt.NDArray[np.intp], proposed: Candidates, exact: Candidates, num_rows: int
    ) -> npt.NDArray[np.intp]:
        """Return the query vectors that lack rows within the bounds, and for which there may be more.

        `exact` are those of the proposed rows that are within the bounds.
        """
        query = self._query
        num_proposed = np.bincount(proposed.queries, minlength=query.num_queries)
        num_enough = np.bincount(exact.queries, minlength=query.num_queries)
        if query.upper is not None:
            # After rows with such estimates, few are within the bounds.
            is_beyond = proposed.distances >= query.upper
            num_enough += np.bincount(proposed.queries[is_beyond], minlength=query.num_queries)
        lacks = (num_proposed >= num_rows) & (num_enough < self._wanted)
        return numbers[lacks[numbers if query.is_batch else np.zeros_like(numbers)]]

    def _proposed(
        self, numbers: npt.NDArray[np.intp], matching: KeySet | None, num_rows: int, *, within_bounds: bool
    ) -> Candidates:
        """Return the `num_rows` rows that the segments deem nearest to each of some query vectors.

        `within_bounds`: leave out the rows that are beyond the bounds by these distances.
        """
        calls = [
            partial(self._found, some, each, matching, num_rows, within_bounds)
            for some in self._groups(numbers)
            for each in self._segments
        ]
        found = [call() for call in calls] if len(calls) < 2 else run_all(calls)
        if self._query.vectors.is_multiple:
            return _distinct(found)
        # A segment returns them in order.
        return join(found) if len(self._segments) == 1 else best_of(found, num_rows)

    def _groups(self, numbers: npt.NDArray[np.intp]) -> list[npt.NDArray[np.intp]]:
        """Return query vectors in groups that are searched side by side, each group at once."""
        if len(numbers) < 2:
            return [numbers]
        num_threads = -(-num_workers() // len(self._segments))
        num_groups = max(num_threads, -(-len(numbers) // _MOST_GROUPED))
        return np.array_split(numbers, min(num_groups, len(numbers)))

    def _matching(self, covered: frozenset[int]) -> tuple[Keys, Keys]:
        """Return the ids and the addresses of the rows of covered fragments that match the filter, in the
        order of the ids.
        """
        has_row_ids = self._snapshot.manifest.has_stable_row_ids
        options = ScanOptions(
            columns=(),
            filter=self._condition,
            guards=self._plan.options.guards,
            with_row_id=has_row_ids,
            verify_checksums=self._plan.options.verify_checksums,
            use_scalar_index=self._plan.options.use_scalar_index,
        )
        schema = project(self._snapshot.manifest.schema, options).schema
        scans = [scan for scan in self._plan.fragment_scans if scan.fragment_id in covered]
        plan = replace(self._plan, options=options, schema=schema).with_fragment_scans(scans)
        budget, files, strategy = self._reads
        ids, addresses = [np.array([], np.uint64)], [np.array([], np.uint64)]
        masks = index_masks(self._snapshot, options, files) if strategy.prune else None
        if masks is not None and not has_row_ids:
            answered, plan = answered_rows(self._snapshot, plan, masks, files)
            addresses.append(answered)
        quick = replace(strategy, is_stream=False)
        with closing(filter_jobs(self._snapshot, plan, budget, files, quick, masks)) as jobs:
            for matches in chain.from_iterable(chain.from_iterable(job.results() for job in jobs)):
                addresses.append(address_of(matches.fragment.scan.fragment_id, matches.rows))
                if has_row_ids:
                    (row_ids,) = matches.fragment.columns[: len(schema)]
                    ids += [numbers_of(part) for part in read_rows(row_ids, matches.rows)]
        found = np.concatenate(addresses)
        matching = np.concatenate(ids) if has_row_ids else found
        if not are_ascending(matching):
            order = np.argsort(matching)
            matching, found = matching[order], found[order]
        return matching, found

    def _exact_of_all(self, row_ids: Keys, addresses: Keys) -> Candidates:
        """Return the `k` nearest of some rows to each query, by their exact distances; see `_exact`."""
        query = self._query
        num_together = max(1, _MOST_COMPARED // max(1, len(row_ids)))
        parts: list[Candidates] = []
        for first in range(0, query.num_queries, num_together):
            numbers = query.numbers[first : first + num_together] if query.is_batch else None
            comparer = Comparer(query, self._metric, numbers, one_by_one=True)
            distances = self._distances(comparer, addresses)
            is_kept = comparer.are_within(distances)
            if query.k < len(row_ids):
                distances = np.where(is_kept, distances, np.float32(np.nan))  # NaN is the greatest
                farthest = np.partition(distances, query.k - 1, axis=1)[:, query.k - 1, np.newaxis]
                is_kept &= ~(distances > farthest)
            queries, places = np.nonzero(is_kept)
            kept = Candidates(
                (first + queries).astype(np.int32),
                distances[queries, places],
                row_ids[places],
                addresses[places],
            )
            parts.append(best_of([kept], query.k))
        return join(parts)

    def _found(
        self,
        numbers: npt.NDArray[np.intp],
        covering: CoveringSegment,
        matching: KeySet | None,
        num_rows: int,
        within_bounds: bool,
    ) -> Candidates:
        """Return the nearest rows of one segment for some query vectors, by their ascending numbers."""
        query = self._query
        kind = query.vectors.query_type(self._metric)
        asked = SegmentQuery(
            query.numbers[numbers].astype(kind),
            num_rows,
            minimum_probes=query.minimum_probes,
            maximum_probes=query.maximum_probes,
            search_effort=query.search_effort,
            candidates=query.candidates,
            approximation=query.approximation,
            lower=query.lower if within_bounds else None,
            upper=query.upper if within_bounds else None,
            allowed=self._allowed(covering, matching),
        )
        rounds: list[Candidates] = []
        while True:
            found = covering.segment.nearest(asked)
            located = self._located(numbers, covering, found)
            if len(located.queries) == len(found.queries):
                break
            # Some rows are deleted, or have moved out of the covered fragments since the index was built.
            num_located = np.bincount(located.queries, minlength=len(query.numbers))[numbers]
            num_found = np.bincount(found.queries, minlength=len(numbers))
            lacks = (num_located < num_rows) & (num_found >= asked.num_nearest)
            if not lacks.any():
                break
            rounds.append(located.at(are_among(numbers[~lacks].astype(np.int32), located.queries)))
            numbers = numbers[lacks]
            asked = replace(asked, vectors=asked.vectors[lacks], num_nearest=2 * asked.num_nearest)
        if rounds:
            located = join([*rounds, located])
            located = first_of_each(located.at(np.argsort(located.queries, kind="stable")), num_rows)
        return located if query.is_batch else located._replace(queries=np.zeros_like(located.queries))

    def _allowed(self, covering: CoveringSegment, matching: KeySet | None) -> Allowed | None:
        """Return the test for row keys of a segment that decides which rows may be found."""
        if matching is not None:
            return lambda keys: np.frombuffer(memoryview(matching.flags(keys)), np.bool_)
        if self._snapshot.manifest.has_stable_row_ids or self._has_few_deleted(covering):
            return None  # `_located` leaves out rows that are not there
        return partial(self._finder.are_live, fragment_ids=covering.sorted_ids)

    def _has_few_deleted(self, covering: CoveringSegment) -> bool:
        """Return whether it costs less to look for more rows than to test all rows that are searched."""
        if not self._snapshot.manifest.totals.deletion_files:
            return True
        known = self._snapshot.manifest.fragment_by_id
        fragments = [known[number] for number in covering.fragment_ids if number in known]
        num_physical = sum(fragment.physical_rows for fragment in fragments)
        return sum(fragment.num_rows for fragment in fragments) >= _MOSTLY_LIVE * num_physical

    def _located(
        self, numbers: npt.NDArray[np.intp], covering: CoveringSegment, found: Neighbours
    ) -> Candidates:
        """Return the answer of a segment to some query vectors with the addresses of its rows, without rows
        that do not exist.
        """
        places, keys, distances = found
        queries: npt.NDArray[np.int32] = numbers[places].astype(np.int32)
        if self._snapshot.manifest.has_stable_row_ids:
            addresses, is_there = self._finder.located(keys)
            is_there &= are_among(covering.sorted_ids, fragments_of(addresses))
        else:
            addresses, is_there = keys, self._finder.are_live(keys, covering.sorted_ids)
        located = Candidates(queries, distances, keys, addresses)
        return located if is_there.all() else located.at(is_there)

    def _exact(self, candidates: Candidates) -> Candidates:
        """Return candidates with their exact distances, without those beyond the bounds of the search."""
        query = self._query

        def exact(number: int, mine: Candidates) -> Candidates:
            comparer = Comparer(query, self._metric, query.numbers[[number]] if query.is_batch else None)
            distances = self._distances(comparer, mine.addresses)[0]
            return mine._replace(distances=distances).at(comparer.are_within(distances))

        calls = [
            partial(exact, number, candidates.at(chosen)) for number, chosen in grouped(candidates.queries)
        ]
        return join([call() for call in calls] if len(calls) < 2 else run_all(calls))

    def _distances(self, comparer: Comparer, addresses: Keys) -> Distances:
        """Return the exact distances of the vectors at addresses; one row per query of `comparer`."""
        parts = self._taker.plain_values(addresses)
        found = None if parts is None else comparer.distances_in_files(parts, len(addresses))
        if found is not None:
            return found
        budget, _, _ = self._reads
        taken = [np.empty((self._query.num_queries, 0), np.float32)]
        for batch in self._taker.batches(addresses, _TAKEN_BYTES):
            with budget.require(batch.get_total_buffer_size()):
                taken.append(comparer.distances(batch.columns))
        return np.concatenate(taken[1:] or taken, axis=1)


def _distinct(parts: Sequence[Candidates]) -> Candidates:
    """Return the rows that were found for each query, each once."""
    joined = join(parts)
    order = np.lexsort((joined.row_ids, joined.queries))
    queries, row_ids = joined.queries[order], joined.row_ids[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (queries[1:] != queries[:-1]) | (row_ids[1:] != row_ids[:-1])
    return joined.at(order[is_first])
