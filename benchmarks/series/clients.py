"""Series of clients: many at once read from our server, or from the plain server over the reference.

    python -m benchmarks.series.clients URI TICKET CLIENTS

is one process of clients. It starts when a line arrives on stdin, and prints how many streams its clients
read.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from pyarrow import flight

from benchmarks.data import write_if_missing
from benchmarks.flight_scan import Server, running
from benchmarks.series.local import RANGE_ROWS, range_condition, write_rows
from benchmarks.series.measured import Point, Series
from benchmarks.touch import touch_batch

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
    ):
        for task, fields in asked.items():
            tickets = (
                (ours, {"scan": {"dataset": name, **fields}}),
                (plain, {"dataset": name, "fragment": None, "batch_size": None, **fields}),
            )
            times: dict[str, list[float]] = {"ours": [], "plain": []}
            for number in range(-1, runs):
                for server, ticket in tickets if number % 2 else reversed(tickets):
                    taken = _seconds_per_stream(server, ticket, clients)
                    if number >= 0:
                        times[server.name].append(taken)
            yield Point(clients, task, median(times["ours"]), median(times["plain"]))


def _seconds_per_stream(server: Server, ticket: Mapping[str, object], clients: int) -> float:
    """Let the clients read the stream over and over; return the time divided by the number of streams."""
    processes = min(clients, _PROCESSES)
    shares = [clients // processes + (index < clients % processes) for index in range(processes)]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.series.clients", server.uri, json.dumps(ticket), str(share)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for share in shares
    ]
    for each in running:
        _line_of(each)  # all are connected before any of them begins
    for each in running:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    rates = [float(_line_of(each)) for each in running]
    for each in running:
        each.wait()
    return 1 / sum(rates)


def _line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a process of clients failed")
    return line


def main(uri: str, ticket: str, clients: int) -> None:
    """Read the stream with as many connections as there are clients; print the streams of a second."""
    connections = [flight.connect(uri) for _ in range(clients)]
    for connection in connections:
        _read(connection, ticket)
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    counts = [0] * clients

    def read_on(index: int) -> None:
        while time.perf_counter() - began < _SECONDS:
            _read(connections[index], ticket)
            counts[index] += 1

    threads = [threading.Thread(target=read_on, args=[index]) for index in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(counts) / (time.perf_counter() - began), flush=True)


def _read(client: flight.FlightClient, ticket: str) -> None:
    for chunk in client.do_get(flight.Ticket(ticket.encode())):
        touch_batch(chunk.data)


SERIES = (
    Series(
        "clients", "clients", "the plain server", (1, 4, 16, 64, 128), "elapsed time per stream", _measure
    ),
)

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
