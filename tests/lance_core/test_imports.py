"""Modules that a process which only reads must load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

import lance_core

# Each takes as long to load as opening a dataset, or longer; or comes along with what writes and filters.
LATE = (
    "importlib.metadata",
    "lance_core.expressions.evaluate",
    "lance_core.changes.rows.row_change",
    "lance_core.scan.run.filtering.filter_windows",
    "lance_core.scan.run.filtering.row_filter",
    "lance_core.statistics.intervals",
    "lance_core.write",
    "obstore",
    "pandas",
    "pyarrow.compute",
    "pyarrow.dataset",
    "sqlglot",
)


def test_readers_load_little(tmp_path: Path) -> None:
    """Opening a dataset and reading rows of it needs neither filters nor writers, nor what these need."""
    lance_core.write_dataset(pa.table({"id": range(10), "text": ["a"] * 10}), tmp_path / "d")
    code = (
        "import sys, lance_core;"
        f"batch = next(iter(lance_core.dataset({str(tmp_path / 'd')!r}).to_batches(columns=['id'])));"
        "assert batch.num_rows == 10;"
        f"print([name for name in {LATE} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_errors_and_the_version_need_no_arrow() -> None:
    """A command that only raises an error of the package, or prints the version, starts as fast as Python."""
    code = (
        "import sys; from lance_core.errors import LanceError; from lance_core.version import __version__;"
        "print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
