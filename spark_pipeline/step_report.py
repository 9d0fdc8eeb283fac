"""Report of one step of a pipeline, or of one job: as plain values, as a line and as a table for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from flight_client.terminal import count, printable
from spark_pipeline.jobs import Outcome

_MOST_SHOWN = 80
"""Largest number of characters of a detail in a line."""


@dataclass(frozen=True)
class StepReport:
    """Result of a step."""

    name: str
    job: str
    outcome: Outcome
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whether the pipeline continues: false for a `verify` that found differences."""
        return bool(self.outcome.details.get("is_equal", True))

    def as_data(self) -> dict[str, Any]:
        """Return the report as plain values."""
        named = {"step": self.name, "job": self.job}
        return named | asdict(self.outcome) | {"seconds": round(self.seconds, 3)}

    def as_line(self) -> str:
        """Return the report as one line for people."""
        outcome = self.outcome
        parts = [outcome.target if outcome.version is None else f"{outcome.target} version {outcome.version}"]
        if outcome.was_done:
            parts.append("done before")
        parts += [count(outcome.rows, "row")] * bool(outcome.rows)
        parts += [count(outcome.bytes, "byte")] * (outcome.bytes > 0)
        parts += [count(outcome.fragments, "new fragment")] * bool(outcome.fragments)
        parts += [
            f"{key} {_shortened(value)}"
            for key, value in outcome.details.items()
            if value is False or value not in ([], {}, 0)
        ]
        return printable(f"{self.name}: {', '.join(parts)}; {self.seconds:.1f} s")


def table_of(reports: Iterable[StepReport]) -> Table:
    """Return the reports of a run as a table, one row per step."""
    table = Table("step", "job", "target", "version", "rows", "bytes", "seconds", "")
    for report in reports:
        outcome = report.outcome
        state = "done before" if outcome.was_done else "done" if report.is_good else "differs"
        version = "" if outcome.version is None else str(outcome.version)
        numbers = (f"{outcome.rows:,}", f"{outcome.bytes:,}", f"{report.seconds:.1f}")
        cells = (report.name, report.job, outcome.target, version, *numbers, state)
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _shortened(value: Any) -> str:
    """Return a detail, without the end if it is long; `--json` prints all of it."""
    text = str(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
