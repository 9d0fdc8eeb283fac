"""Joining of the two rankings of a hybrid search whose parts several servers answered.

The rule is that of the server: see "Hybrid search" in docs/vector-search.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from flight_client.reading.search import DEFAULT_NEAREST, DISTANCE, RELEVANCE, ROW_ADDRESS, ROW_ID, SCORE


def joined_rows(rows: pa.Table, nearest: Mapping[str, Any], hybrid: Mapping[str, Any]) -> pa.Table:
    """Return the most relevant rows of the answers of several servers.

    Args:
        rows: the answers, each either rows with `_distance` or rows with `_score`; with `_rowid` and
            `_rowaddr`.
        nearest: arguments of the search of vectors.
        hybrid: arguments of the hybrid search.
    """
    k = nearest.get("k") or DEFAULT_NEAREST
    depth = hybrid.get("depth") or k
    values = {name: rows[name].to_pylist() for name in (DISTANCE, SCORE, ROW_ID, ROW_ADDRESS)}
    distances, scores, row_ids, addresses = values.values()
    near = [place for place, distance in enumerate(distances) if distance is not None]
    near.sort(key=lambda place: (distances[place], row_ids[place]))
    good = [place for place, score in enumerate(scores) if score is not None]
    good.sort(key=lambda place: (-scores[place], addresses[place]))
    near, good = near[:depth], good[:depth]
    relevance: dict[int, float] = {}
    weights = hybrid.get("weights") or (1.0, 1.0)
    parts = ((near, [-distances[place] for place in near]), (good, [scores[place] for place in good]))
    for weight, (places, better) in zip(weights, parts, strict=True):
        for place, worth in zip(places, _worth(better, hybrid), strict=True):
            address = addresses[place]
            relevance[address] = relevance.get(address, 0.0) + weight * worth
    if hybrid.get("method") == "weighted":
        relevance = {address: value / sum(weights) for address, value in relevance.items()}
    order = sorted(relevance, key=lambda address: (-relevance[address], address))[:k]
    distance_of = {addresses[place]: distances[place] for place in near}
    score_of = {addresses[place]: scores[place] for place in good}
    place_of = {addresses[place]: place for place in (*near, *good)}
    joined = rows.take(pa.array([place_of[address] for address in order], pa.int64()))
    for name, known in ((DISTANCE, distance_of), (SCORE, score_of), (RELEVANCE, relevance)):
        column = pa.array([known.get(address) for address in order], pa.float32())
        joined = joined.set_column(joined.schema.get_field_index(name), joined.schema.field(name), column)
    return joined


def _worth(values: Sequence[float], hybrid: Mapping[str, Any]) -> list[float]:
    """Return what the rows of a ranking, in its order, add to their relevance; better values are greater."""
    if hybrid.get("method", "rrf") == "rrf":
        constant = float(hybrid.get("rank_constant", 60))
        return [1 / (constant + rank) for rank in range(1, len(values) + 1)]
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return [0.0] * len(values)
    worst, best = min(finite), max(finite)

    def scaled(value: float) -> float:
        if not math.isfinite(value):
            return 0.0
        return 1.0 if worst == best else (value - worst) / (best - worst)

    return [scaled(value) for value in values]
