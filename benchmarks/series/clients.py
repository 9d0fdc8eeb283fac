"""Series of clients: many at once read from our server, or from the plain server over the reference."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.data import write_if_missing
from benchmarks.flight_scan import Server, running
from benchmarks.series.local import RANGE_ROWS, range_condition, write_rows
from benchmarks.series.measured import Point, Series

_ROWS = 1_000_000
_SECONDS = 1.5
_WITHOUT_LIMITS = ("--max-streams", "128", "--max-caller-streams", "128")  # the plain server has none
_PROCESSES = 4
"""Most processes of clients: more than there are processors only take memory."""


def _measure(folder: Path, clients: int, runs: int) -> Iterator[Point]:
    name = f"rows-{_ROWS}"
    path = folder / f"{name}.lance"
    write_if_missing(path, write_rows, _ROWS)
    asked: Mapping[str, Mapping[str, object]] = {
        "one row": {"filter": f"id = {_ROWS * 5 // 8}"},
        f"range of {RANGE_ROWS} rows": {"filter": range_condition(_ROWS)},
        "two columns": {"columns": ["id", "value"]},
    }
    with (
        running("ours", "flight_server.cli", "serve", str(folder), "--port", "0", *_WITHOUT_LIMITS) as ours,
        running("plain", "benchmarks.peer_server", "plain", str(folder)) as plain,
        _clients_of(ours, clients) as our_clients,
        _clients_of(plain, clients) as plain_clients,
    ):
        for task, fields in asked.items():
            competitors = (
                ("ours", our_clients, {"scan": {"dataset": name, **fields}}),
                ("plain", plain_clients, {"dataset": name, "fragment": None, "batch_size": None, **fields}),
            )
            times: dict[str, list[float]] = {"ours": [], "plain": []}
            for number in range(-1, runs):
                for server, processes, ticket in competitors if number % 2 else reversed(competitors):
                    taken = _seconds_per_stream(processes, ticket)
                    if number >= 0:
                        times[server].append(taken)
            yield Point(clients, task, median(times["ours"]), median(times["plain"]))


@contextmanager
def _clients_of(server: Server, clients: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Start the processes of the clients. They serve all tasks: each start takes as long as a run."""
    num_processes = min(clients, _PROCESSES)
    shares = [clients // num_processes + (index < clients % num_processes) for index in range(num_processes)]
    command = [sys.executable, "-m", "benchmarks.series.reading_clients", server.uri]
    processes = [
        subprocess.Popen(
            [*command, str(share), str(_SECONDS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for share in shares
    ]
    try:
        for process in processes:
            _line_of(process)  # all are ready before any of them begins
        yield processes
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def _seconds_per_stream(processes: list[subprocess.Popen[str]], ticket: Mapping[str, object]) -> float:
    """Let the clients read the stream over and over; return the time divided by the number of streams."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(json.dumps(ticket) + "\n")
        process.stdin.flush()
    return 1 / sum(float(_line_of(process)) for process in processes)


def _line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a process of clients failed")
    return line


SERIES = (
    Series("clients", "clients", "the plain server", (1, 8, 32, 128), "elapsed time per stream", _measure),
)
