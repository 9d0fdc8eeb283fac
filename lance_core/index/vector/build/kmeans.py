"""Clusters of vectors by Lloyd's algorithm.

Clusters without vectors take over a part of the largest clusters. More than 256 clusters are found in two
steps: first few clusters, then parts of each of them, in proportion to their sizes. A last step moves all
centroids together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from lance_core import kernels
from lance_core.pool import num_workers, run_all

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.uint32]

_TOLERANCE = 1e-4
_MOST_AT_ONCE = 256
_LAST_ITERATIONS = 2
_LEAST_ROWS_PER_THREAD = 4096
_NUDGE = np.float32(1 / 1024)


@dataclass(frozen=True)
class Sample:
    """Vectors to cluster: the columns `[start, start + dimension)` of a matrix.

    Attributes:
        values: The matrix, contiguous.
        start: First column.
        dimension: Number of columns.
        metric: `l2`; or `dot` for centroids of norm 1 that have the largest product with their vectors.
    """

    values: Floats
    start: int
    dimension: int
    metric: str = "l2"

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, chosen: npt.NDArray[np.integer]) -> Floats:
        """Return some vectors."""
        return np.ascontiguousarray(self.values[chosen, self.start : self.start + self.dimension])

    def assign(self, centroids: Floats) -> tuple[Numbers, Floats]:
        """Return the cluster of each vector, and its distance to the centroid."""
        return _assign(self.values, self.start, centroids, self.metric)

    def means(self, clusters: Numbers, centroids: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Return the new centroids and the sizes of their clusters. Those of empty clusters stay."""
        sums, sizes = kernels.sum_clusters(
            self.values, self.values.shape[1], self.start, self.dimension, clusters, len(centroids)
        )
        totals = np.frombuffer(memoryview(sums), np.float64).reshape(centroids.shape)
        counts = np.frombuffer(memoryview(sizes), np.int64)
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.metric == "dot":
                scale = np.linalg.norm(totals, axis=1)
            else:
                scale = counts.astype(np.float64)
            means = (totals / scale[:, None]).astype(np.float32)
        return np.where((scale > 0)[:, None], means, centroids), counts


def assign_in_parallel(vectors: Floats, centroids: Floats, metric: str) -> tuple[Numbers, Floats]:
    """Return the number of the nearest centroid of each vector, and the distance to it; all cores work."""
    return _assigned(Sample(vectors, 0, vectors.shape[1], metric), centroids, is_parallel=True)


def nearest_centroids(
    vectors: Floats, centroids: Floats, metric: str, start: int = 0
) -> tuple[Numbers, Floats]:
    """Return the number of the nearest centroid of each vector, and the distance to it; one core works.

    The columns of `vectors` from `start` on, as many as `centroids` has, are compared.
    """
    return _assign(vectors, start, centroids, metric)


def train_clusters(
    sample: Sample,
    count: int,
    max_iterations: int,
    random: np.random.Generator,
    advance: Callable[[int], None] = lambda iterations: None,
    *,
    is_parallel: bool = True,
) -> Floats:
    """Return the centroids of `count` clusters of a sample of at least one vector.

    Args:
        sample: The vectors.
        count: Number of clusters. If the sample has fewer different vectors, centroids are equal.
        max_iterations: Most rounds.
        random: Chooses the vectors that are the first centroids.
        advance: Is told each finished round.
        is_parallel: Whether all cores may work. A thread of the pool must not wait for others.
    """
    if is_parallel and count > _MOST_AT_ONCE and len(sample) > count:
        first = _in_steps(sample, count, max_iterations, random, advance)
        return _iterate(sample, first, _LAST_ITERATIONS, advance, is_parallel)
    return _iterate(sample, _first(sample, count, random), max_iterations, advance, is_parallel)


