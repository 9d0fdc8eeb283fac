"""A scan that returns the rows that contain words, best first."""

from __future__ import annotations

from collections.abc import Generator

from lance_core.errors import InvalidInputError
from lance_core.expressions.tree import Expression
from lance_core.index.text.query import TextQuery, columns_of, with_columns
from lance_core.index.text.search import Found
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.nearest.results import FoundRows, result_runs
from lance_core.scan.plan.nearest import SCORE
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.scan_plan import ScanPlan
from lance_core.scan.plan.search_projection import project_search
from lance_core.scan.run.batch_cutter import BatchRun
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.strategy import Strategy
from lance_core.scan.take.keys import Keys
from lance_core.scan.text_search.columns import indexed_columns
from lance_core.scan.text_search.ranking import Ranking
from lance_core.schema.arrow_values import array_of
from lance_core.table.snapshot import Snapshot


def text_runs(
    snapshot: Snapshot, plan: ScanPlan, budget: MemoryBudget, files: DataFiles, strategy: Strategy
) -> Generator[BatchRun, None, None]:
    """Yield the result of a plan with a full text query.

    Raises:
        InvalidInputError: A column of the query does not exist or has no texts, or the query names no column
            and none has an index.
        LanceError: Something cannot be read.
    """
    options = plan.options
    projection = project_search(snapshot.manifest.schema, options)
    limit = most_texts(options)
    found = text_rows(snapshot, plan, projection.before, limit, budget, files, strategy)
    yield from result_runs(snapshot, options, projection, scored_rows(found), budget, files)


def most_texts(options: ScanOptions) -> int | None:
    """Return the most rows that a search of texts finds for a scan with its limit and offset."""
    return None if options.limit is None else options.limit + (options.offset or 0)


def scored_rows(found: Found) -> FoundRows:
    """Return the rows that a search found with the column that it adds."""
    return FoundRows(found.addresses, {SCORE: array_of(found.scores)})


def text_rows(
    snapshot: Snapshot,
    plan: ScanPlan,
    condition: Expression | None,
    limit: int | None,
    budget: MemoryBudget,
    files: DataFiles,
    strategy: Strategy,
    among: Keys | None = None,
) -> Found:
    """Return the rows of a plan that meet its full text query and a condition, best first, at most `limit`.

    With `among`, addresses of live rows, only these are searched, and there is no condition. Errors are those
    of `text_runs`.
    """
    assert plan.options.text_query is not None
    query = _in_columns(snapshot, plan.options.text_query)
    return Ranking(snapshot, plan, condition, budget, files, strategy, among).found(query, limit)


def _in_columns(snapshot: Snapshot, query: TextQuery) -> TextQuery:
    if all(column is not None for column in columns_of(query)):
        return query
    columns = indexed_columns(snapshot)
    if not columns:
        raise InvalidInputError(
            "a full text query without a column needs a column with a full text index; name a column"
        )
    return with_columns(query, columns)
