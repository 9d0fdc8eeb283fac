"""A scan that returns the best rows of a search of vectors and a search of texts."""

from __future__ import annotations

from collections.abc import Generator

from lance_core.index.text.search import NOTHING
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.hybrid.fusing import fused_rows
from lance_core.scan.nearest.candidates import NO_CANDIDATES
from lance_core.scan.nearest.results import result_runs
from lance_core.scan.nearest.search import nearest_candidates
from lance_core.scan.plan.scan_plan import ScanPlan
from lance_core.scan.plan.search_projection import project_search
from lance_core.scan.run.batch_cutter import BatchRun
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.strategy import Strategy
from lance_core.scan.text_search.search import text_rows
from lance_core.table.snapshot import Snapshot


def hybrid_runs(
    snapshot: Snapshot, plan: ScanPlan, budget: MemoryBudget, files: DataFiles, strategy: Strategy
) -> Generator[BatchRun, None, None]:
    """Yield the batches of a plan with both searches.

    Raises:
        LanceError: Something cannot be read, or an expression has no value.
    """
    fusion = plan.options.fusion
    assert fusion is not None
    projection = project_search(snapshot.manifest.schema, plan.options)
    nearest, texts = NO_CANDIDATES, NOTHING
    if fusion.ranking != "text":
        nearest = nearest_candidates(snapshot, plan, projection.before, budget, files, strategy)
    if fusion.ranking != "vector":
        texts = text_rows(snapshot, plan, projection.before, fusion.depth, budget, files, strategy)
    found = fused_rows(nearest, texts, fusion)
    yield from result_runs(snapshot, plan.options, projection, found, budget, files)
