"""Servers that ours is compared with, each a process of its own.

    python -m benchmarks.peer_server plain ROOT     streams scanners of the reference library
    python -m benchmarks.peer_server memory URI     fetches a dataset from our server once, then serves it
    python -m benchmarks.peer_server file URI       the same, but reads it from a file of Arrow
    python -m benchmarks.peer_server bare ROOT      streams scanners of our library
    python -m benchmarks.peer_server search PATH    searches a dataset with our library

A ticket of the first four is JSON: {"dataset": name, "batch_size": rows or null, "fragment": index or null},
perhaps with "columns", "filter" and "limit". The plain server also takes "offsets" (a take), and `{}` for a
stream without rows. A ticket of the last is JSON with the arguments of `nearest`, the vector in base64; with
"again" it asks for the latest answer, and nothing is searched. The first line on stdout is the address.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from pyarrow import flight

import lance_core


class PlainServer(flight.FlightServerBase):
    """Server that a user would write around the reference library: it streams the reader of a scanner."""

    def __init__(self, root: Path) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._root = root
        self._datasets: dict[str, lance.LanceDataset] = {}

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Stream the dataset, or one fragment of it, in batches of the requested size."""
        asked = json.loads(ticket.ticket)
        if not asked:
            return flight.RecordBatchStream(pa.schema([]).empty_table())
        name = asked["dataset"]
        if name not in self._datasets:
            self._datasets[name] = lance.dataset(str(self._root / f"{name}.lance"))
        dataset = self._datasets[name]
        if "offsets" in asked:
            return flight.RecordBatchStream(dataset.take(asked["offsets"], columns=asked.get("columns")))
        fragments = None if asked["fragment"] is None else [dataset.get_fragments()[asked["fragment"]]]
        scanner = dataset.scanner(
            columns=asked.get("columns"),
            filter=asked.get("filter"),
            limit=asked.get("limit"),
            batch_size=asked["batch_size"],
            fragments=fragments,
        )
        return flight.RecordBatchStream(scanner.to_reader())


_FIELDS = ("dataset", "columns", "filter", "limit")
"""Fields of a scan command that tell its rows apart."""


class MemoryServer(flight.FlightServerBase):
    """Server that sends the same batches as our server, but from memory: the cost of Flight itself."""

    def __init__(self, uri: str) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._source = flight.connect(uri)
        self._held: tuple[dict[str, object], list[pa.Table]] | None = None

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Stream all batches, or those of one endpoint; only those of the latest scan are kept in memory."""
        asked = json.loads(ticket.ticket)
        scan = {name: asked[name] for name in _FIELDS if asked.get(name) is not None}
        if self._held is None or self._held[0] != scan:
            command = flight.FlightDescriptor.for_command(json.dumps({"scan": scan}).encode())
            info = self._source.get_flight_info(command)
            self._held = scan, [self._source.do_get(each.ticket).read_all() for each in info.endpoints]
        tables = self._held[1]
        chosen = tables if asked["fragment"] is None else [tables[asked["fragment"]]]
        batches = [batch for table in chosen for batch in table.to_batches()]
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(chosen[0].schema, batches))


class FileServer(flight.FlightServerBase):
    """Server that reads the batches of our server from a file of Arrow, where nothing is encoded: the cost of
    Flight and of copies out of the page cache.
    """

    def __init__(self, uri: str) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._source = flight.connect(uri)
        self._written: dict[str, int] = {}

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Stream all batches of a scan, which is fetched when it is asked for the first time."""
        asked = json.loads(ticket.ticket)
        scan = json.dumps({name: asked[name] for name in _FIELDS if asked.get(name) is not None})
        if scan not in self._written:
            self._written[scan] = os.memfd_create(scan[:100])  # goes with the process, however that ends
            stream = self._source.do_get(flight.Ticket(f'{{"scan": {scan}}}'.encode()))
            with pa.ipc.new_stream(pa.OSFile(self._path(scan), "wb"), stream.schema) as writer:
                for chunk in stream:
                    writer.write_batch(chunk.data)
        return flight.RecordBatchStream(pa.ipc.open_stream(pa.OSFile(self._path(scan))))

    def _path(self, scan: str) -> str:
        return f"/proc/self/fd/{self._written[scan]}"  # it has no other name


class BareServer(flight.FlightServerBase):
    """Server that scans with our library as our server does, and does nothing else: the cost of a service is
    the difference.
    """

    def __init__(self, root: Path) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._root = root
        self._datasets: dict[str, lance_core.LanceDataset] = {}

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.GeneratorStream:
        """Stream the dataset in the batches of our server."""
        asked = json.loads(ticket.ticket)
        name = asked["dataset"]
        if name not in self._datasets:
            self._datasets[name] = lance_core.dataset(self._root / f"{name}.lance")
        arguments = {key: asked[key] for key in ("columns", "filter", "limit") if key in asked}
        scanner = self._datasets[name].scanner(**arguments)
        return flight.GeneratorStream(scanner.projected_schema, scanner.to_batches())


class SearchServer(flight.FlightServerBase):
    """Server that searches as our server does, and does nothing else: the cost of Flight around a search."""

    def __init__(self, path: str) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._dataset = lance_core.dataset(path)
        self._latest = pa.table({})

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Stream the ids of the nearest rows, or those of the search before."""
        nearest = json.loads(ticket.ticket)
        if not nearest.pop("again", False):
            nearest["q"] = np.frombuffer(base64.b64decode(nearest["q"]), np.float32)
            self._latest = self._dataset.to_table(columns=["id", "_distance"], nearest=nearest)
        return flight.RecordBatchStream(self._latest)


_SERVERS = {
    "plain": lambda root: PlainServer(Path(root)),
    "memory": MemoryServer,
    "file": FileServer,
    "bare": lambda root: BareServer(Path(root)),
    "search": SearchServer,
}


def main() -> None:
    kind, argument = sys.argv[1:]
    server = _SERVERS[kind](argument)
    print(f"grpc://127.0.0.1:{server.port}", flush=True)
    server.serve()


if __name__ == "__main__":
    main()
