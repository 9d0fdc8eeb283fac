"""Queries of a vector search to one segment of a vector index, and the answer of the segment.

`lance_core.scan.nearest` asks every segment of an index, searches the fragments that no segment covers, and
joins the answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

RowKeys = npt.NDArray[np.uint64]
"""Row addresses, or row ids if the dataset has stable row ids."""


@dataclass(frozen=True)
class SegmentQuery:
    """Query vectors for one segment, which are searched with the same options.

    Attributes:
        vectors: The queries, one per row, not normalised. Their type is float32 for vectors of float16,
            float32 or int8, float64 for float64, and uint8 for vectors that are compared by `hamming`.
        num_nearest: Most rows for each query, 1 or more; the factor of a refinement is included.
        minimum_probes: Fewest partitions to search for a query; None leaves the number to the segment.
        maximum_probes: Most partitions to search for a query; None means all, if too few rows are found in
            fewer.
        search_effort: Share of the work of a whole search, 0 to 1; None means 0.5. See docs/vector-search.md.
        candidates: Nodes that a graph keeps while it is searched (`ef`); None leaves the number to the
            segment.
        approximation: `fast`, `normal` or `accurate`, for codes that can be read in more than one precision.
        lower: Smallest distance of the answer, inclusive; None without a bound.
        upper: Distance at which the answer ends, exclusive; None without a bound.
        allowed: Function that tells for row keys whether they may be in the answer: rows that are live, that
            the segment covers, and that meet a filter that applies before the search. None allows all rows.
    """

    vectors: npt.NDArray[np.generic]
    num_nearest: int
    minimum_probes: int | None = None
    maximum_probes: int | None = None
    search_effort: float | None = None
    candidates: int | None = None
    approximation: str = "normal"
    lower: float | None = None
    upper: float | None = None
    allowed: Callable[[RowKeys], npt.NDArray[np.bool_]] | None = None


class Neighbours(NamedTuple):
    """Rows near to queries, query by query, nearest first; rows of equal distance in the order of their keys.

    All arrays have one entry per row.
    """

    queries: npt.NDArray[np.intp]
    """Numbers of the queries."""
    keys: RowKeys
    distances: npt.NDArray[np.float32]
    """On the scale of exact distances: squared for `l2`, 1 - cosine for `cosine`, 1 - product for `dot`.
    Never NaN.
    """


class VectorSegment(Protocol):
    """An opened segment of a vector index. Thread-safe."""

    @property
    def metric(self) -> str:
        """`l2`, `cosine`, `dot` or `hamming`."""

    @property
    def dimension(self) -> int:
        """Number of elements of a vector."""

    @property
    def is_exact(self) -> bool:
        """Whether the distances of answers are exact. Otherwise they are estimates from codes."""

    def nearest(self, query: SegmentQuery) -> Neighbours:
        """Return the nearest rows of each query among those in the partitions that are searched for it.

        The rows of a query are those that it finds alone. A row key appears once for a query, also if the row
        has several vectors.

        Raises:
            CorruptFileError: A file of the segment contradicts the format.
            StorageError: The storage failed.
        """
