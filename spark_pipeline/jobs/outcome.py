"""Result of a job, for reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flight_client import Client, WriteResult


@dataclass(frozen=True)
class Outcome:
    """Result of one job on one dataset or folder."""

    target: str
    """Dataset or folder that was written or read."""
    version: int | None = None
    """Version that was made, else the version that was read; None if there is none."""
    rows: int = 0
    """Number of written rows; for `verify`, of compared rows."""
    bytes: int = 0
    """Size of new files in bytes; -1 if it is unknown."""
    fragments: int = 0
    """Number of new fragments."""
    was_done: bool = False
    """Whether an earlier run with the same transaction id did the work, and this run did nothing."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Results that only this job has."""

    @staticmethod
    def of(target: str, written: WriteResult, *, was_done: bool = False, **details: Any) -> Outcome:
        """Return the outcome of a committed write."""
        return Outcome(
            target, written.version, written.rows, written.bytes, written.fragments, was_done, details
        )


def earlier_outcome(client: Client, dataset: str, transaction_id: str) -> Outcome | None:
    """Return the outcome of a run that made a version with this transaction id, None if there was none."""
    done = client.find_transaction(dataset, transaction_id)
    return None if done is None else Outcome(dataset, done.version, was_done=True)
