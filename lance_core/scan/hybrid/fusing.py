"""Two rankings of rows as one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.index.text.search import Found
from lance_core.scan.nearest.candidates import Candidates
from lance_core.scan.nearest.results import FoundRows
from lance_core.scan.plan.fusion import Fusion
from lance_core.scan.plan.nearest import DISTANCE, RELEVANCE, SCORE

Floats = npt.NDArray[np.float64]


def fused_rows(nearest: Candidates, texts: Found, fusion: Fusion) -> FoundRows:
    """Return the best rows of two rankings, the most relevant first; equal ones in the order of addresses.

    Args:
        nearest: The ranking by distances, nearest first.
        texts: The ranking by scores, best first.
        fusion: How they are joined. If it names one ranking, all rows of that ranking are returned.
    """
    addresses = np.unique(np.concatenate([nearest.addresses, texts.addresses]))
    distances = _placed(addresses, nearest.addresses, nearest.distances)
    scores = _placed(addresses, texts.addresses, texts.scores)
    relevance = np.zeros(len(addresses))
    parts = ((nearest.addresses, -nearest.distances), (texts.addresses, texts.scores))
    for weight, (rows, values) in zip(fusion.weights, parts, strict=True):
        relevance += np.nan_to_num(_placed(addresses, rows, weight * _worth(values, fusion)))
    if fusion.method == "weighted":
        relevance /= sum(fusion.weights)
    order = np.lexsort((addresses, -relevance))
    if fusion.ranking is None:
        order = order[: fusion.k]
    return FoundRows(
        addresses[order],
        {
            DISTANCE: pa.array(distances[order].astype(np.float32), from_pandas=True),
            SCORE: pa.array(scores[order].astype(np.float32), from_pandas=True),
            RELEVANCE: pa.array(relevance[order].astype(np.float32)),
        },
    )


def _placed(
    addresses: npt.NDArray[np.uint64], rows: npt.NDArray[np.uint64], values: npt.NDArray[np.floating]
) -> Floats:
    """Return the value of each address; NaN for those that are none of `rows`."""
    placed = np.full(len(addresses), np.nan)
    placed[np.searchsorted(addresses, rows)] = values
    return placed


def _worth(values: npt.NDArray[np.float32], fusion: Fusion) -> Floats:
    """Return what the rows of one ranking, in its order, add to their relevance; better values are greater.

    Infinite values are worth nothing, and do not count in the scale.
    """
    if fusion.method == "rrf":
        return 1 / (fusion.rank_constant + np.arange(1, len(values) + 1))
    wide = values.astype(np.float64)
    is_finite = np.isfinite(wide)
    if not is_finite.any():
        return np.zeros(len(wide))
    worst, best = wide[is_finite].min(), wide[is_finite].max()
    scaled = np.ones(len(wide)) if worst == best else (wide - worst) / (best - worst)
    return np.where(is_finite, scaled, 0.0)
