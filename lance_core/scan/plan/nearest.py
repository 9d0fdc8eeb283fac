"""Search of the rows whose vectors are nearest to a query, as plain data.

Distances are smaller for nearer vectors: `l2` is squared, `cosine` is 1 - cosine, `dot` is 1 - product, and
`hamming` is the number of different bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    from lance_core.index.text.query import TextQuery

DISTANCE = "_distance"
"""Column with the distance of a row to the query."""
QUERY_INDEX = "query_index"
"""Column with the number of the query that a row was found for, if a search has several queries."""
SCORE = "_score"
"""Column with the score of a row in a full text search, greater for rows that fit the query better."""
RELEVANCE = "_relevance_score"
"""Column with the relevance of a row in a hybrid search, greater for better rows."""
RELEVANCE_FIELD = pa.field(RELEVANCE, pa.float32())
SCORE_FIELD = pa.field(SCORE, pa.float32())
DISTANCE_FIELD = pa.field(DISTANCE, pa.float32())
QUERY_INDEX_FIELD = pa.field(QUERY_INDEX, pa.int32(), nullable=False)

SEARCHES = ("vector", "text")
"""Kinds of searches: of the rows with the nearest vectors, and of those that meet a full text query."""
METRICS = ("l2", "cosine", "dot", "hamming")
APPROXIMATIONS = ("fast", "normal", "accurate")
DEFAULT_NEAREST = 10
"""Rows that a search returns for each query, if the caller gives no number."""


@dataclass(frozen=True)
class VectorType:
    """Type of a column of vectors.

    Attributes:
        dimension: Number of elements of a vector.
        element: Type of the elements: float16, bfloat16, float32, float64, uint8 or int8.
        is_multiple: Whether a row has a list of vectors instead of one.
    """

    dimension: int
    element: str
    is_multiple: bool = False

    @property
    def default_metric(self) -> str:
        """Metric of a search that names none and uses no index."""
        return "hamming" if self.element == "uint8" else "l2"

    def query_type(self, metric: str) -> str:
        """Return the NumPy type in which queries are compared with these vectors."""
        if metric == "hamming":
            return "uint8"
        return "float64" if self.element == "float64" else "float32"


@dataclass(frozen=True)
class NearestQuery:
    """A search of the nearest rows.

    Attributes:
        column: Name or dotted path of a column of vectors.
        vectors: Type of this column.
        queries: The numbers of all query vectors, as float64 in native byte order.
        is_batch: Whether the query vectors are searched one by one, and the result has `QUERY_INDEX`. Without
            it, several query vectors are one query for a column with lists of vectors.
        k: Most rows for each query.
        metric: One of `METRICS`; None means the metric of the index, or the default of the type.
        lower: Smallest distance, inclusive; None without a bound.
        upper: Bound of distances, exclusive; None without a bound.
        use_index: Whether an index may find the rows.
        segments: Uuids of the segments of an index that find the rows, as text; None means all segments.
        minimum_probes, maximum_probes, search_effort, candidates, approximation: See
            `lance_core.index.vector.segment_search.SegmentQuery`.
        refine_factor: So many times `k` rows are taken from an index, and their exact distances decide.
            None leaves the distances of the index.
    """

    column: str
    vectors: VectorType
    queries: bytes = field(repr=False)
    is_batch: bool = False
    k: int = DEFAULT_NEAREST
    metric: str | None = None
    lower: float | None = None
    upper: float | None = None
    use_index: bool = True
    segments: frozenset[str] | None = None
    minimum_probes: int | None = None
    maximum_probes: int | None = None
    search_effort: float | None = None
    candidates: int | None = None
    approximation: str = "normal"
    refine_factor: int | None = None

    @property
    def num_queries(self) -> int:
        """Number of queries that get `k` rows each."""
        return len(self.numbers) if self.is_batch else 1

    @property
    def most_gathered(self) -> int:
        """Most rows that a search gathers in memory for all query vectors."""
        wanted = max(self.k * (self.refine_factor or 1), self.candidates or 0)
        return len(self.numbers) * wanted

    @property
    def numbers(self) -> npt.NDArray[np.float64]:
        """All query vectors, one per row."""
        return np.frombuffer(self.queries, np.float64).reshape(-1, self.vectors.dimension)


def score_fields(
    nearest: NearestQuery | None, text_query: TextQuery | None, search_filter: str | None = None
) -> tuple[pa.Field, ...]:
    """Return the columns that searches add; none without a search.

    `search_filter` is the search that only filters the rows of the other one; see `ScanOptions`.
    """
    if search_filter is not None:
        return (SCORE_FIELD,) if search_filter == "vector" else score_fields(nearest, None)
    if nearest is None:
        return () if text_query is None else (SCORE_FIELD,)
    if text_query is not None:
        return (DISTANCE_FIELD, SCORE_FIELD, RELEVANCE_FIELD)
    return (QUERY_INDEX_FIELD, DISTANCE_FIELD) if nearest.is_batch else (DISTANCE_FIELD,)
