"""Locks, results and conflicts of commits, with the names of `lance.commit`.

`LanceDataset.commit` is in `lance_core.api.dataset.methods.commits`.
"""

from lance_core.api.dataset.methods.commits import BulkCommitResult
from lance_core.errors import CommitConflictError
from lance_core.storage import CommitLock

__all__ = ["BulkCommitResult", "CommitConflictError", "CommitLock"]
