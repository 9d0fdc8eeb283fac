"""Process with several clients of one server, which all read the same stream over and over when told to.

    python -m benchmarks.series.reading_clients URI CLIENTS SECONDS

Every client has a connection of its own. The process prints an empty line when the clients exist. Then every
line on stdin is a ticket. For each ticket, the clients read streams until the seconds have passed, at least
one stream each, and the process prints how many streams they read per second, the last ones included.

The process imports nothing but a Flight client: the benchmark starts many of these processes.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

from pyarrow import flight

from benchmarks.touch import touch_batch


def main(uri: str, num_clients: int, seconds: float) -> None:
    clients = [flight.connect(uri) for _ in range(num_clients)]
    with ThreadPoolExecutor(num_clients) as pool:
        print(flush=True)
        for line in sys.stdin:
            ticket = flight.Ticket(line.strip().encode())
            began = time.perf_counter()
            until = began + seconds
            num_streams = sum(pool.map(_read_until, clients, repeat(ticket), repeat(until)))
            print(num_streams / (time.perf_counter() - began), flush=True)


def _read_until(client: flight.FlightClient, ticket: flight.Ticket, until: float) -> int:
    """Read the stream at least once, and until the time; return the number of streams."""
    num_streams = 0
    while num_streams == 0 or time.perf_counter() < until:
        for chunk in client.do_get(ticket):
            touch_batch(chunk.data)
        num_streams += 1
    return num_streams


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
