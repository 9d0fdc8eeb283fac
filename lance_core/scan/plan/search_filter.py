"""Filters of searches, as callers of the reference write them: conditions, and searches of the other kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lance_core.errors import ArgumentTypeError, InvalidInputError

_CONDITION, _SEARCH = "expr_filter", "search_filter"


class VectorSearchQuery:
    """The rows with the nearest vectors, as the `filter` of a search of texts."""

    def __init__(
        self,
        column: str,
        q: Any,
        k: int | None = None,
        metric: str | None = None,
        nprobes: int | None = None,
        minimum_nprobes: int | None = None,
        maximum_nprobes: int | None = None,
        refine_factor: int | None = None,
        use_index: bool = True,
        ef: int | None = None,
        query_parallelism: int | None = None,
        approx_mode: str = "normal",
    ) -> None:
        """Describe the search. The arguments are those of `nearest`; `k` is 10 if it is not given."""
        self._arguments = {
            "column": column,
            "q": q,
            "k": k,
            "metric": metric,
            "nprobes": nprobes,
            "minimum_nprobes": minimum_nprobes,
            "maximum_nprobes": maximum_nprobes,
            "refine_factor": refine_factor,
            "use_index": use_index,
            "ef": ef,
            "query_parallelism": query_parallelism,
            "approx_mode": approx_mode,
        }

    def inner(self) -> dict[str, Any]:
        """Return the arguments as a mapping, which is a value of `nearest`."""
        return dict(self._arguments)


def divided_argument(value: Any) -> tuple[Any, Any]:
    """Return the condition and the search of an argument `filter`; None for the one that it does not have.

    Args:
        value: A condition, a search, or a mapping with a condition as `expr_filter` and a search as
            `search_filter`. A search is a `VectorSearchQuery` or a query of `lance_core.api.query`.

    Raises:
        InvalidInputError: The mapping has other keys.
        ArgumentTypeError: `search_filter` is no search.
    """
    if value is None or isinstance(value, str):
        return value, None
    if not isinstance(value, Mapping):
        return (None, value) if _is_search(value) else (value, None)
    if value.keys() - {_CONDITION, _SEARCH}:
        raise InvalidInputError("filter", expected=f"{_CONDITION} and {_SEARCH}", found=sorted(value))
    search = value.get(_SEARCH)
    if search is not None and not _is_search(search):
        raise ArgumentTypeError(
            f"{_SEARCH} must be a full text query or a VectorSearchQuery, got {type(search).__name__}"
        )
    return value.get(_CONDITION), search


def joined_argument(condition: Any, search: Any) -> Any:
    """Return an argument `filter` with a condition and a search, of which either may be None."""
    return condition if search is None else {_CONDITION: condition, _SEARCH: search}


def _is_search(value: Any) -> bool:
    return hasattr(value, "inner")
