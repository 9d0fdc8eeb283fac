"""Vectors, indices on them by the reference or by this project, and their exact neighbours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import lance_core
from lance_core.index.cache import IndexCache
from lance_core.index.segments import OpenSegment, open_segment
from lance_core.index.vector.opened import OpenVectorSegment

Array = npt.NDArray[Any]

KINDS: dict[str, dict[str, Any]] = {
    "IVF_FLAT": {},
    "IVF_SQ": {},
    "IVF_PQ": {"num_sub_vectors": 8},
    "IVF_RQ": {},
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_SQ": {},
    "IVF_HNSW_PQ": {"num_sub_vectors": 8},
}
"""Parameters of each kind of index."""


def clustered(num_rows: int, dimension: int, seed: int = 1, num_clusters: int = 20) -> Array:
    """Return float32 vectors around some centers."""
    chance = np.random.default_rng(seed)
    centers = chance.standard_normal((num_clusters, dimension)) * 3
    noise = chance.standard_normal((num_rows, dimension))
    return (centers[chance.integers(0, num_clusters, num_rows)] + noise).astype(np.float32)


def uniform(num_rows: int, dimension: int, seed: int = 1) -> Array:
    """Return float32 vectors that are uniform in a cube."""
    return np.random.default_rng(seed).random((num_rows, dimension), np.float32)


def vector_table(vectors: Array, first: int = 0) -> pa.Table:
    """Return a table with the columns `id` and `vector`."""
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    return pa.table({"id": pa.array(range(first, first + len(vectors)), pa.int64()), "vector": column})


def exact_distances(query: Array, vectors: Array, metric: str) -> Array:
    """Return the distance of a query to each vector in float64."""
    wide, asked = vectors.astype(np.float64), query.astype(np.float64)
    if metric == "hamming":
        return np.bitwise_count(vectors ^ query).sum(axis=1).astype(np.float64)
    if metric == "l2":
        return ((wide - asked) ** 2).sum(axis=1)
    if metric == "dot":
        return 1 - wide @ asked
    return 1 - wide @ asked / np.linalg.norm(wide, axis=1) / np.linalg.norm(asked)


def nearest_rows(query: Array, vectors: Array, metric: str, k: int) -> Array:
    """Return the numbers of the `k` nearest vectors, nearest first."""
    distances = exact_distances(query, vectors, metric)
    return np.lexsort((np.arange(len(vectors)), distances))[:k]


def open_segments(path: Path | str, cache: IndexCache | None = None) -> list[OpenSegment]:
    """Return the segments of the indices of a dataset, opened."""
    snapshot = lance_core.dataset(str(path))._snapshot
    cache = cache or IndexCache()
    return [open_segment(snapshot, entry, cache) for entry in snapshot.manifest.index_segments]


def vector_segments(path: Path | str) -> list[OpenVectorSegment]:
    """Return the segments of the only index of a dataset."""
    return [OpenVectorSegment(segment) for segment in open_segments(path)]
