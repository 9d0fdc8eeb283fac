"""A scan that returns the rows with the nearest vectors."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

import numpy as np

from lance_core.expressions.tree import Expression
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.nearest.candidates import NO_CANDIDATES, Candidates, best_of_all
from lance_core.scan.nearest.comparing import Comparer
from lance_core.scan.nearest.exact import exact_candidates
from lance_core.scan.nearest.indexed import IndexedSearch
from lance_core.scan.nearest.results import FoundRows, result_runs
from lance_core.scan.nearest.vector_index import VectorIndex, vector_index
from lance_core.scan.plan.nearest import DISTANCE, QUERY_INDEX, NearestQuery
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import project
from lance_core.scan.plan.scan_plan import ScanPlan
from lance_core.scan.plan.search_projection import project_search
from lance_core.scan.run.batch_cutter import BatchRun
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.strategy import Strategy
from lance_core.scan.take.keys import Keys
from lance_core.scan.take.taker_cache import taker_of
from lance_core.schema.arrow_values import array_of, numbers_of
from lance_core.table.snapshot import Snapshot

# Bytes of vectors that are taken at once.
_TAKEN_BYTES = 8 << 20


@dataclass(frozen=True)
class NearestUse:
    """Ways in which a search finds the nearest rows.

    Attributes:
        index: Name of the index that is searched; None if every vector is compared.
        metric: Metric of the distances.
        k: Most rows for each query.
        fragments_indexed: Number of fragments that the index is searched for.
        fragments_compared: Number of fragments whose vectors are compared one by one, or those of them that
            belong to rows which a search of texts has found.
        minimum_probes, maximum_probes, search_effort, refine_factor, candidates: Those of the search of the
            index; None where the caller gave none. See `NearestQuery`.
    """

    index: str | None
    metric: str
    k: int
    fragments_indexed: int
    fragments_compared: int
    minimum_probes: int | None = None
    maximum_probes: int | None = None
    search_effort: float | None = None
    refine_factor: int | None = None
    candidates: int | None = None


def nearest_use(snapshot: Snapshot, plan: ScanPlan, files: DataFiles) -> NearestUse:
    """Return the ways in which a search finds the nearest rows, without a search.

    Raises:
        LanceError: A file of the index is missing or contradicts the format.
    """
    query = plan.options.nearest
    assert query is not None
    index = vector_index(snapshot, query, plan.fragment_scans, files)
    if plan.options.compares_matches:
        return NearestUse(None, _metric(query, index), query.k, 0, len(plan.fragment_scans))
    num_indexed = 0 if index is None else len(index.fragment_ids)
    num_compared = 0 if plan.options.fast_search else len(plan.fragment_scans) - num_indexed
    name = index.name if index is not None and index.segments else None
    use = NearestUse(name, _metric(query, index), query.k, num_indexed, num_compared)
    if not num_indexed:
        return use
    return replace(
        use,
        minimum_probes=query.minimum_probes,
        maximum_probes=query.maximum_probes,
        search_effort=query.search_effort,
        refine_factor=query.refine_factor,
        candidates=query.candidates,
    )


def nearest_runs(
    snapshot: Snapshot, plan: ScanPlan, budget: MemoryBudget, files: DataFiles, strategy: Strategy
) -> Generator[BatchRun, None, None]:
    """Yield the batches of a plan with a search of nearest rows.

    Raises:
        LanceError: Something cannot be read, or an expression has no value.
    """
    query = plan.options.nearest
    assert query is not None
    projection = project_search(snapshot.manifest.schema, plan.options)
    candidates = nearest_candidates(snapshot, plan, projection.before, budget, files, strategy)
    found = nearest_rows(query, candidates)
    yield from result_runs(snapshot, plan.options, projection, found, budget, files)


def nearest_rows(query: NearestQuery, candidates: Candidates) -> FoundRows:
    """Return the rows that a search found with the columns that it adds."""
    scores = {DISTANCE: array_of(candidates.distances)}
    if query.is_batch:
        scores[QUERY_INDEX] = array_of(candidates.queries)
    return FoundRows(candidates.addresses, scores)


def nearest_candidates(
    snapshot: Snapshot,
    plan: ScanPlan,
    condition: Expression | None,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy,
) -> Candidates:
    """Return the nearest rows of a plan that meet a condition, query by query, nearest first.

    Raises:
        LanceError: Something cannot be read.
    """
    query = plan.options.nearest
    assert query is not None
    index = vector_index(snapshot, query, plan.fragment_scans, files)
    if index is not None and index.segments:
        search = IndexedSearch(snapshot, query, index.segments, condition, plan, budget, files, strategy)
        return search.candidates()
    if plan.options.fast_search:
        return NO_CANDIDATES
    metric = _metric(query, index)
    return exact_candidates(snapshot, query, metric, condition, plan, budget, files, strategy)


def nearest_among(
    snapshot: Snapshot, plan: ScanPlan, addresses: Keys, budget: MemoryBudget, files: DataFiles
) -> Candidates:
    """Return the nearest rows among live rows of a plan, query by query, nearest first.

    The vectors are taken and compared; an index only says the metric, if the search names none.

    Raises:
        LanceError: Something cannot be read.
    """
    query = plan.options.nearest
    assert query is not None
    comparer = Comparer(query, _metric(query, vector_index(snapshot, query, plan.fragment_scans, files)))
    has_row_ids = snapshot.manifest.has_stable_row_ids
    options = ScanOptions(columns=(query.column,), with_row_id=has_row_ids)
    taker = taker_of(snapshot, project(snapshot.manifest.schema, options), files)
    ordered = np.sort(addresses)

    def compared() -> Iterator[Candidates]:
        start = 0
        for batch in taker.batches(ordered, _TAKEN_BYTES):
            mine = ordered[start : start + batch.num_rows]
            start += batch.num_rows
            row_ids = numbers_of(batch.column(1)) if has_row_ids else mine
            with budget.require(batch.get_total_buffer_size()):
                found = comparer.nearest([batch.column(0)], query.k, keys=row_ids)
            yield Candidates(found.queries, found.distances, row_ids[found.rows], mine[found.rows])

    return best_of_all(compared(), query.k)


def _metric(query: NearestQuery, index: VectorIndex | None) -> str:
    return query.metric or (query.vectors.default_metric if index is None else index.metric)
