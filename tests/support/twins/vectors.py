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
