"""A scan that returns the rows of one search that another search finds, too.

The search that comes first finds rows by itself. The other one looks at these rows only.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from lance_core.errors import InvalidInputError
from lance_core.index.text.query import Match
from lance_core.index.text.search import Found
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.nearest.candidates import Candidates
from lance_core.scan.nearest.results import FoundRows, result_runs
from lance_core.scan.nearest.search import nearest_among, nearest_candidates, nearest_rows
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.scan_plan import ScanPlan
from lance_core.scan.plan.search_projection import project_search
from lance_core.scan.run.batch_cutter import BatchRun
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.strategy import Strategy
from lance_core.scan.text_search.search import most_texts, scored_rows, text_rows
from lance_core.table.snapshot import Snapshot


def filtered_runs(
    snapshot: Snapshot, plan: ScanPlan, budget: MemoryBudget, files: DataFiles, strategy: Strategy
) -> Generator[BatchRun, None, None]:
    """Yield the batches of a plan with two searches, one of which is a filter.

    Raises:
        InvalidInputError: A query other than `match` applies to the rows that are found by their vectors.
        LanceError: Something cannot be read, or an expression has no value.
    """
    options = plan.options
    projection = project_search(snapshot.manifest.schema, options)
    reads = budget, files, strategy
    most = most_texts(options) if options.search_filter == "vector" else None
    if options.compares_matches:
        texts = text_rows(snapshot, plan, projection.before, most, *reads)
        nearest = nearest_among(snapshot, plan, texts.addresses, budget, files)
    else:
        if options.search_filter == "text" and not isinstance(options.text_query, Match):
            raise InvalidInputError(
                "only a match query can be a filter of the rows that nearest has found; with prefilter=True "
                "every query can"
            )
        nearest = nearest_candidates(snapshot, plan, projection.before, *reads)
        texts = text_rows(snapshot, plan, None, most, *reads, among=nearest.addresses)
    found = _in_both(options, nearest, texts)
    yield from result_runs(snapshot, options, projection, found, budget, files)


def _in_both(options: ScanOptions, nearest: Candidates, texts: Found) -> FoundRows:
    """Return the rows of the search that is no filter, in its order, without those that the filter lacks."""
    if options.search_filter == "text":
        assert options.nearest is not None
        kept = nearest.at(np.isin(nearest.addresses, texts.addresses))
        return nearest_rows(options.nearest, kept)
    is_near = np.isin(texts.addresses, nearest.addresses)
    return scored_rows(Found(texts.addresses[is_near], texts.scores[is_near]))
