"""`python -m benchmarks.workers`: parallel reads of all endpoints from one and from two workers.

The clients are four threads that take the next endpoint, connect to its first location and read the stream
without a look at the rows. Beside the locations of the workers, the same reads are measured through the port,
where the relay moves all bytes. On a machine with few cores the clients take part of the cores: the filter
that nearly no row meets shows what the workers alone gain.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pyarrow import flight

from benchmarks.data import add_folder_option, prepare
from benchmarks.flight_scan import running
from benchmarks.measure import interleave, wait_until_idle

DATASET = "mixed-2_2"
THREADS = 4
ROWS_PER_ENDPOINT = 250_000

Read = Callable[[], int]


def read_of(uri: str, scan: dict[str, object], *, at_locations: bool) -> Read:
    """Return a read of all endpoints of a scan, which returns the number of rows."""
    command = json.dumps({"scan": {**scan, "rows_per_endpoint": ROWS_PER_ENDPOINT}})
    with flight.connect(uri) as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
        locations = {each.locations[0].uri.decode() for each in info.endpoints} if at_locations else {uri}
    # One connection per thread and server: a connection through the port leads to one of the workers.
    clients = [{location: flight.connect(location) for location in locations} for _ in range(THREADS)]

    def read() -> int:
        waiting: queue.SimpleQueue[flight.FlightEndpoint] = queue.SimpleQueue()
        for endpoint in info.endpoints:
            waiting.put(endpoint)

        def work(own: dict[str, flight.FlightClient]) -> int:
            num_rows = 0
            while True:
                try:
                    endpoint = waiting.get_nowait()
                except queue.Empty:
                    return num_rows
                location = endpoint.locations[0].uri.decode() if at_locations else uri
                for chunk in own[location].do_get(endpoint.ticket):
                    num_rows += chunk.data.num_rows

        with ThreadPoolExecutor(THREADS) as pool:
            return sum(pool.map(work, clients))

    return read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_folder_option(parser)
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of rows")
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    (dataset,) = prepare(options.folder, options.scale, [DATASET])
    serve = ("flight_server.cli", "serve", str(options.folder), "--port", "0", "--log-level", "error")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {options.runs} runs each, medians")
    tasks: dict[str, dict[str, object]] = {
        "whole table": {"dataset": dataset.name},
        "filter without matches": {"dataset": dataset.name, "filter": "abs(id * 3 + 1) % 7 = 9"},
    }
    with (
        running("one worker", *serve) as one,
        running("two workers", *serve, "--workers", "2") as two,
    ):
        pids = (one.process.pid, two.process.pid)
        for name, scan in tasks.items():
            measured = interleave(
                name,
                "workers",
                0,
                {
                    "1 worker": read_of(one.uri, scan, at_locations=True),
                    "2 workers": read_of(two.uri, scan, at_locations=True),
                    "2 workers, through the port": read_of(two.uri, scan, at_locations=False),
                },
                options.runs,
                settle=lambda: wait_until_idle(*pids),
            )
            print(name)
            for competitor, seconds in measured.seconds.items():
                ratio = measured.seconds["1 worker"] / seconds
                print(f"  {competitor:30} {1000 * seconds:8.0f} ms {ratio:6.2f} x")


if __name__ == "__main__":
    main()
