"""Jobs in processes of their own: drivers that are killed, tasks that run twice at a time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark
import pytest

import flight_client
from support.servers.server import RunningServer
from support.spark.settings import JAVA_OPTIONS

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


# Java programs and what they start in Python import our modules.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}


@contextmanager
def running(command: list[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a process group of its own, which ends with the block: Java, too."""
    with log.open("w") as output:
        program = subprocess.Popen(
            command, stdout=output, stderr=output, start_new_session=True, env=ENVIRONMENT | environment
        )
    try:
        yield program
    finally:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def run_job(uri: str, table: str, kill: str, master: str, attempts: Path, app_id: str = "") -> int:
    """Run `support.spark.job`; its exit code."""
    attempts.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "support.spark.job", uri, table, app_id, kill, master, str(attempts)]
    with running(command, attempts.parent / f"{kill}.log") as job:
        return job.wait(timeout=400)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each.

    They are on two hosts: Spark repeats no task on the host where it runs, which all of `local-cluster` is.
    """
    launcher = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    environment = {"SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS, "SPARK_DAEMON_MEMORY": "256m"}
    with ExitStack() as started:

        def start(name: str, kind: str, *options: str) -> Path:
            command = [launcher, f"org.apache.spark.deploy.{kind}", "--webui-port", "0", *options]
            log = tmp_path / f"{name}.log"
            started.enter_context(running(command, log, **environment))
            return log

        master = start("master", "master.Master", "--host", "127.0.0.1", "--port", "0")
        address = said(master, r"Starting Spark master at (spark://\S+)")
        limits = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / "work"))
        hosts = ("127.0.0.1", "127.0.0.2")
        workers = [start(host, "worker.Worker", "--host", host, *limits, address) for host in hosts]
        for worker in workers:
            said(worker, r"(Successfully registered with master)")
        yield address


def said(log: Path, pattern: str, seconds: float = 200) -> str:
    """Wait until a log contains a text."""
    deadline = time.monotonic() + seconds
    while (found := re.search(pattern, log.read_text())) is None:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return found[1]


@pytest.mark.parametrize("kill", ["before", "after"])
def test_a_driver_that_is_killed(
    client: flight_client.Client, server: RunningServer, tmp_path: Path, kill: str
) -> None:
    """T44: around the commit; run again under the same name, the job has written once."""
    table = f"deaths/{kill}"
    attempts = tmp_path / "attempts"
    assert run_job(server.uri, table, kill, "local[2,4]", attempts, "job") == -signal.SIGKILL
    if kill == "before":
        with pytest.raises(flight_client.DatasetNotFoundError):
            client.dataset(table)
    else:
        assert client.dataset(table).count_rows() == 1000
    assert run_job(server.uri, table, "never", "local[2,4]", attempts, "job") == 0
    assert client.dataset(table).to_table()["id"].to_pylist() == list(range(1000))


def test_speculative_tasks(
    client: flight_client.Client, server: RunningServer, tmp_path: Path, cluster: str
) -> None:
    """T44: two attempts of a task at a time stage the same rows; those of one are committed."""
    attempts = tmp_path / "attempts"
    code = run_job(server.uri, "deaths/twice", "never", cluster, attempts)
    assert code == 0, (tmp_path / "never.log").read_text()
    assert len(list(attempts.glob("0-*"))) == 2, "the first task was to run twice"
    assert client.dataset("deaths/twice").to_table()["id"].to_pylist() == list(range(1000))
