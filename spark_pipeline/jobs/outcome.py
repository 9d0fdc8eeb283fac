"""What a job did, for summaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flight_client import WriteResult


@dataclass(frozen=True)
class Outcome:
    """What one job made of one dataset or folder."""

    target: str
    """The dataset or folder that was written or looked at."""
    version: int | None = None
    """The version that was made, else the one that was read; None where there is none."""
    rows: int = 0
    """That were written; of `verify`, those that were compared."""
    bytes: int = 0
    """Of new files; -1 where nobody counts them."""
    fragments: int = 0
    """New ones."""
    was_done: bool = False
    """Whether an earlier run with the same transaction id had made it, and nothing was done now."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What only this kind of job has to tell."""

    @staticmethod
    def of(target: str, written: WriteResult, *, was_done: bool = False, **details: Any) -> Outcome:
        """What a transaction made."""
        return Outcome(
            target, written.version, written.rows, written.bytes, written.fragments, was_done, details
        )
