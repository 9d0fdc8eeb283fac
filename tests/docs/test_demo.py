"""`make demo` without a terminal: serves, queries, explains, stops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DATA = ROOT / "demo" / "data"


def test_demo_answers_and_stops_the_server() -> None:
    before = {path: path.stat().st_mtime_ns for path in DATA.rglob("*")}
    run = subprocess.run(
        [sys.executable, ROOT / "demo" / "run.py"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    assert "timezones: 565 rows, 8 columns" in run.stdout
    assert "565 rows" in run.stdout
    assert "4 endpoints" in run.stdout
    assert "Europe/Dublin" in run.stdout
    for client in ("Python", "DuckDB", "Polars"):
        assert f"\n{client}\n" in run.stdout
    assert "127.0.0.1:8815" not in run.stdout
    assert "Server stopped, exit code 0." in run.stdout
    assert {path: path.stat().st_mtime_ns for path in DATA.rglob("*")} == before, "the served folder changed"


def test_demo_dataset_is_small() -> None:
    assert sum(path.stat().st_size for path in DATA.rglob("*")) < 2_000_000
