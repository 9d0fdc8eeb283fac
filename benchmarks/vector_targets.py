"""Vector search and vector indices beside the reference, with the aims of the project and whether they hold.

    python -m benchmarks.vector_targets [--rows 1000000] [--dimension 128] [--recall 0.95]

1. Both libraries build an IVF_PQ index on a copy of the same vectors, each in a process of its own.
2. Both search the index that was built here, in turn in one process. The parameters are those with which
   the reference is fastest at the wanted recall. Then both compare all vectors, and so does faiss, if it is
   installed.
3. A server process and `flight_client` search the same index, by calls and on an open stream, in turn with a
   search in this process, with a server that only searches, and with the same server when it repeats its
   latest answer without a search. The last one shows what a call of Flight itself costs.
4. Both search again, each in a process of its own, for its peak memory. Pages of mapped data files are not
   counted: they are in the cache of the system in any case.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import flight

import flight_client
from benchmarks.flight_scan import running
from benchmarks.measure import interleave
from benchmarks.peak_memory import MODULES
from benchmarks.vector_index_builds import NUM_NEAREST, build_apart
from benchmarks.vectors import flat_search

NUM_QUERIES = 64
_PROBES = (5, 10, 20, 40, 80)
_FACTORS = (5, 10, 20, 40)
_DIRECTIONS = 24
_NOISE = np.float32(0.2)

_MOST_MORE_MS = 1.0
"""Aim for what a search over Flight takes in addition to a local one."""

Vectors = npt.NDArray[np.float32]
Parameters = dict[str, int]


def main() -> None:
    options = _options()
    if options.search:
        _search(*options.search)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        _measure(Path(scratch), options.rows, options.dimension, options.recall, options.runs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--recall", type=float, default=0.95)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--search", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure(folder: Path, num_rows: int, dimension: int, recall: float, runs: int) -> None:
    vectors = embeddings(num_rows, dimension, seed=1)
    queries = embeddings(NUM_QUERIES, dimension, seed=2)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), dimension)
    table = pa.table({"id": np.arange(num_rows), "vector": column})
    settings = {"num_partitions": max(1, num_rows // 4096), "num_sub_vectors": dimension // 8}
    print(f"{num_rows} x {dimension}, IVF_PQ {settings}", flush=True)
    builds = {}
    for name in MODULES:
        path = str(folder / f"{name}.lance")
        lance.write_dataset(table, path, max_rows_per_file=-(-num_rows // 4))
        builds[name] = build_apart(name, path, "IVF_PQ", settings)
    del table, column
    _print("build, s", {name: facts["seconds"] for name, facts in builds.items()}, 1)
    _print("build, peak MB", {name: facts["peak"] / 1e6 for name, facts in builds.items()}, 1)

    path = str(folder / "ours.lance")
    datasets = {name: importlib.import_module(module).dataset(path) for name, module in MODULES.items()}
    exact = _found(_ask(datasets["pylance"], queries, {"use_index": 0}))
    found = _fastest(datasets["pylance"], queries, exact, recall)
    if found is None:
        print(f"no parameters reach a recall of {recall}")
    else:
        recalls = {name: recall_of(dataset, queries, exact, found) for name, dataset in datasets.items()}
        print(
            f"index searched with {found}, recall", {name: round(each, 3) for name, each in recalls.items()}
        )
        one, many = _searches(datasets, queries, found)
        _print("indexed, ms per query", _times(one, NUM_QUERIES * 2, warm_ups=NUM_QUERIES), 1.2)
        _print(f"indexed, ms for {NUM_QUERIES} queries", _times(many, runs), 1.2)
        _print_served(folder, datasets["ours"], queries, found)
    one, many = _searches(datasets, queries, {"use_index": 0})
    flat = flat_search(vectors)
    for title, searches, asked in (
        ("exact, ms per query", one, queries[0]),
        (f"exact, ms for {NUM_QUERIES} queries", many, queries),
    ):
        if flat is not None:
            searches["faiss"] = lambda asked=asked: flat(asked)
        _print(title, _times(searches, runs), 2, against_faiss=0.8)
    given = {"indexed": found, "exact": {"use_index": 0}}
    np.save(folder / "queries.npy", queries)
    for title, parameters in given.items():
        if parameters is not None:
            peaks = {name: _peak_apart(name, path, folder / "queries.npy", parameters) for name in MODULES}
            _print(f"{title}, peak MB", {name: peak / 1e6 for name, peak in peaks.items()}, 1)


def _print_served(folder: Path, local: Any, queries: Vectors, parameters: Parameters) -> None:
    """Print how long a search of one query takes here and through servers on this machine."""
    asked = {"column": "vector", "k": NUM_NEAREST, "metric": "l2", **parameters}
    with (
        running("ours", "flight_server.cli", "serve", str(folder), "--port", "0") as server,
        running("search", "benchmarks.peer_server", "search", local.uri) as bare_server,
        flight_client.connect(server.uri) as client,
        flight.connect(bare_server.uri) as bare_client,
    ):
        remote = client.dataset("ours")
        served_numbers, bare_numbers = _endless(len(queries)), _endless(len(queries))

        def served() -> pa.Table:
            query = queries[next(served_numbers)]
            return remote.search(query, k=NUM_NEAREST, columns=["id"], metric="l2", **parameters)

        def bare(**more: bool) -> pa.Table:
            query = base64.b64encode(queries[next(bare_numbers)]).decode()
            return bare_client.do_get(flight.Ticket(json.dumps({**asked, **more, "q": query}))).read_all()

        searcher = remote.searcher(k=NUM_NEAREST, columns=["id"], metric="l2", **parameters)
        stream_numbers = _endless(len(queries))
        searches = _searches({"local": local}, queries, parameters)[0]
        searches |= {
            "on a stream": lambda: searcher.search(queries[next(stream_numbers)]),
            "by calls": served,
            "by a server that only searches": bare,
            "its latest answer again": partial(bare, again=True),
        }
        times = _times(searches, NUM_QUERIES * 3, warm_ups=NUM_QUERIES)
        searcher.close()
    print("over Flight, ms per query:", ", ".join(f"{name} {time:.2f}" for name, time in times.items()))
    for name in ("on a stream", "by calls"):
        more = times[name] - times["local"]
        verdict = "holds" if more <= _MOST_MORE_MS else "MISSED"
        print(f"over Flight {name}: + {more:.2f} ms (aim {_MOST_MORE_MS}: {verdict})", flush=True)


def embeddings(num_rows: int, dimension: int, seed: int) -> Vectors:
    """Return vectors that, like those of texts, vary in fewer directions than they have dimensions."""
    directions = np.random.default_rng(0).standard_normal((_DIRECTIONS, dimension), np.float32)
    chance = np.random.default_rng(seed)
    vectors = chance.standard_normal((num_rows, dimension), np.float32)
    vectors *= _NOISE
    step = 100_000
    for start in range(0, num_rows, step):
        some = vectors[start : start + step]
        some += chance.standard_normal((len(some), _DIRECTIONS), np.float32) @ directions
    return vectors


def _print(title: str, values: Mapping[str, float], aim: float, against_faiss: float | None = None) -> None:
    """Print values of all libraries, and how many times larger than ours the others are."""
    ratios = {name: value / values["ours"] for name, value in values.items() if name != "ours"}
    aims = {"pylance": aim, "faiss": against_faiss}
    shown = []
    for name, ratio in ratios.items():
        verdict = "holds" if ratio >= (aims[name] or 0) else "MISSED"
        shown.append(f"{name} {values[name]:.2f} (x {ratio:.2f}, aim {aims[name]}: {verdict})")
    print(f"{title}: ours {values['ours']:.2f}, {', '.join(shown)}", flush=True)


def _fastest(dataset: Any, queries: Vectors, exact: list[set[int]], recall: float) -> Parameters | None:
    """Return the parameters with which a library is fastest among those that reach a recall."""
    best: tuple[float, Parameters] | None = None
    for factor in _FACTORS:
        for probes in _PROBES:
            parameters = {"nprobes": probes, "refine_factor": factor}
            start = time.perf_counter()
            reached = recall_of(dataset, queries, exact, parameters)
            seconds = time.perf_counter() - start
            if reached >= recall and (best is None or seconds < best[0]):
                best = seconds, parameters
    return None if best is None else best[1]


def _found(answer: pa.Table) -> list[set[int]]:
    """Return the rows that were found for each of several queries."""
    found: dict[int, set[int]] = {}
    for number, row in zip(answer["query_index"].to_pylist(), answer["id"].to_pylist(), strict=True):
        found.setdefault(number, set()).add(row)
    return [found[number] for number in sorted(found)]


def recall_of(dataset: Any, queries: Vectors, exact: list[set[int]], parameters: Parameters) -> float:
    """Return the share of the nearest rows that searches find."""
    hits = sum(
        len(rows & set(_ask(dataset, query, parameters)["id"].to_pylist()))
        for query, rows in zip(queries, exact, strict=True)
    )
    return hits / (NUM_NEAREST * len(queries))


def _ask(dataset: Any, query: Vectors, parameters: Parameters) -> pa.Table:
    given = dict(parameters)
    given["use_index"] = bool(given.get("use_index", 1))
    nearest = {"column": "vector", "q": query, "k": NUM_NEAREST, "metric": "l2", **given}
    return dataset.to_table(columns=["id", "_distance"], nearest=nearest)


_Searches = dict[str, Callable[[], object]]


def _searches(
    datasets: Mapping[str, Any], queries: Vectors, parameters: Parameters
) -> tuple[_Searches, _Searches]:
    """Return searches of one query, another one at each call, and searches of all queries at once."""

    def one(dataset: Any) -> Callable[[], object]:
        numbers = _endless(len(queries))
        return lambda: _ask(dataset, queries[next(numbers)], parameters)

    def many(dataset: Any) -> Callable[[], object]:
        return lambda: _ask(dataset, queries, parameters)

    return (
        {name: one(dataset) for name, dataset in datasets.items()},
        {name: many(dataset) for name, dataset in datasets.items()},
    )


def _endless(count: int) -> Iterator[int]:
    while True:
        yield from range(count)


def _times(searches: _Searches, runs: int, warm_ups: int = 1) -> dict[str, float]:
    """Return the median milliseconds of each search."""
    measured = interleave("search", "vectors", 0, searches, runs, warm_ups=warm_ups)
    return {name: 1000 * seconds for name, seconds in measured.seconds.items()}


def _peak_apart(name: str, path: str, queries: Path, parameters: Parameters) -> float:
    command = [sys.executable, "-m", "benchmarks.vector_targets", "--search", name, path]
    text = json.dumps({"queries": str(queries), "parameters": parameters})
    done = subprocess.run([*command, text], check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout)


def _search(name: str, path: str, text: str) -> None:
    given = json.loads(text)
    queries = np.load(given["queries"])
    dataset = importlib.import_module(MODULES[name]).dataset(path)
    sizes = [_own_bytes()]
    is_done = threading.Event()

    def watch() -> None:
        while not is_done.wait(0.002):
            sizes.append(_own_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for query in queries:
        _ask(dataset, query, given["parameters"])
    _ask(dataset, queries, given["parameters"])
    is_done.set()
    watcher.join()
    print(max(sizes) - sizes[0])


def _own_bytes() -> int:
    """Return the resident memory of this process without pages of mapped files."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) << 10


if __name__ == "__main__":
    main()
