"""Small fragments, and those with many deleted rows, written anew as larger ones.

    plan     which fragments become which: tasks            from metadata alone
    execute  one task: reads rows, writes files             anywhere, in any order
    commit   the results of tasks become one version        once

Tasks and results are plain data that travels as JSON, so that many machines can share the work.
"""

from lance_core.changes.compaction.commit import commit
from lance_core.changes.compaction.compact import compact
from lance_core.changes.compaction.lost_coverage import lost_coverage, lost_coverage_of
from lance_core.changes.compaction.options import CompactionOptions
from lance_core.changes.compaction.plan import plan
from lance_core.changes.compaction.results import CompactionMetrics, LostCoverage, RewriteResult
from lance_core.changes.compaction.rewrite import discard
from lance_core.changes.compaction.tasks import CompactionPlan, CompactionTask, execute

__all__ = [
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "LostCoverage",
    "RewriteResult",
    "commit",
    "compact",
    "discard",
    "execute",
    "lost_coverage",
    "lost_coverage_of",
    "plan",
]
