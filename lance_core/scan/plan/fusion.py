"""Joining of a search of vectors with a search of texts to one ranking, as plain data."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lance_core.errors import ArgumentTypeError, InvalidInputError
from lance_core.hints import did_you_mean
from lance_core.scan.plan.nearest import NearestQuery

METHODS = ("rrf", "weighted")
DEFAULT_RANK_CONSTANT = 60

_ARGUMENTS = ("method", "depth", "weights", "rank_constant")


@dataclass(frozen=True)
class Fusion:
    """Rule by which the ranking by distances and the ranking by scores become one.

    Attributes:
        k: Most rows of the result.
        depth: Most rows that each ranking has; at least `k`.
        method: `rrf` adds `weight / (rank_constant + rank)` of both rankings, ranks counted from 1.
            `weighted` is the weighted mean of the distances and the scores, each scaled to 0 for the last and
            1 for the first row of its ranking. A row that a ranking lacks gets 0 from it.
        weights: Weight of the ranking by distances, and of the ranking by scores.
        rank_constant: Of `rrf`; with a greater one the first ranks count less.
        ranking: One of `SEARCHES`: the result has the rows of this ranking only. None joins both.
    """

    k: int
    depth: int
    method: str = METHODS[0]
    weights: tuple[float, float] = (1.0, 1.0)
    rank_constant: float = DEFAULT_RANK_CONSTANT
    ranking: str | None = None


def bind_fusion(
    nearest: NearestQuery, arguments: Mapping[str, Any], *, ranking: str | None = None
) -> tuple[NearestQuery, Fusion]:
    """Return the search of vectors with the depth of a hybrid search, and how its rows are joined.

    Args:
        nearest: The search of vectors. Its `k` is the number of rows of the result.
        arguments: `method`, `depth`, `weights` and `rank_constant` as `Fusion` has them; all may be left out.
        ranking: See `Fusion`.

    Raises:
        InvalidInputError: A value is out of range, or the search has several queries.
        ArgumentTypeError: An argument is unknown, or a value has another type.
    """
    if not isinstance(arguments, Mapping):
        raise ArgumentTypeError(f"hybrid must be a mapping, got {type(arguments).__name__}")
    for name in arguments:
        if name not in _ARGUMENTS:
            raise ArgumentTypeError(
                f"hybrid: unexpected argument {name!r}{did_you_mean(str(name), _ARGUMENTS)}"
            )
    given = {name: value for name, value in arguments.items() if value is not None}
    if nearest.is_batch:
        raise InvalidInputError("hybrid: expected one query vector", found=nearest.num_queries)
    method = given.get("method", METHODS[0])
    if method not in METHODS:
        raise InvalidInputError("hybrid: unknown method", expected=" or ".join(METHODS), found=method)
    depth = _depth(given.get("depth", nearest.k), nearest)
    constant = _number("rank_constant", given.get("rank_constant", DEFAULT_RANK_CONSTANT))
    fusion = Fusion(nearest.k, depth, method, _weights(given.get("weights", (1, 1))), constant, ranking)
    return replace(nearest, k=depth), fusion


def _depth(value: Any, nearest: NearestQuery) -> int:
    try:
        depth = operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"hybrid: depth must be an integer, got {type(value).__name__}") from None
    if depth < nearest.k:
        raise InvalidInputError("hybrid: depth must be at least k", expected=nearest.k, found=depth)
    least = depth * (nearest.refine_factor or 1)
    if nearest.candidates is not None and nearest.candidates < least:
        raise InvalidInputError(
            "nearest: ef must be at least depth, times refine_factor if it is given",
            expected=f"{least} or more",
            found=nearest.candidates,
        )
    return depth


def _weights(value: Any) -> tuple[float, float]:
    if isinstance(value, str | Mapping) or not hasattr(value, "__len__") or len(value) != 2:
        raise InvalidInputError(
            "hybrid: weights must be two numbers, that of the vectors and that of the texts", found=value
        )
    vector, text = (_number("weights", each) for each in value)
    if not vector + text:
        raise InvalidInputError("hybrid: one of the weights must be greater than 0")
    return vector, text


def _number(name: str, value: Any) -> float:
    try:
        number = float(value) if not isinstance(value, bool | str) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise InvalidInputError(f"hybrid: {name} must be 0 or greater, and finite", found=value)
    return number
