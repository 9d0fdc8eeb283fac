"""Training of a vector index: centroids of its partitions, and the codebook or the bounds of its codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.index.build import IndexedRows
from lance_core.index.progress import stage
from lance_core.index.vector.build.kmeans import Sample, assign_in_parallel, train_clusters
from lance_core.index.vector.build.options import VectorOptions
from lance_core.index.vector.build.vectors import VectorType, usable_vectors
from lance_core.index.vector.codes.rotation import random_signs
from lance_core.index.vector.codes.scalar import Bounds
from lance_core.pool import run_all

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]

_MOST_SAMPLE_BYTES = 1 << 30
_BOUNDS_ROWS = 1 << 16
_LEAST_ROWS = 256
"""Rows of the sample of a segment with a given model. They tell whether there is any vector: some may be null."""


@dataclass(frozen=True)
class TrainedModel:
    """Centroids and codes of a segment.

    Attributes:
        centroids: One row per partition, in the element type of the column.
        codebook: Codewords of product codes: [sub-vector][codeword][dimension of the sub-vector], rounded to
            the element type of the column.
        bounds: Bounds of scalar codes.
        rotation_signs: Rotation of RaBitQ codes, see `FastRotation`.
    """

    centroids: Array
    codebook: Floats | None = None
    bounds: Bounds | None = None
    rotation_signs: npt.NDArray[np.uint8] | None = None


def train(rows: IndexedRows, options: VectorOptions, kind: VectorType) -> TrainedModel | None:
    """Return the model for some rows; None if they are too few.

    There must be a vector, and for product codes as many vectors as a sub-vector has codewords.
    """
    num_partitions = options.partitions_of(rows.num_rows)
    num_codewords = 1 << options.num_bits if options.codes == "PQ" and options.codebook is None else 1
    num_rows = _sample_rows(options, num_partitions, kind)
    with _training_stage(rows, options) as advance:
        sample = random_vectors(rows, num_rows, options, kind)
        # Most rows have no usable vector. The rows are random: the larger sample has about `2 * num_codewords`.
        while len(sample) < num_codewords and num_rows < rows.num_rows:
            num_rows *= 2 * num_codewords // (len(sample) + 1) + 1
            sample = random_vectors(rows, num_rows, options, kind)
        if len(sample) < num_codewords:
            return None
        random = np.random.default_rng(len(sample))
        centroids = _centroids(sample, options, num_partitions, kind, random, advance)
    codebook = bounds = signs = None
    if options.codes == "PQ":
        codebook = _codebook(rows, sample, centroids, options, kind, random)
    elif options.codes == "SQ":
        chosen = sample[:_BOUNDS_ROWS]
        bounds = Bounds(float(chosen.min()), float(chosen.max()))
    elif options.codes == "RQ":
        signs = options.rotation_signs
        if signs is None:
            signs = random_signs(kind.dimension, random)
    return TrainedModel(centroids, codebook, bounds, signs)


def given_model(options: VectorOptions, kind: VectorType) -> TrainedModel:
    """Return the model of an index with product codes whose options have the centroids and the codebook."""
    assert options.centroids is not None
    assert options.codebook is not None
    return TrainedModel(options.centroids.astype(kind.dtype), _given_codebook(options.codebook, options, kind))


def centroid_metric(metric: str) -> str:
    """Return how vectors are compared with centroids. Bits are compared as numbers 1 and -1."""
    return "l2" if metric in ("l2", "cosine") else "dot"


def comparable(vectors: Array, metric: str) -> Floats:
    """Return vectors as they are compared with centroids, in float32: bytes as a number 1 or -1 per bit."""
    if metric != "hamming":
        return np.ascontiguousarray(vectors, np.float32)
    bits = np.unpackbits(vectors, axis=1, bitorder="little")
    return bits.astype(np.float32) * np.float32(2) - np.float32(1)


def _sample_rows(options: VectorOptions, num_partitions: int, kind: VectorType) -> int:
    wanted = _LEAST_ROWS
    if options.centroids is None:
        wanted = options.sample_rate * num_partitions
    if options.codes == "PQ" and options.codebook is None:
        wanted = max(wanted, options.sample_rate << options.num_bits)
    if options.codes == "SQ":
        wanted = max(wanted, _BOUNDS_ROWS)
    return min(wanted, max(_BOUNDS_ROWS, _MOST_SAMPLE_BYTES // (4 * kind.dimension)))


def random_vectors(rows: IndexedRows, num_rows: int, options: VectorOptions, kind: VectorType) -> Array:
    """Return the usable vectors among `num_rows` random rows, in random order."""
    random = np.random.default_rng(rows.num_rows)
    if num_rows < rows.num_rows:
        chosen = np.sort(random.choice(rows.num_rows, num_rows, replace=False))
    else:
        chosen = np.arange(rows.num_rows)
    with stage(rows.observer, "sample", rows.num_rows) as advance:

        def picked() -> Iterator[pa.RecordBatch]:
            first = 0
            for batch in rows.scan():
                last = first + batch.num_rows
                start, end = np.searchsorted(chosen, (first, last))
                if start < end:
                    yield batch.take(pa.array(chosen[start:end] - first))
                first = last
                advance(batch.num_rows)

        parts = [batch.vectors for batch in usable_vectors(picked(), kind, options.metric)]
    if not parts:
        return np.empty((0, kind.dimension), kind.dtype)
    return random.permutation(np.concatenate(parts))


def _training_stage(
    rows: IndexedRows, options: VectorOptions
) -> AbstractContextManager[Callable[[int], None]]:
    """Report the stage that trains centroids, if they are trained. The stage `sample` lies in it."""
    if options.centroids is None:
        return stage(rows.observer, "train_ivf", options.max_iterations, "iterations")
    return nullcontext(lambda amount: None)


def _centroids(
    sample: Array,
    options: VectorOptions,
    num_partitions: int,
    kind: VectorType,
    random: np.random.Generator,
    advance: Callable[[int], None],
) -> Array:
    if options.centroids is not None:
        return options.centroids.astype(kind.dtype)
    count = min(num_partitions, len(sample))
    vectors = comparable(sample[: options.sample_rate * count], options.metric)
    return centroids_of(vectors, count, options, kind, random, advance)


def centroids_of(
    vectors: Floats,
    count: int,
    options: VectorOptions,
    kind: VectorType,
    random: np.random.Generator,
    advance: Callable[[int], None] = lambda iterations: None,
) -> Array:
    """Return the centroids of `count` clusters of at least one vector, in the element type of the column.

    Args:
        vectors: The vectors as `comparable` returns them.
        count: Number of clusters.
        options: Parameters of the index.
        kind: Type of the column.
        random: Chooses the vectors that are the first centroids.
        advance: Is told each finished round.
    """
    sample = Sample(vectors, 0, vectors.shape[1], centroid_metric(options.metric))
    found = train_clusters(sample, count, options.max_iterations, random, advance)
    if options.metric == "hamming":
        return np.packbits(found > 0, axis=1, bitorder="little")
    return found.astype(kind.dtype)


def _given_codebook(codebook: Floats, options: VectorOptions, kind: VectorType) -> Floats:
    """Return a codebook in the shape of `TrainedModel.codebook`, rounded to the element type."""
    shape = (options.num_sub_vectors, 1 << options.num_bits, -1)
    return codebook.astype(kind.dtype).astype(np.float32).reshape(shape)


def _codebook(
    rows: IndexedRows,
    sample: Array,
    centroids: Array,
    options: VectorOptions,
    kind: VectorType,
    random: np.random.Generator,
) -> Floats:
    count, size = 1 << options.num_bits, kind.dimension // options.num_sub_vectors
    if options.codebook is not None:
        return _given_codebook(options.codebook, options, kind)
    vectors = np.ascontiguousarray(sample[: options.sample_rate * count], np.float32)
    if options.metric != "dot":
        wide = centroids.astype(np.float32)
        clusters, _ = assign_in_parallel(vectors, wide, centroid_metric(options.metric))
        vectors = vectors - wide[clusters]
    seeds = random.spawn(options.num_sub_vectors)
    with stage(rows.observer, "train_quantizer", options.num_sub_vectors, "sub-vectors") as advance:

        def codewords(number: int) -> Floats:
            part = Sample(vectors, number * size, size)
            found = train_clusters(part, count, options.max_iterations, seeds[number], is_parallel=False)
            advance(1)
            return found

        found = run_all([partial(codewords, number) for number in range(options.num_sub_vectors)])
    return np.stack(found).astype(kind.dtype).astype(np.float32)
