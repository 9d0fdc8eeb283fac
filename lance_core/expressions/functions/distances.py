"""Distances between lists of numbers, as double."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_core.encodings.values import flatten_lists
from lance_core.expressions.builders import cast
from lance_core.expressions.coercion import is_list, is_number
from lance_core.expressions.comparisons import Datum
from lance_core.expressions.functions.registry import Bound, Function, expect, pair_of, unfit
from lance_core.expressions.tree import Expression

_LIST = pa.list_(pa.float64())


def _bind(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2)
    for argument in arguments:
        kind = argument.type
        if not types.is_null(kind) and not (is_list(kind) and is_number(kind.value_type)):
            raise unfit(name, argument, "lists of numbers")
    return [cast(argument, _LIST) for argument in arguments], pa.float64()


def _distance(compute_pair: Callable[..., tuple[np.ndarray, np.ndarray]]) -> Function:
    """Return a function of two lists of numbers, which is null where a list or a number in it is null.

    `compute_pair` gets the numbers of all first and of all second lists, and a function that sums values by
    list. It returns a distance for each pair of lists, and whether there is none.
    """

    def compute(left: Datum, right: Datum) -> Datum:
        rows = np.arange(len(left))
        left, right, known = pair_of(left, right)
        left, right = left.filter(known), right.filter(known)
        lengths = pc.list_value_length(left).to_numpy(zero_copy_only=False).astype(np.int64)
        others = pc.list_value_length(right).to_numpy(zero_copy_only=False)
        if not np.array_equal(lengths, others):
            at = np.flatnonzero(lengths != others)[0]
            raise pa.ArrowInvalid(f"lists of {lengths[at]} and {others[at]} numbers have no distance")
        owners = np.repeat(np.arange(len(left)), lengths)
        # Nulls become NaN here, and the result null below; other NaN stay.
        x, y = (flatten_lists(lists) for lists in (left, right))
        has_null = np.zeros(len(left), bool)
        for numbers in (x, y):
            has_null[owners[pc.is_null(numbers).to_numpy(zero_copy_only=False)]] = True
        a, b = (numbers.to_numpy(zero_copy_only=False) for numbers in (x, y))
        with np.errstate(all="ignore"):
            found, none = compute_pair(a, b, lambda each: np.bincount(owners, each, len(left)))
        values = np.full(len(rows), np.nan)
        empty = np.ones(len(rows), bool)
        chosen = rows[known.to_numpy(zero_copy_only=False)]
        values[chosen], empty[chosen] = found, has_null | none
        return pa.array(values, mask=empty)

    return Function(_bind, compute)


def _euclidean(
    a: np.ndarray, b: np.ndarray, sums: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    distances = np.sqrt(sums(np.square(a - b)))
    return distances, np.zeros(len(distances), bool)


def _cosine(
    a: np.ndarray, b: np.ndarray, sums: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosine distances. A list of length 0 has no direction, and no distance."""
    lengths = np.sqrt(sums(a * a)) * np.sqrt(sums(b * b))
    return 1 - sums(a * b) / lengths, lengths == 0


_EUCLIDEAN = _distance(_euclidean)

FUNCTIONS = {
    "array_distance": _EUCLIDEAN,
    "list_distance": _EUCLIDEAN,
    "cosine_distance": _distance(_cosine),
}
