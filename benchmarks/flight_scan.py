"""DoGet end to end: our server against a plain Flight server over the reference, each in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyarrow import flight

from benchmarks import targets
from benchmarks.data import FRAGMENTS, Dataset
from benchmarks.measure import Measurement, interleave, peak_bytes_of, wait_until_idle
from benchmarks.targets import Ratio
from benchmarks.touch import touch_batch

BATCH_SIZES = (None, 16_384, 65_536)
OURS, OURS_ENDPOINTS, OURS_PARALLEL = "ours", "ours, endpoint by endpoint", "ours, parallel"
MEMORY, MEMORY_PARALLEL = "from memory", "from memory, parallel"


@dataclass(frozen=True)
class Server:
    """Server process that runs."""

    name: str
    uri: str
    process: subprocess.Popen[str]

    def peak_bytes(self) -> int:
        """Return the largest resident memory that the process ever had, in bytes."""
        return peak_bytes_of(self.process.pid)


@dataclass(frozen=True)
class StreamMemory:
    """Memory of a stream of a whole dataset: the peak of the server above its memory before, and the sent
    bytes.
    """

    peak_bytes: int
    sent_bytes: int


@contextmanager
def running(name: str, *command: str) -> Iterator[Server]:
    """Start `python -m command...` and wait for the URI on its first line."""
    process = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True)
    try:
        uri = process.stdout.readline().strip() if process.stdout else ""
        if not uri.startswith("grpc"):
            raise RuntimeError(f"{name} server did not start")
        yield Server(name, uri, process)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def servers(root: Path) -> Iterator[tuple[Server, Server, Server]]:
    """Start our server, the plain server and the server that answers from memory."""
    with (
        running("ours", "flight_server.cli", "serve", str(root), "--port", "0") as ours,
        running("plain", "benchmarks.peer_server", "plain", str(root)) as plain,
        running("memory", "benchmarks.peer_server", "memory", ours.uri) as memory,
    ):
        yield ours, plain, memory


def measure(dataset: Dataset, ours: Server, plain: Server, memory: Server, runs: int) -> Measurement:
    """Measure every server with one dataset in one stream, and in one stream per fragment with a connection
    each.

    Our server also sends endpoint after endpoint over one connection.
    """
    clients = {server.name: flight.connect(server.uri) for server in (ours, plain, memory)}
    spare = {
        name: [flight.connect(s.uri) for _ in range(FRAGMENTS)] for name, s in _by_name(ours, plain, memory)
    }
    info = clients["ours"].get_flight_info(flight.FlightDescriptor.for_path(dataset.name))

    def sequential(name: str, tickets: Sequence[flight.Ticket]) -> int:
        return sum(_drain(clients[name], ticket) for ticket in tickets)

    def parallel(name: str, tickets: Sequence[flight.Ticket]) -> int:
        with ThreadPoolExecutor(FRAGMENTS) as pool:
            return sum(pool.map(_drain, spare[name], tickets))

    def own_tickets() -> list[flight.Ticket]:
        planned = clients["ours"].get_flight_info(flight.FlightDescriptor.for_path(dataset.name))
        return [endpoint.ticket for endpoint in planned.endpoints]

    competitors = {
        OURS: lambda: sequential("ours", [_command(dataset)]),
        OURS_ENDPOINTS: lambda: sequential("ours", own_tickets()),
        OURS_PARALLEL: lambda: parallel("ours", own_tickets()),
        MEMORY: lambda: sequential("memory", [_ticket(dataset)]),
        MEMORY_PARALLEL: lambda: parallel("memory", _per_fragment(dataset)),
    }
    for size in BATCH_SIZES:
        competitors[plain_name(size)] = lambda size=size: sequential("plain", [_ticket(dataset, size)])
        competitors[plain_name(size, "parallel")] = lambda size=size: parallel(
            "plain", _per_fragment(dataset, size)
        )
    if len(info.endpoints) != FRAGMENTS:
        raise RuntimeError(f"{len(info.endpoints)} endpoints for {FRAGMENTS} fragments")
    received = sequential_bytes(clients["ours"], own_tickets())
    line = targets.DOGET if len(dataset.columns) > 1 else targets.DOGET_VECTORS
    return interleave(f"{dataset.name} DoGet", line, received, competitors, runs)


def measure_first_batch(dataset: Dataset, ours: Server, plain: Server, runs: int) -> Measurement:
    """Return the time until a client has its first batch, for our server with planning. Streams are cancelled
    then.

    Servers continue to decode for a while; the next run waits until they are idle.
    """
    clients = {server.name: flight.connect(server.uri) for server in (ours, plain)}

    def own() -> int:
        planned = clients["ours"].get_flight_info(flight.FlightDescriptor.for_path(dataset.name))
        return _first_batch(clients["ours"], planned.endpoints[0].ticket)

    competitors = {OURS: own}
    for size in BATCH_SIZES:
        competitors[plain_name(size)] = lambda size=size: _first_batch(
            clients["plain"], _ticket(dataset, size)
        )
    return interleave(
        f"{dataset.name} first batch",
        targets.FIRST_BATCH,
        own(),
        competitors,
        runs,
        lambda: wait_until_idle(ours.process.pid, plain.process.pid),
    )


def ratios(measurement: Measurement) -> list[Ratio]:
    """Return the ratios of one stream to one stream, and of parallel streams to parallel streams.

    Our stream of endpoint after endpoint is compared with the one stream of the other servers.
    """
    if measurement.group == targets.FIRST_BATCH:
        plain = best_plain(measurement, parallel=False)
        return [Ratio(measurement.group, measurement.task, measurement.ratio(OURS, plain))]
    from_memory = targets.DOGET_MEMORY if measurement.group == targets.DOGET else targets.DOGET_MEMORY_VECTORS
    compared = []
    for ours, memory in (
        (OURS, MEMORY),
        (OURS_ENDPOINTS, MEMORY),
        (OURS_PARALLEL, MEMORY_PARALLEL),
    ):
        task = measurement.task + ours.removeprefix(OURS)
        plain = best_plain(measurement, parallel=ours == OURS_PARALLEL)
        compared.append(Ratio(measurement.group, task, measurement.ratio(ours, plain)))
        compared.append(Ratio(from_memory, task, measurement.ratio(ours, memory)))
    return compared


def best_plain(measurement: Measurement, *, parallel: bool) -> str:
    """Return the batch size with which the plain server was fastest."""
    suffix = "parallel" if parallel else ""
    return min((plain_name(size, suffix) for size in BATCH_SIZES), key=lambda name: measurement.seconds[name])


def plain_name(batch_size: int | None, suffix: str = "") -> str:
    """Return the name of one way to call the plain server."""
    size = "default" if batch_size is None else f"{batch_size >> 10}k"
    return f"plain {size}" + (f", {suffix}" if suffix else "")


def sequential_bytes(client: flight.FlightClient, tickets: Sequence[flight.Ticket]) -> int:
    """Return the bytes of all batches of the streams."""
    return sum(chunk.data.nbytes for ticket in tickets for chunk in client.do_get(ticket))


def peak_of_stream(root: Path, dataset: Dataset) -> StreamMemory:
    """Stream a whole dataset from a new server, and return the memory of the server."""
    with running("ours", "flight_server.cli", "serve", str(root), "--port", "0") as server:
        client = flight.connect(server.uri)
        info = client.get_flight_info(flight.FlightDescriptor.for_path(dataset.name))
        before = server.peak_bytes()
        sent = sequential_bytes(client, [endpoint.ticket for endpoint in info.endpoints])
        return StreamMemory(server.peak_bytes() - before, sent)


def _by_name(*all_servers: Server) -> list[tuple[str, Server]]:
    return [(server.name, server) for server in all_servers]


def _first_batch(client: flight.FlightClient, ticket: flight.Ticket) -> int:
    """Read one batch and return its bytes."""
    reader = client.do_get(ticket)
    received = reader.read_chunk().data
    reader.cancel()
    return touch_batch(received)


def _drain(client: flight.FlightClient, ticket: flight.Ticket) -> int:
    return sum(touch_batch(chunk.data) for chunk in client.do_get(ticket))


def _ticket(dataset: Dataset, batch_size: int | None = None, fragment: int | None = None) -> flight.Ticket:
    asked = {"dataset": dataset.name, "batch_size": batch_size, "fragment": fragment}
    return flight.Ticket(json.dumps(asked).encode())


def _command(dataset: Dataset) -> flight.Ticket:
    """Return a ticket for the whole scan, which our server plans when it redeems the ticket."""
    return flight.Ticket(json.dumps({"scan": {"dataset": dataset.name}}).encode())


def _per_fragment(dataset: Dataset, batch_size: int | None = None) -> list[flight.Ticket]:
    return [_ticket(dataset, batch_size, fragment) for fragment in range(FRAGMENTS)]
