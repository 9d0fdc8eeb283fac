"""`python -m benchmarks.load`: many clients of several kinds at once, against a server of its own.

First each kind runs alone with one client. Then lookups run beside 8 full scans, and full scans beside
stalled clients. At the end all kinds run together. Clients are threads of several processes; a process has
clients of one kind.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil
import pyarrow as pa

import flight_client
from benchmarks.data import add_folder_option, prepare

MIX = {"lookup": 20, "filter": 6, "narrow": 10, "scan": 8, "write": 8, "list": 8, "stall": 4}
"""Clients of each kind, of 64."""
_BY_BYTES = ("narrow", "scan")
"""Kinds whose work is counted in bytes. That of the others is counted in calls."""
_CLIENTS_PER_PROCESS = 8
_STALL_SECONDS = 10.0
_WRITTEN_ROWS = 1000
_FILTERED_ROWS = 1000
_GIVE_WAY = 19
"""Niceness of clients that stand for those of another machine."""


@dataclass
class Done:
    """Calls and errors of the clients of one kind.

    Attributes:
        seconds: Time of each call that ended.
        errors: Number of errors by their names.
        client_bytes: Bytes that each client read.
    """

    seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    client_bytes: list[int] = field(default_factory=list)

    def add(self, other: Done) -> None:
        self.seconds += other.seconds
        self.errors += other.errors
        self.client_bytes += other.client_bytes

    def quantile(self, share: float) -> float:
        """Return the time in seconds within which this share of the calls ended; NaN without calls."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else math.nan

    def units(self, kind: str) -> float:
        """Return the work done: bytes or calls."""
        return float(sum(self.client_bytes) if kind in _BY_BYTES else len(self.seconds))


class _Client:
    """One client, in a thread of its own."""

    def __init__(self, uri: str, dataset: str, kind: str, number: int, until: float) -> None:
        self._client = flight_client.connect(uri, parallel=1)
        self._dataset = self._client.dataset(dataset)
        self._num_rows = self._dataset.count_rows()
        self._random = random.Random(number)
        self._own = f"load-{number}"
        self._call: Callable[[], int] = getattr(self, f"_{kind}")
        self._kind = kind
        self._until = until
        self._written = 0
        self._was_cut = False

    def run(self) -> Done:
        """Make calls until the end of the phase."""
        done, num_bytes = Done(), 0
        while time.time() < self._until:
            began = time.perf_counter()
            try:
                num_bytes += self._call()
            except flight_client.LanceError as error:
                done.errors[type(error).__name__] += 1
                continue
            if not self._was_cut:
                done.seconds.append(time.perf_counter() - began)
        done.client_bytes.append(num_bytes)
        return done

    def _lookup(self) -> int:
        return self._dataset.take([self._random.randrange(self._num_rows)]).nbytes

    def _filter(self) -> int:
        first = self._random.randrange(self._num_rows)
        condition = f"id BETWEEN {first} AND {first + _FILTERED_ROWS - 1}"
        return self._dataset.to_table(filter=condition).nbytes

    def _narrow(self) -> int:
        return self._read(["category", "value"])

    def _scan(self) -> int:
        return self._read(None)

    def _read(self, columns: list[str] | None) -> int:
        num_bytes = 0
        for batch in self._dataset.to_batches(columns=columns):
            num_bytes += batch.nbytes
            if time.time() >= self._until:
                self._was_cut = True
                break
        return num_bytes

    def _write(self) -> int:
        first = self._written * _WRITTEN_ROWS
        rows = pa.table({"id": range(first, first + _WRITTEN_ROWS)})
        self._client.write(self._own, rows, "overwrite" if self._written % 50 == 0 else "append")
        self._written += 1
        if self._written % 5 == 0:
            self._client.delete(self._own, f"id % 7 = {self._random.randrange(7)}")
        return rows.nbytes

    def _list(self) -> int:
        return len(self._client.datasets())

    def _stall(self) -> int:
        batches = self._dataset.to_batches()
        num_bytes = next(batches).nbytes
        time.sleep(max(0.0, min(_STALL_SECONDS, self._until - time.time())))
        batches.close()
        return num_bytes


