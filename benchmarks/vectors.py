"""Exact vector search: time of one query and of 64, against the reference and, if it is installed, faiss.

    python -m benchmarks.vectors [--rows 1000000] [--dimension 128] [--runs 7]

All of them search the same vectors in turn, in one process. faiss has them in memory as one array.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import lance_core

NUM_QUERIES = 64
NUM_NEAREST = 10


def main() -> None:
    options = _options()
    random = np.random.default_rng(0)
    vectors = random.standard_normal((options.rows, options.dimension), dtype=np.float32)
    queries = random.standard_normal((NUM_QUERIES, options.dimension), dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "vectors.lance")
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), options.dimension)
        table = pa.table({"id": np.arange(options.rows), "v": column})
        lance.write_dataset(table, path, max_rows_per_file=-(-options.rows // 4))
        searches: dict[str, Callable[[npt.NDArray[np.float32]], Any]] = {
            "ours": _search(lance_core.dataset(path)),
            "pylance": _search(lance.dataset(path)),
        }
        flat = flat_search(vectors)
        if flat is not None:
            searches["faiss"] = flat
        for name, asked in (("one query", queries[0]), (f"{NUM_QUERIES} queries", queries)):
            times = _times(searches, asked, options.runs)
            print(name, ", ".join(f"{key}: {1000 * value:.1f} ms" for key, value in times.items()))


def _search(dataset: Any) -> Callable[[npt.NDArray[np.float32]], Any]:
    def search(q: npt.NDArray[np.float32]) -> Any:
        return dataset.to_table(columns=["id"], nearest={"column": "v", "q": q, "k": NUM_NEAREST})

    return search


def flat_search(vectors: npt.NDArray[np.float32]) -> Callable[[npt.NDArray[np.float32]], Any] | None:
    try:
        faiss = import_module("faiss")
    except ImportError:
        return None
    index = faiss.IndexFlatL2(vectors.shape[1])
    index.add(vectors)
    return lambda q: index.search(q.reshape(-1, vectors.shape[1]), NUM_NEAREST)


def _times(
    searches: dict[str, Callable[[npt.NDArray[np.float32]], Any]], q: npt.NDArray[np.float32], runs: int
) -> dict[str, float]:
    """Return the median seconds of each search; they take turns, so that a busy moment meets all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in searches}
    for number in range(runs + 1):  # the first turn fills the caches
        for name, search in searches.items():
            begin = time.perf_counter()
            search(q)
            if number:
                seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in seconds.items()}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--runs", type=int, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    main()
