"""Results of jobs, for summaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flight_client import WriteResult


@dataclass(frozen=True)
class Outcome:
    """Result of one job on one dataset or folder."""

    target: str
    """The dataset or folder that was written or looked at."""
    version: int | None = None
    """The version that was made, else the one that was read; None where there is none."""
    rows: int = 0
    """Written rows; for `verify`, compared rows."""
    bytes: int = 0
    """Bytes of new files; -1 if they are not counted."""
    fragments: int = 0
    """New ones."""
    was_done: bool = False
    """Whether an earlier run with the same transaction id had made it, and nothing was done now."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Results that only this kind of job has."""

    @staticmethod
    def of(target: str, written: WriteResult, *, was_done: bool = False, **details: Any) -> Outcome:
        """Return the outcome of a committed write."""
        return Outcome(
            target, written.version, written.rows, written.bytes, written.fragments, was_done, details
        )
