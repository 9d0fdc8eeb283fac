"""Lines and tables of `lance-flight pipeline` about names that others gave."""

from __future__ import annotations

import pytest
from rich.console import Console

from spark_pipeline.jobs import Outcome
from spark_pipeline.step_report import StepReport, table_of

ODD = "[/b]\x1b[31m"


def test_names_are_no_markup_and_no_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    """A step called `[/b]` ended the summary of a pipeline with a stack."""
    outcome = Outcome(ODD, 3, rows=1, bytes=1, fragments=2, details={"kept": ODD})
    Console(width=120).print(table_of([StepReport(ODD, "ingest", outcome, 1.5)]))
    shown = capsys.readouterr().out + StepReport(ODD, "ingest", outcome, 1.5).as_line()
    assert "\x1b" not in shown
    assert shown.count(r"[/b]\x1b[31m") == 5
    assert shown.endswith(r"version 3, 1 row, 1 byte, 2 new fragments, kept [/b]\x1b[31m; 1.5 s")