def _in_steps(
    sample: Sample,
    count: int,
    max_iterations: int,
    random: np.random.Generator,
    advance: Callable[[int], None],
) -> Floats:
    first = _first(sample, math.isqrt(count), random)
    coarse = _iterate(sample, first, max_iterations, advance, is_parallel=True)
    clusters, _ = _assigned(sample, coarse, is_parallel=True)
    sizes = np.bincount(clusters, minlength=len(coarse))
    shares = _shares(sizes, count)
    order = np.argsort(clusters, kind="stable")
    members = np.split(order, np.cumsum(sizes)[:-1])
    seeds = random.spawn(len(coarse))

    def part(number: int) -> Floats:
        rows = Sample(sample.rows(members[number]), 0, sample.dimension, sample.metric)
        return train_clusters(
            rows, int(shares[number]), max_iterations, seeds[number], is_parallel=False
        )

    used = [number for number in range(len(coarse)) if shares[number]]
    return np.concatenate(run_all([partial(part, number) for number in used]))


def _shares(sizes: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Divide `count` in proportion to `sizes`, at least 1 for each that is not 0."""
    exact = sizes * (count / sizes.sum())
    shares = np.where(sizes > 0, np.maximum(1, np.floor(exact)), 0).astype(np.int64)
    while shares.sum() > count:
        shares[np.argmax(np.where(shares > 1, shares - exact, -np.inf))] -= 1
    while shares.sum() < count:
        shares[np.argmax(exact - shares)] += 1
    return shares


def _first(sample: Sample, count: int, random: np.random.Generator) -> Floats:
    chosen = random.choice(len(sample), count, replace=count > len(sample))
    centroids = sample.rows(np.sort(chosen))
    if sample.metric == "dot":
        norms = np.linalg.norm(centroids, axis=1, keepdims=True)
        centroids = np.divide(centroids, norms, out=centroids, where=norms > 0)
    return centroids


def _iterate(
    sample: Sample,
    centroids: Floats,
    max_iterations: int,
    advance: Callable[[int], None],
    is_parallel: bool,
) -> Floats:
    last = math.inf
    for _ in range(max_iterations):
        clusters, distances = _assigned(sample, centroids, is_parallel)
        centroids, sizes = sample.means(clusters, centroids)
        advance(1)
        empty = np.flatnonzero(sizes == 0)
        if len(empty) and len(sample) > len(centroids):
            _split_largest(centroids, sizes, empty)
            last = math.inf
            continue
        loss = float(distances.sum(dtype=np.float64))
        if abs(last - loss) <= _TOLERANCE * abs(loss):
            break
        last = loss
    return centroids


def _split_largest(
    centroids: Floats, sizes: npt.NDArray[np.int64], empty: npt.NDArray[np.intp]
) -> None:
    """Put the centroids of empty clusters beside those of the largest ones."""
    sizes = sizes.copy()
    signs = np.where(np.arange(centroids.shape[1]) % 2, _NUDGE, -_NUDGE).astype(np.float32)
    for cluster in empty.tolist():
        largest = int(np.argmax(sizes))
        centroids[cluster] = centroids[largest] * (1 + signs)
        centroids[largest] *= 1 - signs
        sizes[cluster] = sizes[largest] // 2
        sizes[largest] -= sizes[cluster]


def _assigned(sample: Sample, centroids: Floats, is_parallel: bool) -> tuple[Numbers, Floats]:
    if not is_parallel:
        return sample.assign(centroids)
    parts = _parts(len(sample))
    found = run_all(
        [
            partial(_assign, sample.values[part], sample.start, centroids, sample.metric)
            for part in parts
        ]
    )
    clusters, distances = zip(*found, strict=True)
    return np.concatenate(clusters), np.concatenate(distances)


def _assign(values: Floats, start: int, centroids: Floats, metric: str) -> tuple[Numbers, Floats]:
    clusters, distances = kernels.nearest_centroids(
        metric, values, values.shape[1], start, centroids.shape[1], np.ascontiguousarray(centroids)
    )
    return np.frombuffer(memoryview(clusters), np.uint32), np.frombuffer(memoryview(distances), np.float32)


def _parts(num_rows: int) -> list[slice]:
    """Divide rows among the cores."""
    count = max(1, min(num_workers(), num_rows // _LEAST_ROWS_PER_THREAD))
    bounds = np.linspace(0, num_rows, count + 1).astype(int).tolist()
    return [slice(first, last) for first, last in zip(bounds[:-1], bounds[1:], strict=True)]
