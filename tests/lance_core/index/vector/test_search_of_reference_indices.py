"""Segments that the reference built, searched here: the same rows at the same distances."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.indices import build_rq_model
from lance_core.index.vector.segment_search import SegmentQuery
from support.runs.products import thinned
from support.searches.vector_indices import KINDS, clustered, exact_distances, vector_segments, vector_table

ROWS, DIMENSION, PARTITIONS = 1500, 32, 4
VECTORS = clustered(ROWS, DIMENSION)
QUERIES = clustered(5, DIMENSION, seed=1)[:5] + np.float32(0.1)
EXACT = ("IVF_FLAT", "IVF_HNSW_FLAT")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Return the dataset of a kind and a metric."""
    root = tmp_path_factory.mktemp("reference")

    def write(kind: str, metric: str) -> Path:
        path = root / f"{kind}_{metric}"
        if not path.exists():
            dataset = lance.write_dataset(vector_table(VECTORS), str(path))
            dataset.create_index("vector", kind, metric=metric, num_partitions=PARTITIONS, **KINDS[kind])
        return path

    return write


@pytest.mark.parametrize(("kind", "metric"), thinned(KINDS, ["l2", "cosine", "dot"]))
def test_distances_are_those_of_the_reference(
    table: Callable[[str, str], Path], kind: str, metric: str
) -> None:
    """The reference returns twice the cosine distance for quantised codes. Here it is the distance."""
    (segment,) = vector_segments(table(kind, metric))
    assert (segment.kind, segment.metric, segment.dimension) == (kind, metric, DIMENSION)
    assert segment.is_exact == (kind in EXACT)
    factor = 2 if metric == "cosine" and not segment.is_exact else 1
    for query in QUERIES:
        found = segment.nearest(
            SegmentQuery(
                query[np.newaxis], 50, PARTITIONS, PARTITIONS, candidates=ROWS, approximation="accurate"
            )
        )
        nearest = {"column": "vector", "q": query, "k": 50, "nprobes": PARTITIONS}
        if "HNSW" in kind:
            nearest["ef"] = ROWS
        if "RQ" in kind:
            nearest["approx_mode"] = "accurate"
        expected = lance.dataset(str(table(kind, metric))).to_table(
            columns=["_rowid"], nearest=nearest, with_row_id=True
        )
        assert len(found.keys) == len(np.unique(found.keys)) == 50
        tolerance = 1e-2 if "RQ" in kind else 1e-4
        np.testing.assert_allclose(
            found.distances * factor, expected["_distance"].to_numpy(), rtol=tolerance, atol=tolerance
        )
        by_key = dict(zip(expected["_rowid"].to_pylist(), expected["_distance"].to_pylist(), strict=True))
        shared = [key for key in found.keys.tolist() if key in by_key]
        assert len(shared) >= 48
        if segment.is_exact:
            exact = exact_distances(query, VECTORS[found.keys.astype(int)], metric)
            np.testing.assert_allclose(found.distances, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_segments_that_the_reference_merged_are_read(tmp_path: Path, kind: str) -> None:
    """`index.idx` of a merged segment repeats the partitions of the other file, but none of their rows."""
    path = tmp_path / "table"
    dataset = lance.write_dataset(vector_table(VECTORS), str(path), max_rows_per_file=ROWS // 2)
    model: dict[str, Any] = {"num_partitions": 2, "ivf_centroids": _vectors(VECTORS[:2]), **KINDS[kind]}
    if "PQ" in kind:
        model["pq_codebook"] = _vectors(clustered(256, DIMENSION).reshape(-1, DIMENSION // 8))
    if "RQ" in kind:
        model |= {"rabitq_model": build_rq_model(DIMENSION, 5), "num_bits": 5}
    segments = [
        dataset.create_index_uncommitted("vector", kind, fragment_ids=[number], **model) for number in (0, 1)
    ]
    merged = dataset.merge_existing_index_segments(segments)
    dataset.commit_existing_index_segments("vector_idx", "vector", [merged])

    def check() -> None:
        ours = lance_core.dataset(path)
        query = {"column": "vector", "q": QUERIES[0], "k": 10}
        exact = ours.to_table(columns=["id"], nearest={**query, "use_index": False})["id"].to_pylist()
        given = {"nprobes": 2, "refine_factor": 20, "ef": 400}
        found = ours.to_table(columns=["id"], nearest={**query, **given}, fast_search=True)["id"].to_pylist()
        assert len(set(found) & set(exact)) >= 9

    check()
    ours = lance_core.dataset(path)
    ours.delete("id % 9 = 0")
    ours.optimize.compact_files()
    check()
    ours.insert(vector_table(clustered(200, DIMENSION, seed=5), ROWS))
    ours.optimize.optimize_indices(num_indices_to_merge=1)
    check()


def _vectors(values: Any) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def test_an_index_of_nulls_finds_nothing(tmp_path: Path) -> None:
    """All vectors are null, and the centroids were given: the reference covers the fragment, without rows."""
    path = str(tmp_path / "t")
    table = pa.table({"id": range(300), "v": pa.nulls(300, pa.list_(pa.float32(), 4))})
    lance.write_dataset(table, path).create_index(
        "v", "IVF_FLAT", num_partitions=4, ivf_centroids=np.eye(4, dtype=np.float32)
    )
    dataset = lance_core.dataset(path)
    for q in (np.ones(4, np.float32), np.ones((3, 4), np.float32)):
        assert dataset.to_table(nearest={"column": "v", "q": q, "k": 3}).num_rows == 0
