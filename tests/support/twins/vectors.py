"""Distances of vectors in float64, straight from their definitions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

METRICS = ("l2", "cosine", "dot")


def distances(
    vectors: npt.NDArray[np.generic], query: npt.NDArray[np.generic], metric: str
) -> npt.NDArray[np.float64]:
    """Return the distance of each row of `vectors` to the query."""
    if metric == "hamming":
        bits = np.unpackbits(np.bitwise_xor(vectors, query).astype(np.uint8), axis=1)
        return bits.sum(axis=1).astype(np.float64)
    rows, wanted = vectors.astype(np.float64), query.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if metric == "l2":
            return ((rows - wanted) ** 2).sum(axis=1)
        products = (rows * wanted).sum(axis=1)
        if metric == "dot":
            return 1 - products
        lengths = np.sqrt((rows**2).sum(axis=1)) * np.sqrt((wanted**2).sum())
        return 1 - products / lengths


def nearest(
    found: npt.NDArray[np.floating],
    k: int,
    keys: npt.NDArray[np.integer] | None = None,
    lower: float | None = None,
    upper: float | None = None,
) -> npt.NDArray[np.intp]:
    """Return the rows with the `k` least distances, of equal ones those with the least keys."""
    kept = ~np.isnan(found)
    if lower is not None:
        kept &= found >= lower
    if upper is not None:
        kept &= found < upper
    rows = np.flatnonzero(kept)
    order = np.lexsort((rows if keys is None else keys[rows], found[rows]))
    return rows[order[:k]]


def product_estimates(
    numbers: npt.NDArray[np.integer],
    codebook: npt.NDArray[np.floating],
    query: npt.NDArray[np.floating],
    centroid: npt.NDArray[np.floating] | None,
) -> npt.NDArray[np.float64]:
    """Return the sums that product codes estimate the distances with.

    Args:
        numbers: Codewords of each row: [row][sub-vector].
        codebook: [sub-vector][codeword][dimension of the sub-vector].
        query: The query vector.
        centroid: Centroid of the partition, for sums of squared differences. None: for negative products.
    """
    wanted = query.astype(np.float64)
    rows = [np.concatenate([codebook[m, number] for m, number in enumerate(row)]) for row in numbers.tolist()]
    words = np.array(rows, np.float64).reshape(len(rows), len(wanted))
    if centroid is None:
        return -(words * wanted).sum(axis=1)
    return ((words - (wanted - centroid)) ** 2).sum(axis=1)
