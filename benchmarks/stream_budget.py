"""Budget of a stream: wall time, and processor time of the server and of the client apart.

    python -m benchmarks.stream_budget [--only NAMES] [--runs N] [--scale F] [--folder FOLDER]

Streams of the tables of `benchmarks.data` are measured over five servers, each with a client process of its
own for each request:

- ours, and the plain server over the reference,
- one that sends the batches of ours from memory: what Flight costs,
- one that reads them from a file of Arrow, where nothing is encoded: what Flight and reading cost,
- a bare server over our library: what is left without a service.

Decoding without sending is measured in this process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count

import lance_core
from benchmarks import targets
from benchmarks.data import Dataset, add_folder_option, prepare
from benchmarks.flight_scan import BATCH_SIZES, Server, plain_name, running, servers
from benchmarks.targets import Ratio

OURS, MEMORY, FILE, BARE = "ours", "from memory", "from a file", "bare server"

RANGE_ROWS = 1000
NARROW = ["id", "value"]
"""Two columns of the mixed table: ascending integers, and doubles without any order."""


@dataclass(frozen=True)
class Taken:
    """Cost of one stream: seconds, those of the processors in both processes, and the received bytes."""

    seconds: float
    server_seconds: float
    client_seconds: float
    batches: int
    bytes: int


@dataclass(frozen=True)
class Peer:
    """A server and a client process that reads from it alone."""

    server: Server
    client: subprocess.Popen[str]

    def stream(self, ticket: Mapping[str, object]) -> Taken:
        """Read the stream of a ticket."""
        assert self.client.stdin is not None
        assert self.client.stdout is not None
        began = processor_seconds(self.server.process.pid)
        self.client.stdin.write(json.dumps(ticket) + "\n")
        self.client.stdin.flush()
        answer = json.loads(self.client.stdout.readline())
        spent = processor_seconds(self.server.process.pid) - began
        return Taken(answer["seconds"], spent, answer["cpu_seconds"], answer["batches"], answer["bytes"])


def processor_seconds(process: int) -> float:
    """Return the processor time of another process, in seconds, with the resolution of the scheduler."""
    return time.clock_gettime(~process << 3 | 2)  # the number of the clock of a process: CPUCLOCK_SCHED


@dataclass(frozen=True)
class Peers:
    """Our server and those that it is compared with."""

    ours: Peer
    plain: Peer
    memory: Peer
    file: Peer
    bare: Peer


@contextmanager
def with_clients(*all_servers: Server) -> Iterator[Peers]:
    """Start a client process for each server, in the order of `Peers`."""
    with ExitStack() as stack:
        yield Peers(*[stack.enter_context(_with_client(server)) for server in all_servers])


@contextmanager
def _with_client(server: Server) -> Iterator[Peer]:
    command = [sys.executable, "-m", "benchmarks.stream_client", server.uri]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Peer(server, client)
    finally:
        client.terminate()
        client.wait()


@dataclass(frozen=True)
class Request:
    """Request for rows that is sent to all servers.

    Attributes:
        name: Name in the output.
        fields: Fields of the scan command of ours, which the plain server calls the same.
        line, memory_line: Lines of the closing table, of the comparisons with the plain server and with the
            same batches from memory.
        runs: How many runs there are for one run of the others.
        next_fields: Returns the fields of another request that costs as much, so that no server remembers
            what it found. The rows from memory are those of `fields`.
    """

    name: str
    fields: Mapping[str, object]
    line: str
    memory_line: str | None = None
    runs: int = 1
    next_fields: Callable[[], Mapping[str, object]] | None = None

    def asked(self) -> Mapping[str, object]:
        """Return the fields of the next request to a server that reads."""
        return self.fields if self.next_fields is None else self.next_fields()


def requests(dataset: Dataset) -> list[Request]:
    """Return the requests for a dataset."""
    if dataset.columns == ("vector",):
        return [Request("vectors", {}, targets.STREAM_VECTORS, targets.STREAM_MEMORY)]
    num_rows = lance_core.dataset(str(dataset.path)).count_rows()
    firsts = (num_rows // 8 + number * 7 * RANGE_ROWS % (num_rows * 3 // 4) for number in count())
    ranges = ({"filter": f"id >= {first} AND id < {first + RANGE_ROWS}"} for first in firsts)
    return [
        Request("all columns", {}, targets.STREAM, targets.STREAM_MEMORY),
        Request(", ".join(NARROW), {"columns": NARROW}, targets.STREAM_NARROW, targets.STREAM_MEMORY_NARROW),
        Request(
            "1000 rows of a range",
            next(ranges),
            targets.STREAM_RANGE,
            runs=4,
            next_fields=partial(next, ranges),
        ),
        Request(
            "two columns of a third of the rows",
            {"columns": NARROW, "filter": "value > 0.5"},
            targets.STREAM_FILTERED,
            runs=2,
        ),
        Request("the first 100 rows", {"limit": 100}, targets.STREAM_HEAD, runs=4),
    ]


def readers(dataset: Dataset, request: Request, peers: Peers) -> dict[str, Callable[[], Taken]]:
    """Return what reads the same rows from every server."""
    asked = {"dataset": dataset.name, "fragment": None, "batch_size": None}

    def ours() -> Taken:
        return peers.ours.stream({"scan": {"dataset": dataset.name, **request.asked()}})

    def plain(size: int | None) -> Taken:
        return peers.plain.stream({**asked, "batch_size": size, **request.asked()})

    found: dict[str, Callable[[], Taken]] = {OURS: ours}
    found[MEMORY] = lambda: peers.memory.stream({**asked, **request.fields})
    found[FILE] = lambda: peers.file.stream({**asked, **request.fields})
    found[BARE] = lambda: peers.bare.stream({"dataset": dataset.name, **request.asked()})
    for size in BATCH_SIZES:
        found[plain_name(size)] = partial(plain, size)
    return found


def measure(ways: Mapping[str, Callable[[], Taken]], runs: int) -> dict[str, Taken]:
    """Return the medians of interleaved runs, after one that does not count.

    The order is drawn for each run. A server goes on to free memory after its answer, which slows down the
    next one: if the order only rotated, that would always be the same one.
    """
    taken: dict[str, list[Taken]] = {name: [] for name in ways}
    names, order = list(ways), random.Random(0)
    for number in range(-1, runs):
        order.shuffle(names)
        for name in names:
            one = ways[name]()
            if number >= 0:
                taken[name].append(one)
    return {name: _median(all_of) for name, all_of in taken.items()}


def decode_seconds(dataset: Dataset, fields: Mapping[str, object], runs: int) -> tuple[float, float]:
    """Return the seconds and the processor seconds of the same batches in this process, sent to nobody."""
    opened = lance_core.dataset(str(dataset.path))
    seconds, spent = [], []
    for _ in range(runs + 1):
        began, cpu_began = time.perf_counter(), time.process_time()
        for _ in opened.to_batches(**fields):
            pass
        seconds.append(time.perf_counter() - began)
        spent.append(time.process_time() - cpu_began)
    return statistics.median(seconds[1:]), statistics.median(spent[1:])


def _median(runs: Sequence[Taken]) -> Taken:
    return Taken(
        statistics.median([run.seconds for run in runs]),
        statistics.median([run.server_seconds for run in runs]),
        statistics.median([run.client_seconds for run in runs]),
        runs[0].batches,
        runs[0].bytes,
    )


def measure_all(
    dataset: Dataset, all_servers: Sequence[Server], runs: int
) -> Iterator[tuple[Request, dict[str, Taken], list[Ratio]]]:
    """Measure all requests for a dataset; yield each with its medians and with its ratios.

    Each request has client processes of its own. A client that once received a large message keeps more
    memory from then on, and receives everything after it with fewer page faults.
    """
    for request in requests(dataset):
        file_server = running("file", "benchmarks.peer_server", "file", all_servers[0].uri)
        bare_server = running("bare", "benchmarks.peer_server", "bare", str(dataset.path.parent))
        with file_server as file, bare_server as bare, with_clients(*all_servers, file, bare) as peers:
            found = measure(readers(dataset, request, peers), runs * request.runs)
        task = f"{dataset.name} {request.name}"
        best = min(one.seconds for name, one in found.items() if name not in (OURS, MEMORY, FILE, BARE))
        compared = [Ratio(request.line, task, best / found[OURS].seconds)]
        if request.memory_line is not None:
            compared.append(Ratio(request.memory_line, task, found[MEMORY].seconds / found[OURS].seconds))
        yield request, found, compared


def print_budget(title: str, found: Mapping[str, Taken]) -> None:
    """Print the medians of all servers."""
    ours = found[OURS]
    print(f"\n{title}: {ours.bytes / 1e6:.1f} MB, processor time in ms")
    print(f"{'':<18}{'ms':>8}{'ratio':>8}{'server':>9}{'client':>9}{'batches':>9}{'GB/s':>7}{'idle':>7}")
    for name, one in found.items():
        idle = 1 - (one.server_seconds + one.client_seconds) / (one.seconds * (os.cpu_count() or 1))
        print(
            f"{name:<18}{1e3 * one.seconds:>8.1f}{one.seconds / ours.seconds:>7.2f}x"
            f"{1e3 * one.server_seconds:>9.1f}{1e3 * one.client_seconds:>9.1f}{one.batches:>9}"
            f"{one.bytes / one.seconds / 1e9:>7.2f}{idle:>7.0%}",
            flush=True,
        )


def print_parts(found: Mapping[str, Taken], decoded: tuple[float, float]) -> None:
    """Print what the processor time of our stream is spent on."""
    wall, spent = decoded
    print(f"{'decoding alone':<18}{1e3 * wall:>8.1f}{'':>8}{1e3 * spent:>9.1f}")
    sending = found[MEMORY].server_seconds
    rest = found[OURS].server_seconds - sending - spent
    print(
        f"processor time of ours: sending {1e3 * sending:.1f}, receiving "
        f"{1e3 * found[OURS].client_seconds:.1f}, decoding {1e3 * spent:.1f}, the rest {1e3 * rest:.1f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_folder_option(parser)
    parser.add_argument("--only", default="mixed,vectors", help="prefixes of dataset names, comma separated")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--scale", type=float, default=0.5, help="factor on the number of rows")
    options = parser.parse_args()
    datasets = prepare(options.folder, options.scale, options.only.split(","))
    with servers(options.folder) as all_servers:
        for dataset in datasets:
            for request, found, _ in measure_all(dataset, all_servers, options.runs):
                print_budget(f"{dataset.name}, {request.name}", found)
                print_parts(found, decode_seconds(dataset, request.fields, options.runs))


if __name__ == "__main__":
    main()
