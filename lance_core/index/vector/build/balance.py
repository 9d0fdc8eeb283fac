"""Partitions that became too small or too large: their rows go to others, or they are divided.

Source: docs/format.md, "Index files"; limits as in the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_core.index.build import IndexedRows, Parameters
from lance_core.index.index_file import IndexFile
from lance_core.index.segment_files import SegmentFiles
from lance_core.index.vector.build.kmeans import assign_in_parallel
from lance_core.index.vector.build.options import MOST_FILL, VectorOptions, parse_options
from lance_core.index.vector.build.parameters import vector_parameters
from lance_core.index.vector.build.training import centroid_metric, centroids_of, comparable, random_vectors
from lance_core.index.vector.build.vectors import VectorType, usable_vectors
from lance_core.index.vector.model import AUXILIARY_FILE, INDEX_FILE, SegmentModel

Array = npt.NDArray[Any]
Sizes = npt.NDArray[np.int64]

_LEAST_FILL = 0.25
"""Partitions with a smaller share of the wanted rows are given up, as in the reference."""


def balanced_parameters(
    segments: Sequence[SegmentFiles], rows: IndexedRows, new_rows: IndexedRows
) -> Parameters | None:
    """Return the parameters of one segment with other partitions that replaces all segments of an index.

    Args:
        segments: The segments, oldest first.
        rows: All rows of the new segment.
        new_rows: Those of the rows that no segment has.

    Returns:
        None if no partition is too small or too large, if the segments were trained apart, so that they have
        different partitions, or if the new segment is to be trained anew.

    Raises:
        CorruptFileError: A segment is damaged.
        UnsupportedFeatureError: Its layout is not supported.
        LanceError: Rows cannot be read.
    """
    opened = [_opened(files) for files in segments if files.has(AUXILIARY_FILE)]
    if not opened or any(not np.array_equal(each.centroids, opened[0].centroids) for each in opened):
        return None
    vectors = VectorType.of(rows.field.type)
    parameters = dict(vector_parameters(segments[-1]))
    options = parse_options(opened[0].kind, parameters, vectors)
    if options.centroids is None or options.for_rows(rows.num_rows).centroids is None:
        return None
    points = comparable(options.centroids, options.metric)
    sizes = sum((each.lengths for each in opened), _sizes(new_rows, points, options, vectors))
    divided = np.flatnonzero(sizes > MOST_FILL * options.target_partition_size)
    joined = _joined(options.centroids, sizes, options)
    if not len(divided) and len(joined) == len(points):
        return None
    stay = [centroid for number, centroid in joined.items() if number not in divided]
    parts = [*stay, *_parts(rows, points, sizes, divided, options, vectors)]
    return {**parameters, "ivf_centroids": np.concatenate(parts), "may_retrain": False}


@dataclass(frozen=True)
class _Opened:
    kind: str
    centroids: Array
    lengths: Sizes


def _opened(files: SegmentFiles) -> _Opened:
    with files.open(INDEX_FILE) as index, files.open(AUXILIARY_FILE) as auxiliary:
        model = SegmentModel(IndexFile(index), IndexFile(auxiliary))
    return _Opened(model.kind, model.centroids, model.partitions.lengths.astype(np.int64))


def _sizes(rows: IndexedRows, points: Array, options: VectorOptions, kind: VectorType) -> Sizes:
    """Return how many of the rows belong to each partition."""
    sizes = np.zeros(len(points), np.int64)
    for batch in usable_vectors(rows.scan(), kind, options.metric):
        compared = comparable(batch.vectors, options.metric)
        partitions, _ = assign_in_parallel(compared, points, centroid_metric(options.metric))
        sizes += np.bincount(partitions, minlength=len(points))
    return sizes


def _joined(centroids: Array, sizes: Sizes, options: VectorOptions) -> dict[int, Array]:
    """Return the centroid of each partition that stays, as a matrix of one row; the smallest are given up first.

    Which partitions get the rows is not known yet. All are counted for the one with the nearest centroid, which
    moves to the mean of both, so that codes of differences to it stay small.
    """
    metric = centroid_metric(options.metric)
    stay, counts = {number: row[None] for number, row in enumerate(centroids)}, dict(enumerate(sizes.tolist()))
    while len(stay) > 1:
        smallest = min(stay, key=lambda number: counts[number])
        if counts[smallest] >= _LEAST_FILL * options.target_partition_size:
            break
        given_up = stay.pop(smallest)
        points = comparable(np.concatenate(list(stay.values())), options.metric)
        place, _ = assign_in_parallel(comparable(given_up, options.metric), points, metric)
        nearest = list(stay)[place[0]]
        weights = (counts[nearest], counts[smallest])
        counts[nearest] = sum(weights)
        if options.metric != "hamming" and counts[nearest]:
            mean = np.average(np.concatenate((stay[nearest], given_up)).astype(np.float64), 0, weights)
            length = np.linalg.norm(mean) if metric == "dot" else 1.0
            stay[nearest] = (mean / (length or 1.0)).astype(centroids.dtype)[None]
    return stay


def _parts(
    rows: IndexedRows, points: Array, sizes: Sizes, divided: Sizes, options: VectorOptions, kind: VectorType
) -> list[Array]:
    """Return the centroids of the parts of each partition in `divided`, found in random rows."""
    if not len(divided):
        return []
    counts = -(-sizes[divided] // options.target_partition_size)
    share = (options.sample_rate * counts / sizes[divided]).max()
    vectors = random_vectors(rows, min(rows.num_rows, int(share * rows.num_rows) + 1), options, kind)
    compared = comparable(vectors, options.metric)
    partitions, _ = assign_in_parallel(compared, points, centroid_metric(options.metric))
    random = np.random.default_rng(len(vectors))
    parts = []
    for partition, count in zip(divided.tolist(), counts.tolist(), strict=True):
        members = compared[partitions == partition]
        if len(members):
            parts.append(centroids_of(members, min(count, len(members)), options, kind, random))
        else:
            assert options.centroids is not None
            parts.append(options.centroids[partition][None])
    return parts
