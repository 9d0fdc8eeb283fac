"""Full text queries as plain data, and their JSON form, which is that of the reference.

Source: the classes of `lance.query`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lance_core.errors import InvalidInputError

_MOST_NESTED = 32


@dataclass(frozen=True)
class Match:
    """Documents with any or all of some words.

    Attributes:
        terms: The words.
        column: The column to search; None means every column with a full text index.
        boost: Factor of the scores.
        fuzziness: Most insertions, deletions and replacements of characters that make a word of the query
            from a word of a document. None means 0, as in the reference.
        max_expansions: Most words of documents that stand for words of the query, if `fuzziness` is not 0.
        needs_all: Whether documents need all words.
        prefix_length: Characters at the beginning of a word that have to be the same.
    """

    terms: str
    column: str | None = None
    boost: float = 1.0
    fuzziness: int | None = 0
    max_expansions: int = 50
    needs_all: bool = False
    prefix_length: int = 0


@dataclass(frozen=True)
class Phrase:
    """Documents with some words one after the other.

    Attributes:
        terms: The words.
        column: The column to search.
        slop: Most further words between two words of the phrase.
    """

    terms: str
    column: str | None = None
    slop: int = 0


@dataclass(frozen=True)
class Boost:
    """Documents of a query, with lower scores if they meet another one."""

    positive: TextQuery
    negative: TextQuery
    negative_boost: float = 0.5


@dataclass(frozen=True)
class MultiMatch:
    """Documents of any of some queries, with their greatest score."""

    matches: tuple[Match, ...]


@dataclass(frozen=True)
class Boolean:
    """Documents that meet all queries of `must`, or if there are none any of `should`, and none of
    `must_not`. The scores of all queries but those of `must_not` are added.
    """

    must: tuple[TextQuery, ...] = ()
    should: tuple[TextQuery, ...] = ()
    must_not: tuple[TextQuery, ...] = field(default=())


TextQuery = Match | Phrase | Boost | MultiMatch | Boolean


def columns_of(query: TextQuery) -> Iterator[str | None]:
    """Yield the column of each part of a query; None where a part names no column."""
    if isinstance(query, Match | Phrase):
        yield query.column
    else:
        for part in _parts(query):
            yield from columns_of(part)


def _parts(query: Boost | MultiMatch | Boolean) -> tuple[TextQuery, ...]:
    if isinstance(query, Boost):
        return query.positive, query.negative
    if isinstance(query, MultiMatch):
        return query.matches
    return (*query.must, *query.should, *query.must_not)


def with_columns(query: TextQuery, columns: Sequence[str]) -> TextQuery:
    """Return a query whose parts have columns: a part without one searches all of `columns`.

    Raises:
        InvalidInputError: A phrase has no column, and there are several columns.
    """
    if isinstance(query, Match | Phrase):
        if query.column is not None:
            return query
        if len(columns) == 1:
            return replace(query, column=columns[0])
        if isinstance(query, Match):
            return MultiMatch(tuple(replace(query, column=column) for column in columns))
        raise InvalidInputError("a phrase needs a column, because several columns have a full text index")
    if isinstance(query, Boost):
        return replace(
            query,
            positive=with_columns(query.positive, columns),
            negative=with_columns(query.negative, columns),
        )
    if isinstance(query, MultiMatch):
        return query
    return Boolean(
        *(
            tuple(with_columns(part, columns) for part in parts)
            for parts in (query.must, query.should, query.must_not)
        )
    )


def parse_query(value: object) -> TextQuery:
    """Return the query of a JSON object as the reference writes it, such as
    `{"match": {"column": "text", "terms": "red fox"}}`.

    Raises:
        InvalidInputError: The object is no query; the message says where.
    """
    return _parse(value, 0)


def _parse(value: object, depth: int) -> TextQuery:
    if depth > _MOST_NESTED:
        raise InvalidInputError("nested full text queries", expected=f"at most {_MOST_NESTED} levels")
    if not isinstance(value, Mapping) or len(value) != 1:
        raise InvalidInputError(
            "full text query", expected=f"an object with one key of {', '.join(_KINDS)}", found=_short(value)
        )
    ((kind, body),) = value.items()
    if kind not in _KINDS:
        raise InvalidInputError("kind of a full text query", expected=", ".join(_KINDS), found=_short(kind))
    if not isinstance(body, Mapping):
        raise InvalidInputError(f"{kind} of a full text query", expected="an object", found=_short(body))
    return _KINDS[kind](body, depth)


def _match(body: Mapping[str, Any], _depth: int = 0) -> Match:
    _refuse_others(body, "match", _MATCH_KEYS)
    operator = _value(body, "operator", "OR", str)
    if operator.upper() not in ("AND", "OR"):
        raise InvalidInputError("operator of a full text query", expected="AND or OR", found=operator)
    fuzziness = body.get("fuzziness", 0)
    if fuzziness == "auto":
        fuzziness = None
    return Match(
        terms=_value(body, "terms", None, str),
        column=_column(body),
        boost=_number(body, "boost", 1.0),
        fuzziness=None if fuzziness is None else _count(body, "fuzziness", 0),
        max_expansions=_count(body, "max_expansions", 50),
        needs_all=operator.upper() == "AND",
        prefix_length=_count(body, "prefix_length", 0),
    )


def _phrase(body: Mapping[str, Any], _depth: int) -> Phrase:
    _refuse_others(body, "phrase", ("column", "terms", "slop"))
    return Phrase(_value(body, "terms", None, str), _column(body), _count(body, "slop", 0))


def _boost(body: Mapping[str, Any], depth: int) -> Boost:
    _refuse_others(body, "boost", ("positive", "negative", "negative_boost"))
    return Boost(
        _parse(body.get("positive"), depth + 1),
        _parse(body.get("negative"), depth + 1),
        _number(body, "negative_boost", 0.5),
    )


def _multi_match(body: Mapping[str, Any], _depth: int) -> MultiMatch:
    """Return the query of either form: a list of matches, or one text for several columns."""
    if "match_queries" in body:
        _refuse_others(body, "multi_match", ("match_queries",))
        matches = tuple(_match(_object(part)) for part in _list(body, "match_queries"))
    else:
        _refuse_others(body, "multi_match", ("query", "columns", "boost", "boosts", "operator"))
        columns = _list(body, "columns")
        boosts = body.get("boost", body.get("boosts")) or [1.0] * len(columns)
        if not isinstance(boosts, Sequence) or len(boosts) != len(columns):
            raise InvalidInputError("boosts of a full text query", expected="one for each column")
        matches = tuple(
            _match(
                {
                    "terms": body.get("query"),
                    "column": column,
                    "boost": boost,
                    "operator": body.get("operator", "OR"),
                }
            )
            for column, boost in zip(columns, boosts, strict=True)
        )
    if not matches or any(match.column is None for match in matches):
        raise InvalidInputError("multi_match of a full text query", expected="columns")
    return MultiMatch(matches)


def _boolean(body: Mapping[str, Any], depth: int) -> Boolean:
    _refuse_others(body, "boolean", ("must", "should", "must_not"))
    must, should, must_not = (
        tuple(_parse(part, depth + 1) for part in (_list(body, name) if name in body else ()))
        for name in ("must", "should", "must_not")
    )
    if not must and not should:
        raise InvalidInputError("boolean query must have at least one should/must query")
    return Boolean(must, should, must_not)


_MATCH_KEYS = (
    "column",
    "terms",
    "boost",
    "fuzziness",
    "max_expansions",
    "operator",
    "prefix_length",
)
_KINDS: dict[str, Callable[[Mapping[str, Any], int], TextQuery]] = {
    "match": _match,
    "phrase": _phrase,
    "boost": _boost,
    "multi_match": _multi_match,
    "boolean": _boolean,
}


def query_json(query: TextQuery) -> dict[str, Any]:
    """Return the JSON form of a query; `parse_query` reads it."""
    if isinstance(query, Match):
        return {"match": _match_json(query)}
    if isinstance(query, Phrase):
        return {"phrase": {"column": query.column, "terms": query.terms, "slop": query.slop}}
    if isinstance(query, Boost):
        return {
            "boost": {
                "positive": query_json(query.positive),
                "negative": query_json(query.negative),
                "negative_boost": query.negative_boost,
            }
        }
    if isinstance(query, MultiMatch):
        return {"multi_match": {"match_queries": [_match_json(match) for match in query.matches]}}
    return {
        "boolean": {
            "must": [query_json(part) for part in query.must],
            "should": [query_json(part) for part in query.should],
            "must_not": [query_json(part) for part in query.must_not],
        }
    }


def _match_json(query: Match) -> dict[str, Any]:
    return {
        "column": query.column,
        "terms": query.terms,
        "boost": query.boost,
        "fuzziness": query.fuzziness,
        "max_expansions": query.max_expansions,
        "operator": "AND" if query.needs_all else "OR",
        "prefix_length": query.prefix_length,
    }


def _refuse_others(body: Mapping[str, Any], kind: str, names: Sequence[str]) -> None:
    others = [name for name in body if name not in names]
    if others:
        raise InvalidInputError(
            f"key of {kind} in a full text query", expected=", ".join(names), found=_short(others[0])
        )


def _value(body: Mapping[str, Any], name: str, default: Any, kind: type) -> Any:
    value = body.get(name, default)
    if not isinstance(value, kind):
        raise InvalidInputError(f"{name} of a full text query", expected="a text", found=_short(value))
    return value


def _column(body: Mapping[str, Any]) -> str | None:
    return None if body.get("column") is None else str(_value(body, "column", None, str))


def _number(body: Mapping[str, Any], name: str, default: float) -> float:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidInputError(f"{name} of a full text query", expected="a number", found=_short(value))
    return float(value)


def _count(body: Mapping[str, Any], name: str, default: int) -> int:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise InvalidInputError(
            f"{name} of a full text query", expected="a number, 0 or more", found=_short(value)
        )
    return value


def _list(body: Mapping[str, Any], name: str) -> Sequence[Any]:
    value = body.get(name)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidInputError(f"{name} of a full text query", expected="a list", found=_short(value))
    return value


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInputError("match of a full text query", expected="an object", found=_short(value))
    return value


def _short(value: object) -> str:
    return json.dumps(value, default=repr)[:80]