def _run_clients(
    uri: str,
    dataset: str,
    kind: str,
    numbers: range,
    until: float,
    answers: multiprocessing.Queue[object],
    niceness: int,
) -> None:
    """Run the clients of one process."""
    os.nice(niceness)
    done = Done()
    lock = threading.Lock()

    def run(number: int) -> None:
        one = _Client(uri, dataset, kind, number, until).run()
        with lock:
            done.add(one)

    threads = [threading.Thread(target=run, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.put((kind, done))


@dataclass(frozen=True)
class Server:
    """Server under load, whose root holds a copy of the dataset."""

    uri: str
    dataset: str
    process: psutil.Process

    def resident_bytes(self) -> int:
        """Return the resident memory of all processes of the server."""
        return sum(each.memory_info().rss for each in [self.process, *self.process.children()])

    def phase(
        self, mix: Mapping[str, int], seconds: float, num_processes: int = 0, niceness: int = 0
    ) -> tuple[dict[str, Done], list[int]]:
        """Run clients for some seconds. Return what each kind did, and the memory once in a second.

        Phases that run side by side give the number of all processes of clients, which need time to start.
        Clients with a `niceness` give way to other processes of this machine.
        """
        context = multiprocessing.get_context("spawn")
        answers = context.Queue()
        num_processes = num_processes or sum(-(-count // _CLIENTS_PER_PROCESS) for count in mix.values())
        starting = 1.0 + 0.3 * num_processes
        until = time.time() + starting + seconds
        processes, number = [], 0
        for kind, count in mix.items():
            for first in range(0, count, _CLIENTS_PER_PROCESS):
                numbers = range(number, number + min(_CLIENTS_PER_PROCESS, count - first))
                number = numbers.stop
                arguments = (self.uri, self.dataset, kind, numbers, until, answers, niceness)
                processes.append(context.Process(target=_run_clients, args=arguments))
        for process in processes:
            process.start()
        memory = []
        while time.time() < until:
            memory.append(self.resident_bytes())
            time.sleep(1)
        found: dict[str, Done] = {kind: Done() for kind in mix}
        for _ in processes:
            kind, done = answers.get()
            found[kind].add(done)
        for process in processes:
            process.join()
        return found, memory


@contextmanager
def served(folder: Path, scale: float, workers: int, options: list[str]) -> Iterator[Server]:
    """Start a server on a new root with links to the files of the benchmark's dataset."""
    folder.mkdir(parents=True, exist_ok=True)
    (dataset,) = prepare(folder, scale, ["mixed-2_2"])
    with tempfile.TemporaryDirectory(dir=folder, prefix="load-") as root:
        shutil.copytree(dataset.path, Path(root) / dataset.path.name, copy_function=os.link)
        command = [sys.executable, "-m", "flight_server.cli", "serve", root, "--port", "0"]
        command += ["--workers", str(workers), "--log-level", "error", *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield Server(process.stdout.readline().strip(), dataset.name, psutil.Process(process.pid))
        finally:
            process.terminate()
            process.wait()


def main() -> None:
    options = _options()
    clients = _scaled(options.clients)
    seconds = options.seconds if options.seconds is not None else 60 * options.minutes
    results: dict[str, object] = {"options": {**vars(options), "folder": None, "json": None}}
    with (
        served(options.folder, options.scale, options.workers, options.option) as server,
        served(options.folder, options.scale, 1, options.option) as idle,
    ):
        alone: dict[str, tuple[Done, float]] = {}
        print(f"one client alone, {options.alone:g} s of each kind", flush=True)
        for kind in clients:
            if kind != "stall":
                alone[kind] = server.phase({kind: 1}, options.alone)[0][kind], options.alone
                _row(kind, 1, *alone[kind])
        if not options.mixed_only:
            results |= _beside_scans(server, idle, alone["lookup"][0], options.alone)
            results |= _beside_stalled(server, options.alone)
        print(f"\n{sum(clients.values())} clients, {seconds:g} s", flush=True)
        found, memory = server.phase(clients, seconds)
        for kind, done in found.items():
            _row(kind, clients[kind], done, seconds)
        shares = sorted(found["scan"].client_bytes)
        quarter = max(1, len(memory) // 4)
        first, last = median(memory[quarter : 2 * quarter] or memory), median(memory[-quarter:])
        work = sum(
            done.units(kind) / seconds / (alone[kind][0].units(kind) / alone[kind][1])
            for kind, done in found.items()
            if kind in alone and alone[kind][0].units(kind)
        )
        figures = {
            "work": round(work, 2),
            "shares of scans": round(shares[-1] / max(shares[0], 1), 2) if shares else None,
            "errors": sum(sum(done.errors.values()) for done in found.values()),
            "memory second quarter": int(first) >> 20,
            "memory last quarter": int(last) >> 20,
            "memory peak": max(memory) >> 20,
            "memory every 10 s": [size >> 20 for size in memory[::10]],
        }
    print(f"work: {figures['work']} of one client at a time (aim: at least 0.85)")
    print(f"full scans: most bytes of a client / fewest: {figures['shares of scans']} (aim: below 2)")
    print(
        f"memory of the server: {figures['memory second quarter']} MiB in the second quarter, "
        f"{figures['memory last quarter']} MiB in the last, {figures['memory peak']} MiB at most"
    )
    results |= figures | {"mixed": {kind: _facts(done, kind, seconds) for kind, done in found.items()}}
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, default=str))


def _beside_scans(server: Server, idle: Server, alone: Done, seconds: float) -> dict[str, object]:
    """Measure lookups beside 8 full scans.

    Clients of scans usually run on other machines. So they give way to the server and to the client that
    looks up. Two more figures tell what sharing the processors costs: clients that do not give way, and the
    same lookups at a second server, which has no other clients. No server can be faster than that on this
    machine.
    """
    results: dict[str, object] = {}
    for name, lookups, niceness in (
        ("", server, _GIVE_WAY),
        (", whose clients take the server's processors", server, 0),
        (", whose clients take the processors of an idle server", idle, 0),
    ):
        print(f"\n8 full scans and one client that looks up rows{name}", flush=True)
        with ThreadPoolExecutor(1) as other:
            scans = other.submit(server.phase, {"scan": 8}, 2 * seconds, 2, niceness)
            looked_up = lookups.phase({"lookup": 1}, 2 * seconds, 2)[0]["lookup"]
            scanned = scans.result()[0]["scan"]
        _row("lookup", 1, looked_up, 2 * seconds)
        _row("scan", 8, scanned, 2 * seconds)
        shares = sorted(scanned.client_bytes)
        ratio = looked_up.quantile(0.99) / alone.quantile(0.99)
        print(f"p99 of lookups: {ratio:.1f} times that without scans (aim: below 5)")
        spread = shares[-1] / max(shares[0], 1)
        print(f"full scans: most bytes of a client / fewest: {spread:.2f} (aim: below 2)")
        results[f"lookup p99 ratio{name}"] = round(ratio, 2)
    return results


def _beside_stalled(server: Server, seconds: float) -> dict[str, object]:
    """Measure full scans with and without stalled clients, in turns."""
    print("\n4 full scans without and with 8 clients that stopped reading", flush=True)
    sums = {0: 0, 8: 0}
    for num_stalled in (0, 8, 8, 0):
        found, _ = server.phase({"scan": 4, "stall": num_stalled}, seconds)
        sums[num_stalled] += sum(found["scan"].client_bytes)
    ratio = sums[8] / max(sums[0], 1)
    print(f"throughput beside stalled clients: {ratio:.2f} of that without (aim: at least 0.9)")
    return {"throughput beside stalled": round(ratio, 2)}


def _row(kind: str, clients: int, done: Done, seconds: float) -> None:
    facts = _facts(done, kind, seconds)
    errors = " ".join(f"{name} {count}" for name, count in done.errors.items())
    print(
        f"  {kind:<8}{clients:>4} clients{facts['calls']:>8} calls{facts['MB/s']:>8} MB/s"
        f"{facts['p50 ms']:>10} ms p50{facts['p99 ms']:>10} ms p99  {errors}",
        flush=True,
    )


def _facts(done: Done, kind: str, seconds: float) -> dict[str, object]:
    return {
        "calls": len(done.seconds),
        "MB/s": 0 if kind == "list" else round(sum(done.client_bytes) / 1e6 / seconds),
        "p50 ms": round(1000 * done.quantile(0.5), 1),
        "p99 ms": round(1000 * done.quantile(0.99), 1),
        "errors": dict(done.errors),
    }


def _scaled(clients: int) -> dict[str, int]:
    """Return the mix for a number of clients, with one of each kind at least."""
    return {kind: max(1, round(count * clients / sum(MIX.values()))) for kind, count in MIX.items()}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    add_folder_option(parser)
    parser.add_argument("--clients", type=int, default=64, help="clients of all kinds together")
    parser.add_argument("--minutes", type=float, default=10, help="time that all clients run together")
    parser.add_argument("--seconds", type=float, help="the same time in seconds")
    parser.add_argument("--alone", type=float, default=4, help="seconds of each kind alone")
    parser.add_argument("--mixed-only", action="store_true", help="leave out the two phases before")
    parser.add_argument("--workers", type=int, default=2, help="processes of the server")
    parser.add_argument("--scale", type=float, default=0.25, help="factor on the number of rows")
    parser.add_argument("--option", action="append", default=[], help="an option of the server, repeatable")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
