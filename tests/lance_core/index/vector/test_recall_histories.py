"""Recall of vector indices through changes by both libraries, beside one that the reference alone changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pytest

import lance_core
from support.searches.vector_indices import KINDS, clustered, uniform, vector_table

Array = npt.NDArray[Any]

DIMENSION, PARTITIONS, PROBES, ROWS, QUERIES, K = 16, 8, 4, 3000, 100, 10
MOST_BELOW = 0.01
"""Most by which the recall of ours may be below that of the reference, with the same parameters."""


def _insert(dataset: Any, vectors: Array, first: int, last: int) -> None:
    dataset.insert(vector_table(vectors[first:last], first))


STEPS: tuple[tuple[str, Callable[[Any, Array], object]], ...] = (
    ("append", lambda dataset, vectors: _insert(dataset, vectors, 2000, 2400)),
    ("optimize", lambda dataset, vectors: dataset.optimize.optimize_indices()),
    ("delete", lambda dataset, vectors: dataset.delete("id % 7 = 3")),
    ("compact", lambda dataset, vectors: dataset.optimize.compact_files()),
    ("update", lambda dataset, vectors: dataset.update({"other": "other + 1"}, "id % 5 = 2")),
    ("append again", lambda dataset, vectors: _insert(dataset, vectors, 2400, ROWS)),
    ("merge segments", lambda dataset, vectors: dataset.optimize.optimize_indices(num_indices_to_merge=1)),
    ("compact again", lambda dataset, vectors: dataset.optimize.compact_files()),
)


def _recall(library: ModuleType, path: Path, kind: str, vectors: Array, queries: Array) -> float:
    dataset = library.dataset(str(path))
    live = np.sort(lance.dataset(str(path)).to_table(columns=["id"])["id"].to_numpy())
    distances = ((queries[:, None, :] - vectors[live][None]) ** 2).sum(axis=2)
    exact = live[np.argpartition(distances, K, axis=1)[:, :K]]
    options: dict[str, Any] = {"ef": 100} if "HNSW" in kind else {}
    if "RQ" in kind:
        options["approx_mode"] = "accurate"
    hits = 0
    for query, expected in zip(queries, exact, strict=True):
        nearest = {"column": "vector", "q": query, "k": K, "nprobes": PROBES, **options}
        found = dataset.to_table(columns=["id", "_distance"], nearest=nearest)["id"].to_pylist()
        hits += len(set(found) & set(expected.tolist()))
    return hits / (K * len(queries))


def _codewords(vectors: Array) -> Array:
    """Return differences to the nearest centroid as codewords, those of one sub-vector after the other."""
    centroids = vectors[:PARTITIONS]
    chosen = vectors[PARTITIONS : PARTITIONS + 256]
    nearest = ((chosen[:, None, :] - centroids[None]) ** 2).sum(axis=2).argmin(axis=1)
    num_sub_vectors = KINDS["IVF_PQ"]["num_sub_vectors"]
    return np.stack(np.split(chosen - centroids[nearest], num_sub_vectors, axis=1))


def _build(library: ModuleType, path: Path, kind: str, vectors: Array, model: dict[str, Any]) -> None:
    table = vector_table(vectors[:2000])
    table = table.append_column("other", table["id"])
    dataset = library.write_dataset(table, str(path), max_rows_per_file=500)
    dataset.create_index("vector", kind, num_partitions=PARTITIONS, **KINDS[kind], **model)


CASES = [
    pytest.param(kind, make, marks=[] if (kind, make) == ("IVF_PQ", uniform) else pytest.mark.long)
    for kind in KINDS
    for make in (clustered, uniform)
]


@pytest.mark.parametrize(("kind", "make"), CASES)
def test_recall_stays_that_of_the_reference(tmp_path: Path, kind: str, make: Any) -> None:
    """T43: both libraries change one table in turn, the reference alone the other one.

    Both indices have the same centroids and codewords, because the recall depends on them.
    """
    vectors, queries = make(ROWS, DIMENSION), make(ROWS + QUERIES, DIMENSION)[ROWS:]
    model: dict[str, Any] = {"ivf_centroids": vectors[:PARTITIONS]}
    if "PQ" in kind:
        model["pq_codebook"] = _codewords(vectors)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    _build(lance_core, ours, kind, vectors, model)
    _build(lance, theirs, kind, vectors, model)
    for number, (step, change) in enumerate((("build", None), *STEPS)):
        if change is not None:
            change((lance_core, lance)[number % 2].dataset(str(ours)), vectors)
            change(lance.dataset(str(theirs)), vectors)
        expected = _recall(lance, theirs, kind, vectors, queries)
        for library in (lance_core, lance):
            seen = _recall(library, ours, kind, vectors, queries)
            assert seen >= expected - MOST_BELOW, (step, library.__name__, seen, expected)
