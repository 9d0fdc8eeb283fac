"""Rows that a search found so far, and the choice of the best of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lance_core.scan.take.keys import Keys

# Number of gathered candidates at which they are sorted and only the best are kept, so that memory grows with
# the result and not with the table.
_MOST_WAITING = 1 << 18


class Candidates(NamedTuple):
    """Rows that may be in the result; all arrays have one entry per row.

    Attributes:
        queries: Number of the query that the row was found for.
        distances: Never NaN.
        row_ids: Row ids; addresses, if the dataset has no stable row ids.
        addresses: Row addresses.
    """

    queries: npt.NDArray[np.int32]
    distances: npt.NDArray[np.float32]
    row_ids: Keys
    addresses: Keys

    def at(self, places: npt.NDArray[np.integer | np.bool_] | slice) -> Candidates:
        """Return the candidates at some places, or where a mask is true."""
        return Candidates(
            self.queries[places], self.distances[places], self.row_ids[places], self.addresses[places]
        )


NO_CANDIDATES = Candidates(
    np.array([], np.int32), np.array([], np.float32), np.array([], np.uint64), np.array([], np.uint64)
)


def join(parts: Sequence[Candidates]) -> Candidates:
    """Return all candidates, in order."""
    parts = [part for part in parts if len(part.queries)] or [NO_CANDIDATES]
    if len(parts) == 1:
        return parts[0]
    return Candidates(
        np.concatenate([part.queries for part in parts]),
        np.concatenate([part.distances for part in parts]),
        np.concatenate([part.row_ids for part in parts]),
        np.concatenate([part.addresses for part in parts]),
    )


def first_of_each(candidates: Candidates, k: int) -> Candidates:
    """Return the first `k` candidates of each query, for candidates in the order of their queries."""
    queries = candidates.queries
    ranks = np.arange(len(queries)) - np.searchsorted(queries, queries)
    return candidates.at(ranks < k)


def best_of(parts: Sequence[Candidates], k: int) -> Candidates:
    """Return the `k` nearest rows of each query, query by query, nearest first.

    Rows of equal distance have the order of their row ids.
    """
    joined = join(parts)
    order = np.lexsort((joined.row_ids, joined.distances, joined.queries))
    if not len(order) or joined.queries[order[0]] == joined.queries[order[-1]]:  # of one query
        return joined.at(order[:k])
    return first_of_each(joined.at(order), k)


def best_of_all(parts: Iterable[Candidates], k: int) -> Candidates:
    """Return `best_of` parts that come one after the other, without keeping all of them."""
    kept: list[Candidates] = []
    num_waiting = 0
    least = _MOST_WAITING
    for part in parts:
        kept.append(part)
        num_waiting += len(part.queries)
        if num_waiting > least:
            kept = [best_of(kept, k)]
            num_waiting = len(kept[0].queries)
            least = max(_MOST_WAITING, 2 * num_waiting)
    return best_of(kept, k)
