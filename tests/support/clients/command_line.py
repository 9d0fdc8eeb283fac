"""Verbs of `lance-flight`, run in this process."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner, Result

import support.clients.built_verbs  # noqa: F401 - `invoke` would build them
from flight_server.cli import app


def run_verb(*arguments: str | Path, code: int = 0, stdin: str | None = None) -> Result:
    """Run a verb, which has to end with this exit code and without a traceback."""
    done = CliRunner().invoke(app, list(map(str, arguments)), prog_name="lance-flight", input=stdin)
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done
