"""Compaction: small fragments, and fragments with many deleted rows, are rewritten as larger ones.

    plan       choose the fragments that are rewritten together, from metadata alone
    execute    run one task: read rows, write files; on any machine, in any order
    commit     make one version of the results of tasks
    compact    all three steps in this process

Tasks and results are plain data and travel as JSON, so many machines can share the work. The modules:

    options, tasks, results     plain data of the three steps
    rewrite          new fragments with the rows of old ones
    indices          index files with the new addresses of rows
    index_coverage   what indices cover before and after
"""

from lance_core.changes.compaction.commit import commit
from lance_core.changes.compaction.compact import compact
from lance_core.changes.compaction.index_coverage import (
    CoverageReport,
    coverage_report,
    coverage_report_of,
)
from lance_core.changes.compaction.options import CompactionOptions
from lance_core.changes.compaction.plan import plan
from lance_core.changes.compaction.results import (
    CompactionMetrics,
    IndexCoverage,
    LostCoverage,
    RewriteResult,
)
from lance_core.changes.compaction.rewrite import discard
from lance_core.changes.compaction.tasks import CompactionPlan, CompactionTask, execute

__all__ = [
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "CoverageReport",
    "IndexCoverage",
    "LostCoverage",
    "RewriteResult",
    "commit",
    "compact",
    "coverage_report",
    "coverage_report_of",
    "discard",
    "execute",
    "plan",
]
