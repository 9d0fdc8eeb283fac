"""Partitions that became too small or too large when an index is optimized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pytest

import lance_core
from support.searches.vector_indices import nearest_rows, vector_table

Array = npt.NDArray[Any]

DIMENSION = 8
CENTERS = np.eye(3, DIMENSION, dtype=np.float32) * 20


def _around(center: int, num_rows: int, seed: int) -> Array:
    noise = np.random.default_rng(seed).standard_normal((num_rows, DIMENSION), np.float32)
    return CENTERS[center] + noise


def _segments(path: Path) -> list[dict[str, Any]]:
    """Return the statistics of the segments of the only index."""
    dataset = lance_core.dataset(str(path))
    (index,) = dataset.describe_indices()
    found: list[dict[str, Any]] = dataset.stats.index_stats(index.name)["indices"]
    return found


def _sizes(path: Path) -> list[list[int]]:
    return [[partition["size"] for partition in segment["partitions"]] for segment in _segments(path)]


def _check_search(path: Path, vectors: Array) -> None:
    """Both libraries find the nearest rows in all partitions."""
    for query in vectors[:: len(vectors) // 5] + np.float32(0.01):
        expected = nearest_rows(query, vectors, "l2", 5).tolist()
        nearest = {"column": "vector", "q": query, "k": 5, "nprobes": 50}
        for library in (lance_core, lance):
            found = library.dataset(str(path)).to_table(columns=["id", "_distance"], nearest=nearest)
            assert found["id"].to_pylist() == expected


@pytest.mark.parametrize("library", [lance_core, lance])
def test_small_partitions_are_given_up(tmp_path: Path, library: Any) -> None:
    """Partitions with less than a quarter of the wanted rows are joined, by either library."""
    vectors = np.concatenate([_around(center, 500, center) for center in (0, 1, 2)])
    path = tmp_path / "t"
    dataset = lance_core.write_dataset(vector_table(vectors[:1490]), str(path))
    dataset.create_index("vector", "IVF_FLAT", ivf_centroids=CENTERS)
    assert _sizes(path) == [[500, 500, 490]]
    lance_core.dataset(str(path)).insert(vector_table(vectors[1490:], 1490))
    library.dataset(str(path)).optimize.optimize_indices()
    assert _sizes(path) == [[1500]]
    _check_search(path, vectors)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_a_large_partition_is_divided(tmp_path: Path, metric: str) -> None:
    """A partition with more than four times the wanted rows gets as many parts as it has times these rows."""
    vectors = np.concatenate(
        [_around(center, count, center) for center, count in ((0, 100), (1, 100), (2, 600))]
    )
    path = tmp_path / "t"
    dataset = lance_core.write_dataset(vector_table(vectors[:300]), str(path))
    centroids = CENTERS if metric == "l2" else CENTERS / 20
    options: dict[str, Any] = {"metric": metric, "ivf_centroids": centroids, "target_partition_size": 100}
    dataset.create_index("vector", "IVF_FLAT", **options)
    assert _sizes(path) == [[100, 100, 100]]
    lance_core.dataset(str(path)).insert(vector_table(vectors[300:], 300))
    lance_core.dataset(str(path)).optimize.optimize_indices()
    (sizes,) = _sizes(path)
    assert sizes[:2] == [100, 100]
    assert len(sizes) == 8
    assert sum(sizes) == 800
    assert max(sizes) <= 400
    if metric == "l2":
        _check_search(path, vectors)


def test_bits_are_joined(tmp_path: Path) -> None:
    """The centroid of bits that stays is one of the old ones."""
    vectors = np.random.default_rng(1).integers(0, 256, (300, DIMENSION), np.uint8)
    path = tmp_path / "t"
    dataset = lance_core.write_dataset(vector_table(vectors[:200]), str(path))
    dataset.create_index("vector", "IVF_FLAT", metric="hamming", ivf_centroids=vectors[:3])
    lance_core.dataset(str(path)).insert(vector_table(vectors[200:], 200))
    lance_core.dataset(str(path)).optimize.optimize_indices()
    assert _sizes(path) == [[300]]
    assert _segments(path)[0]["centroids"][0] in vectors[:3].tolist()


@pytest.mark.parametrize("how", ["number of segments", "trained apart"])
def test_partitions_stay(tmp_path: Path, how: str) -> None:
    """The number of segments to merge, or segments with different partitions, keep them as they are."""
    vectors = np.concatenate([_around(center, 100, center) for center in (0, 1, 2)])
    path = tmp_path / "t"
    dataset = lance_core.write_dataset(vector_table(vectors[:200]), str(path), max_rows_per_file=100)
    if how == "trained apart":
        segments = [
            dataset.create_index_uncommitted(
                "vector", "IVF_FLAT", name="apart", fragment_ids=[number], ivf_centroids=CENTERS[: 2 + number]
            )
            for number in (0, 1)
        ]
        dataset = dataset.commit_existing_index_segments("apart", "vector", segments)
    else:
        dataset.create_index("vector", "IVF_FLAT", ivf_centroids=CENTERS)
    lance_core.dataset(str(path)).insert(vector_table(vectors[200:], 200))
    merged = {} if how == "trained apart" else {"num_indices_to_merge": 1}
    lance_core.dataset(str(path)).optimize.optimize_indices(**merged)
    assert max(len(sizes) for sizes in _sizes(path)) == 3
    _check_search(path, vectors)
