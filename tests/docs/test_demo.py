"""`make demo`, which is `lance-flight demo`: serves, queries, explains, stops."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

from flight_server.cli.commands.demo import PLACES

ROOT = Path(__file__).parents[2]
DATA = ROOT / "demo" / "data"
DEMO = [sys.executable, "-m", "flight_server.cli", "demo"]


def test_demo_answers_and_stops_the_server(tmp_path: Path) -> None:
    """Without a terminal, and as often as one likes: it works on a copy."""
    before = {path: path.stat().st_mtime_ns for path in DATA.rglob("*")}
    for _ in range(2):
        run = subprocess.run(
            DEMO,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            env={**os.environ, "TMPDIR": str(tmp_path)},
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
        assert not list(tmp_path.iterdir()), "the copy stayed"
    assert {path: path.stat().st_mtime_ns for path in DATA.rglob("*")} == before, "the demo dataset changed"


def test_demo_stays_on_a_terminal_until_it_is_interrupted() -> None:
    """The demo stops in order even if the interrupt comes early; once it came between the last line and
    the wait.
    """
    ours, terminal = pty.openpty()
    with (
        open(ours, "rb", buffering=0) as screen,
        subprocess.Popen(DEMO, stdin=terminal, stdout=terminal, stderr=subprocess.DEVNULL) as demo,
    ):
        os.close(terminal)  # so that the screen ends with the demo
        try:
            shown = b""
            while b"Ctrl-C stops it." not in shown:
                shown += screen.read(1 << 16)
            demo.send_signal(signal.SIGINT)
            with suppress(OSError):  # how a terminal tells its end
                while True:
                    shown += screen.read(1 << 16)
            assert demo.wait(timeout=60) == 0, shown
            assert b"Server stopped, exit code 0." in shown
        finally:
            demo.kill()


def test_make_demo_is_the_command() -> None:
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "\ndemo: $(RUN_READY) ##" in rules
    assert "\t@$(BIN)/lance-flight demo\n" in rules


def test_an_installed_package_has_the_dataset_where_the_command_looks() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["scikit-build"]
    assert packages["wheel"]["packages"]["flight_server/demo/data"] == "demo/data"
    assert PLACES == [ROOT / "flight_server" / "demo" / "data", DATA]


def test_demo_dataset_is_small() -> None:
    assert sum(path.stat().st_size for path in DATA.rglob("*")) < 2_000_000
