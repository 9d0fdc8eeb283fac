"""A `lance-flight serve` process, as a user would start it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from pyarrow import flight

from support.processes.forked import ForkedProcess

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60


@dataclass
class RunningServer:
    """A server process on a free port; its log goes to a file."""

    process: subprocess.Popen[str] | ForkedProcess
    uri: str
    log_file: Path
    http: str = ""
    """URL of the HTTP port, if the server was started with one."""

    @property
    def address(self) -> str:
        """host:port"""
        return self.uri.removeprefix("grpc://")

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8")

    def client(self) -> flight.FlightClient:
        return flight.connect(self.uri)

    def anonymous_bytes(self) -> int:
        """RssAnon of the process: memory that is neither a mapped file nor shared."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10
        raise AssertionError("the kernel reports no RssAnon")

    def statistics(self) -> psutil.Process:
        return psutil.Process(self.process.pid)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        try:
            return self.process.wait(timeout=STOP_TIMEOUT_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """End the process whatever it does; harmless when it has ended."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def start_server(
    root: Path | str,
    log_file: Path,
    *options: str,
    new_interpreter: bool = False,
    constants: Mapping[str, float] | None = None,
    **environment: str,
) -> RunningServer:
    """Start a server on `root` and wait until it is ready; `environment` is added to the process's own.

    The process is forked from one that has imported the modules, unless it must be a new interpreter.
    `constants` replaces constants of modules in a forked process, by their full names.
    """
    arguments = ["serve", str(root), "--port", "0", *options]
    process: subprocess.Popen[str] | ForkedProcess
    if new_interpreter:
        process = _new_interpreter(arguments, log_file, os.environ | environment)
    else:
        script = None if constants is None else _with_constants(constants)
        process = ForkedProcess(arguments, log_file, os.environ | environment, script)
    assert process.stdout is not None
    uri = process.stdout.readline().rstrip("\n")
    http = process.stdout.readline().rstrip("\n") if "--http-port" in options else ""
    server = RunningServer(process, uri, log_file, http)
    if not uri.startswith(("grpc://", "grpc+tls://")):
        server.kill()
        raise AssertionError(f"no URI on the first line: {uri!r}\n{server.log}")
    return server


def _with_constants(constants: Mapping[str, float]) -> str:
    """Return the script of a server in which constants of modules have other values."""
    changes = [
        f"setattr(import_module({module!r}), {name!r}, {value!r})"
        for (module, _, name), value in ((each.rpartition("."), value) for each, value in constants.items())
    ]
    start = ["from flight_server.cli import app", "app()"]
    return "\n".join(["from importlib import import_module", *changes, *start])


def _new_interpreter(
    arguments: Sequence[str], log_file: Path, environment: Mapping[str, str]
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "flight_server.cli", *arguments]
    with log_file.open("w") as log:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)


def signing_key_of(root: Path) -> bytes:
    """Return the key that servers of a local root share where none is configured."""
    return (root / ".lance-flight-key").read_bytes().strip()


@contextmanager
def serving(
    root: Path | str, log_file: Path, *options: str, new_interpreter: bool = False
) -> Iterator[RunningServer]:
    """A server that has to live to the end of the block, and to stop cleanly then."""
    server = start_server(root, log_file, *options, new_interpreter=new_interpreter)
    try:
        yield server
        assert server.process.poll() is None, f"the server died:\n{server.log[-4000:]}"
        assert server.stop() == 0, server.log[-4000:]
    finally:
        server.kill()
