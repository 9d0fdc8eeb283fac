"""Full text queries, as `lance.query` of the reference has them.

A query is the argument `full_text_query` of a scan. `&` and `|` combine two queries.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum, StrEnum

from lance_core.api.names.late import absent_from
from lance_core.arguments import named_arguments
from lance_core.errors import UnsupportedFeatureError
from lance_core.index.text.query import TextQuery, parse_query, query_json

__all__ = [
    "BooleanQuery",
    "BoostQuery",
    "DocumentGranularity",
    "FullTextOperator",
    "FullTextQuery",
    "FullTextQueryType",
    "MatchQuery",
    "MultiMatchQuery",
    "Occur",
    "PhraseQuery",
]


def __getattr__(name: str) -> object:
    raise absent_from(__name__, name)


class FullTextQueryType(Enum):
    """Kinds of queries."""

    MATCH = "match"
    MATCH_PHRASE = "match_phrase"
    BOOST = "boost"
    MULTI_MATCH = "multi_match"
    COMBINED_FIELDS = "combined_fields"
    BOOLEAN = "boolean"


class FullTextOperator(Enum):
    """Whether documents need all words of a query, or one."""

    AND = "AND"
    OR = "OR"


class DocumentGranularity(StrEnum):
    """Units that are documents. Only rows are supported."""

    ROW = "row"
    LIST_ELEMENT = "list_element"


class Occur(Enum):
    """Ways in which a part of a `BooleanQuery` decides about documents."""

    SHOULD = "SHOULD"
    MUST = "MUST"
    MUST_NOT = "MUST_NOT"


class FullTextQuery(ABC):
    """A full text query.

    Attributes:
        inner: The query as plain data.
    """

    inner: TextQuery

    def __init_subclass__(cls) -> None:
        named_arguments(cls)

    @abstractmethod
    def query_type(self) -> FullTextQueryType:
        """Return the kind of the query."""

    def to_json(self) -> str:
        """Return the query as JSON text, which servers accept."""
        return json.dumps(query_json(self.inner))

    def __and__(self, other: FullTextQuery) -> BooleanQuery:
        return BooleanQuery([(Occur.MUST, self), (Occur.MUST, other)])

    def __or__(self, other: FullTextQuery) -> BooleanQuery:
        return BooleanQuery([(Occur.SHOULD, self), (Occur.SHOULD, other)])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_json()})"


class MatchQuery(FullTextQuery):
    """Rows with any or all of some words."""

    def __init__(
        self,
        query: str,
        column: str | None,
        *,
        boost: float = 1.0,
        fuzziness: int | None = 0,
        max_expansions: int = 50,
        operator: FullTextOperator = FullTextOperator.OR,
        prefix_length: int = 0,
        document_granularity: DocumentGranularity | None = None,
    ) -> None:
        """Describe the query.

        Args:
            query: The words.
            column: The column to search; None means all columns with a full text index.
            boost: Factor of the scores.
            fuzziness: Most characters to insert, delete or replace so that a word of a row becomes a word of
                the query. None finds exact words, as in the reference. Rows that no index covers are found
                by exact words only.
            max_expansions: Most words of rows that stand for the words of the query, if `fuzziness` is not 0.
            operator: Whether rows need all words.
            prefix_length: Characters at the beginning of a word that have to be the same.
            document_granularity: None or `DocumentGranularity.ROW`.

        Raises:
            InvalidInputError: A value is out of range.
            UnsupportedFeatureError: Another granularity.
        """
        _require_rows(document_granularity)
        self.inner = parse_query(
            {
                "match": {
                    "terms": query,
                    "column": column,
                    "boost": boost,
                    "fuzziness": fuzziness,
                    "max_expansions": max_expansions,
                    "operator": FullTextOperator(operator).value,
                    "prefix_length": prefix_length,
                }
            }
        )

    def query_type(self) -> FullTextQueryType:
        return FullTextQueryType.MATCH


class PhraseQuery(FullTextQuery):
    """Rows with some words one after the other. The index needs positions (`with_position=True`)."""

    def __init__(
        self,
        query: str,
        column: str | None,
        *,
        slop: int = 0,
        document_granularity: DocumentGranularity | None = None,
    ) -> None:
        """Describe the query.

        Args:
            query: The words.
            column: The column to search.
            slop: Most further words between two words of the phrase.
            document_granularity: None or `DocumentGranularity.ROW`.

        Raises:
            InvalidInputError: A value is out of range.
            UnsupportedFeatureError: Another granularity.
        """
        _require_rows(document_granularity)
        self.inner = parse_query({"phrase": {"terms": query, "column": column, "slop": slop}})

    def query_type(self) -> FullTextQueryType:
        return FullTextQueryType.MATCH_PHRASE


class BoostQuery(FullTextQuery):
    """Rows of a query, with lower scores if they meet another query."""

    def __init__(
        self, positive: FullTextQuery, negative: FullTextQuery, *, negative_boost: float = 0.5
    ) -> None:
        """Describe the query. A score is lowered by `negative_boost` times the score of `negative`."""
        self.inner = parse_query(
            {
                "boost": {
                    "positive": query_json(positive.inner),
                    "negative": query_json(negative.inner),
                    "negative_boost": negative_boost,
                }
            }
        )

    def query_type(self) -> FullTextQueryType:
        return FullTextQueryType.BOOST


class MultiMatchQuery(FullTextQuery):
    """Rows that match in any of some columns, with the greatest score of these columns."""

    def __init__(
        self,
        query: str,
        columns: list[str],
        *,
        boosts: list[float] | None = None,
        operator: FullTextOperator = FullTextOperator.OR,
    ) -> None:
        """Describe the query.

        Args:
            query: The words.
            columns: The columns to search.
            boosts: Factor of the scores of each column.
            operator: Whether rows need all words in one column.

        Raises:
            InvalidInputError: There are no columns, or not one boost for each.
        """
        body = {
            "query": query,
            "columns": columns,
            "boost": boosts,
            "operator": FullTextOperator(operator).value,
        }
        self.inner = parse_query({"multi_match": body})

    def query_type(self) -> FullTextQueryType:
        return FullTextQueryType.MULTI_MATCH


class BooleanQuery(FullTextQuery):
    """Rows that meet all queries that must be met, or if there are none one of those that should be met."""

    def __init__(self, queries: Sequence[tuple[Occur, FullTextQuery]]) -> None:
        """Describe the query. Scores of all parts are added, but for parts that must not be met.

        Raises:
            InvalidInputError: No part must or should be met.
        """
        parts: dict[str, list[object]] = {"must": [], "should": [], "must_not": []}
        for occur, query in queries:
            parts[Occur(occur).value.lower()].append(query_json(query.inner))
        self.inner = parse_query({"boolean": parts})

    def query_type(self) -> FullTextQueryType:
        return FullTextQueryType.BOOLEAN


def _require_rows(granularity: DocumentGranularity | None) -> None:
    if granularity not in (None, DocumentGranularity.ROW):
        raise UnsupportedFeatureError("document_granularity", expected="row", found=granularity)
