"""Changes in two steps: writers stage data files anywhere, and one commit makes a version of many of them.

stage_rows, stage_columns, stage_compaction,   write files that belong to no version
    stage_index_segment
StagedChange                                   describes the files, as JSON that travels and is stored
commit_staged                                  applies staged changes of one operation as one version
"""

from lance_core.changes.staged.change import StagedChange
from lance_core.changes.staged.commit import commit_staged
from lance_core.changes.staged.writers import (
    StagedWriter,
    stage_columns,
    stage_compaction,
    stage_index_segment,
    stage_rows,
)

__all__ = [
    "StagedChange",
    "StagedWriter",
    "commit_staged",
    "stage_columns",
    "stage_compaction",
    "stage_index_segment",
    "stage_rows",
]
