"""Lines and tables of `lance-flight pipeline` about names that others gave."""

from __future__ import annotations

import pytest
from rich.console import Console

from spark_pipeline.__main__ import _line, _summary
from spark_pipeline.jobs import Outcome
from spark_pipeline.pipeline_file import StepReport

ODD = "[/b]\x1b[31m"


def test_names_are_no_markup_and_no_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    """A step called `[/b]` ended the summary of a pipeline with a stack."""
    outcome = Outcome(ODD, 3, rows=1, bytes=1, fragments=2, details={"kept": ODD})
    Console(width=120).print(_summary([StepReport(ODD, "ingest", outcome, 1.5)]))
    shown = capsys.readouterr().out + _line(ODD, outcome, 1.5)
    assert "\x1b" not in shown
    assert shown.count(r"[/b]\x1b[31m") == 5
    assert shown.endswith(r"version 3, 1 row, 1 byte, 2 new fragments, kept [/b]\x1b[31m; 1.5 s")
