"""Jobs in processes of their own: drivers that are killed, tasks that run twice at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import flight_client
from support.server import RunningServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def run_job(uri: str, table: str, kill: str, master: str, attempts: Path, app_id: str = "") -> int:
    """Run `support.spark_job` in a process group of its own; its exit code."""
    attempts.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "support.spark_job", uri, table, app_id, kill, master, str(attempts)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with (attempts.parent / f"{kill}.log").open("w") as log:
        job = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)
    try:
        return job.wait(timeout=400)
    finally:
        with suppress(ProcessLookupError):  # Java, too
            os.killpg(job.pid, signal.SIGKILL)


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


def test_speculative_tasks(client: flight_client.Client, server: RunningServer, tmp_path: Path) -> None:
    """T44: two attempts of a task at a time stage the same rows; those of one are committed."""
    attempts = tmp_path / "attempts"
    code = run_job(server.uri, "deaths/twice", "never", "local-cluster[2,1,1024]", attempts)
    assert code == 0, (tmp_path / "never.log").read_text()
    assert len(list(attempts.glob("0-*"))) == 2, "the first task was to run twice"
    assert client.dataset("deaths/twice").to_table()["id"].to_pylist() == list(range(1000))
