"""Processes that are forked from one which has imported the modules of `lance-flight`.

A new interpreter takes 1.5 s of a processor to import what a server needs. A fork has it at once, and takes
0.1 s until the server is ready. Hundreds of tests start a server. Tests of the start itself and of the
command line start new interpreters. So do scripts that measure memory or what is imported; others are forked.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from unittest.mock import patch

from support.processes.disk import do_not_wait_for_the_disk

_SCRIPT_TIMEOUT_S = 280

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "support.clients.built_verbs",
        "support.processes.forked",
        "flight_server.workers.supervisor",
        "flight_server.http.application",
        "pydantic.type_adapter",
        "pydantic.json_schema",
        "pydantic.fields",
        "typer._adapters",
        "encodings.idna",
        "lance_core.scan.run.filtering.filtered_scan",
        "pandas",  # PyArrow imports both with the first list that it is given
        "pyarrow.pandas_compat",
    ]
)


class ForkedProcess:
    """Running `lance-flight`, or a script, with those members of `subprocess.Popen` that tests use."""

    def __init__(
        self, arguments: Sequence[str], log: Path, environment: Mapping[str, str], script: str | None = None
    ) -> None:
        read, written = _CONTEXT.Pipe(duplex=False)
        with read, written:
            directory = os.getcwd()
            self._process = forking_context().Process(
                target=_run, args=(arguments, written, log, dict(environment), directory, script)
            )
            self._process.start()
            self.stdout = os.fdopen(os.dup(read.fileno()), encoding="utf-8")

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("lance-flight", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it ended meanwhile
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def forking_context() -> ForkServerContext:
    """Return the context whose processes are forked from the one with the modules, and start that one.

    It finds what the tests import only by the environment: the path of its parent is not passed on.
    """
    with patch.dict(os.environ, PYTHONPATH=str(Path(__file__).parents[2])):
        forkserver.ensure_running()
    return _CONTEXT


def run_script(script: str, *arguments: str, log: Path) -> int:
    """Run a script that needs a process, but no new interpreter, and return its exit code."""
    process = ForkedProcess(arguments, log, os.environ, script)
    try:
        return process.wait(_SCRIPT_TIMEOUT_S)
    finally:
        process.kill()
        process.stdout.close()


def _run(
    arguments: Sequence[str],
    stdout: Connection,
    log: Path,
    environment: Mapping[str, str],
    directory: str,
    script: str | None,
) -> None:
    os.dup2(stdout.fileno(), sys.stdout.fileno())
    stdout.close()
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(written, sys.stderr.fileno())
    os.close(written)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    do_not_wait_for_the_disk()
    if script is not None:
        sys.argv = ["-c", *arguments]
        exec(script, {"__name__": "__main__"})
        return
    sys.argv = ["lance-flight", *arguments]
    # Imported by the process that was forked, and only there: importing it here would cost each test process.
    from flight_server.cli import app

    app()
