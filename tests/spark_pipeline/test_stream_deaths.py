"""Streams whose driver or server is killed at any moment, and started again until they are done."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

import flight_client
from support.servers.server import start_server

# A driver takes ten seconds to begin, on a busy machine a minute; each test starts five of them or more.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

TESTS = Path(__file__).parents[1]
ROWS = 3
"""Rows of a file that is copied."""


class Program:
    """A process of `stream_programs`, with all that it starts; its complaints are added to a log."""

    def __init__(self, log: Path, *arguments: object) -> None:
        self._log = log
        with log.open("a") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "support.spark.stream_programs", *map(str, arguments)],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "PYTHONPATH": str(TESTS)},
                start_new_session=True,
            )
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def wait_for(self, line: str, timeout: float = 200) -> None:
        deadline = time.monotonic() + timeout
        while line not in self.lines:
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.002)

    def finish(self, timeout: float = 280) -> None:
        try:
            assert self.process.wait(timeout) == 0, self._log.read_text()
        finally:
            self.kill()

    def kill(self) -> None:
        """kill -9: the driver, its JVM and its Python workers, which outlive their parents otherwise."""
        children = []
        if self.process.poll() is None:
            children = psutil.Process(self.process.pid).children(recursive=True)
            self.process.send_signal(signal.SIGKILL)
        for child in children:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.wait()
        self._reading.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())


class Place:
    """A served folder, and a server that can be killed and started again on the same port."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.served = directory / "served"
        self.served.mkdir()
        self.server = start_server(self.served, directory / "server.log")
        self.uri = self.server.uri

    def restart(self) -> None:
        self.server.kill()
        port = self.uri.rpartition(":")[2]
        self.server = start_server(self.served, self._directory / "server.log", "--port", port)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.server.kill()


def write_batches(source: Path, batches: int) -> list[int]:
    source.mkdir()
    for batch in range(batches):
        lines = (json.dumps({"n": 100 * batch + row}) for row in range(ROWS))
        (source / f"{batch:03}.json").write_text("\n".join(lines))
    return [100 * batch + row for batch in range(batches) for row in range(ROWS)]


@pytest.mark.parametrize("app_id", ["-", "copies"])
def test_a_driver_that_is_killed_loses_and_doubles_nothing(place: Place, tmp_path: Path, app_id: str) -> None:
    """T44: killed at six moments spread over a batch; the server is killed, too, and versions are removed."""
    expected = write_batches(tmp_path / "source", 8)
    arguments = ("copy", place.uri, "t", tmp_path / "source", tmp_path / "checkpoint", app_id)
    random.seed(app_id)
    with flight_client.connect(place.uri) as client:
        for number in range(6):
            program = Program(tmp_path / "log", *arguments)
            program.wait_for("ready")
            wait_for_rows(client, number * ROWS)
            time.sleep(random.uniform(0, 0.8))
            program.kill()
            if number % 2:
                place.restart()
            if number >= 2:
                client.cleanup("t", older_than_seconds=0)
        Program(tmp_path / "log", *arguments).finish()
        assert sorted(client.dataset("t").to_table()["n"].to_pylist()) == expected
        assert client.dataset("t").version == num_batches(tmp_path / "checkpoint")


def wait_for_rows(client: flight_client.Client, rows: int) -> None:
    """Wait until killed drivers have written at least so many rows."""
    deadline = time.monotonic() + 200
    while rows_of(client) < rows:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def rows_of(client: flight_client.Client) -> int:
    """0 as long as there is no dataset."""
    try:
        return client.dataset("t").count_rows()
    except flight_client.DatasetNotFoundError:
        return 0


def num_batches(checkpoint: Path) -> int:
    """Return the number of finished batches, as Spark counts them."""
    return sum(each.name.isdecimal() for each in (checkpoint / "commits").iterdir())


def test_a_reader_that_is_killed_loses_and_doubles_nothing(place: Place, tmp_path: Path) -> None:
    """T44: each batch has the same rows again, so that a sink that keeps them by number has each row once."""
    target = tmp_path / "target"
    target.mkdir()
    arguments = ("follow", place.uri, "t", target, tmp_path / "checkpoint")
    with flight_client.connect(place.uri) as client:
        for version in range(10):
            rows = pa.table({"n": pa.array([10 * version, 10 * version + 1])})
            client.write("t", rows, mode="append" if version else "create")
        for number in range(4):
            program = Program(tmp_path / "log", *arguments)
            program.wait_for("ready")
            wait_for_file(target / f"{number}.json")
            time.sleep(random.uniform(0, 0.5))
            program.kill()
            client.write("t", pa.table({"n": pa.array([1000 + number])}))
            if number % 2:
                place.restart()
                client.compact("t")
        Program(tmp_path / "log", *arguments).finish()
    got = [json.loads(each.read_text()) for each in target.glob("*.json")]
    expected = [10 * version + row for version in range(10) for row in range(2)]
    assert sorted(n for batch in got for n in batch) == [*expected, 1000, 1001, 1002, 1003]


def wait_for_file(path: Path) -> None:
    deadline = time.monotonic() + 200
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_server_that_dies_while_a_query_writes(place: Place, tmp_path: Path) -> None:
    """T44: the query goes on when the server is back, or fails and goes on from its checkpoint."""
    expected = write_batches(tmp_path / "source", 6)
    arguments = ("copy", place.uri, "t", tmp_path / "source", tmp_path / "checkpoint", "-")
    program = Program(tmp_path / "log", *arguments)
    with flight_client.connect(place.uri) as client:
        for number in range(1, 5):
            deadline = time.monotonic() + 250
            while rows_of(client) < number * ROWS:
                assert time.monotonic() < deadline
                if program.process.poll() is not None:
                    program.kill()
                    program = Program(tmp_path / "log", *arguments)
                time.sleep(0.02)
            place.restart()
        while program.process.poll() is None:
            time.sleep(0.1)
        program.kill()
        if program.process.returncode:
            Program(tmp_path / "log", *arguments).finish()
        assert sorted(client.dataset("t").to_table()["n"].to_pylist()) == expected
        assert client.dataset("t").version == num_batches(tmp_path / "checkpoint")
