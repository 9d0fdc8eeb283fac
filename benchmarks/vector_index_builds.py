"""Time, memory and recall of building vector indices, against the reference.

    python -m benchmarks.vector_index_builds [--rows 200000] [--dimension 128] [--kind IVF_PQ]

Each build runs in a process of its own: its seconds, and its peak memory beyond the start of the process.
Then the reference searches both indices, with the same parameters: the share of the 10 nearest rows that it
finds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from benchmarks.measure import peak_bytes_of
from benchmarks.peak_memory import MODULES

NUM_CLUSTERS = 200
NUM_QUERIES = 50
NUM_NEAREST = 10


def main() -> None:
    options = _options()
    if options.build:
        _build(*options.build)
        return
    vectors = vectors_around(options.rows, options.dimension, seed=1)
    queries = vectors_around(NUM_QUERIES, options.dimension, seed=2)
    parameters = {"num_partitions": max(1, options.rows // 4096)}
    if options.kind.endswith("PQ"):
        parameters["num_sub_vectors"] = options.dimension // 8
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), options.dimension)
    exact = [nearest_of(vectors, query) for query in queries]
    print(f"{options.rows} x {options.dimension}, {options.kind} {parameters}")
    with tempfile.TemporaryDirectory() as scratch:
        for name in MODULES:
            path = f"{scratch}/{name}"
            lance.write_dataset(pa.table({"vector": column}), path)
            facts = build_apart(name, path, options.kind, parameters)
            recalls = [f"{_recall(path, queries, exact, probes):.3f}" for probes in (1, 8, 32)]
            print(
                f"{name:8} {facts['seconds']:7.2f} s  {facts['peak'] / 1e6:6.0f} MB  "
                f"recall with 1, 8, 32 probes, refined 5 times: {', '.join(recalls)}",
                flush=True,
            )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--kind", default="IVF_PQ")
    parser.add_argument("--build", nargs=4, help=argparse.SUPPRESS)
    return parser.parse_args()


def vectors_around(num_rows: int, dimension: int, seed: int) -> np.ndarray[Any, Any]:
    centers = np.random.default_rng(0).standard_normal((NUM_CLUSTERS, dimension), np.float32) * 2
    chance = np.random.default_rng(seed)
    vectors = chance.standard_normal((num_rows, dimension), np.float32)
    vectors += centers[chance.integers(0, NUM_CLUSTERS, num_rows)]
    return vectors


def nearest_of(vectors: np.ndarray[Any, Any], query: np.ndarray[Any, Any]) -> set[int]:
    distances = ((vectors - query) ** 2).sum(axis=1)
    return set(np.argpartition(distances, NUM_NEAREST)[:NUM_NEAREST].tolist())


def build_apart(name: str, path: str, kind: str, parameters: dict[str, int]) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.vector_index_builds", "--build"]
    done = subprocess.run(
        [*command, name, path, kind, json.dumps(parameters)], check=True, stdout=subprocess.PIPE, text=True
    )
    return dict(json.loads(done.stdout))


def _build(name: str, path: str, kind: str, parameters: str) -> None:
    dataset = importlib.import_module(MODULES[name]).dataset(path)
    idle, started = peak_bytes_of("self"), time.perf_counter()
    dataset.create_index("vector", kind, **json.loads(parameters))
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "peak": peak_bytes_of("self") - idle}))


def _recall(path: str, queries: np.ndarray[Any, Any], exact: list[set[int]], probes: int) -> float:
    dataset = lance.dataset(str(Path(path)))
    hits = 0
    for query, rows in zip(queries, exact, strict=True):
        nearest = {"column": "vector", "q": query, "k": NUM_NEAREST, "nprobes": probes, "refine_factor": 5}
        found = dataset.to_table(columns=["_distance"], nearest=nearest, with_row_id=True)
        hits += len(rows & set(found["_rowid"].to_pylist()))
    return hits / (NUM_NEAREST * len(queries))


if __name__ == "__main__":
    main()
