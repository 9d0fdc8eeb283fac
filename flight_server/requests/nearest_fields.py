"""Fields of a search of nearest rows, and of a hybrid search, in commands and tickets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flight_server.requests.json_fields import (
    Checker,
    base64_bytes,
    boolean,
    check_fields,
    integer,
    list_of,
    number,
    string,
)
from lance_core.api.serving import SEARCHES
from lance_core.errors import InvalidInputError


def nearest(field: str, value: Any) -> Mapping[str, Any]:
    """Return the fields of a search in the form of a command; the dataset is not known yet."""
    return check_fields(field, value, _FIELDS, required=("column", "q"))


def repeated_nearest(field: str, value: Any) -> Mapping[str, Any]:
    """Return the fields of a search whose queries come later, in batches."""
    if isinstance(value, dict) and "q" in value:
        raise InvalidInputError(f"{field}: the queries of a DoExchange come in batches, not as q")
    return check_fields(field, value, _FIELDS, required=("column",))


def nearest_arguments(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a search as arguments of `lance_core.api.serving.bind_nearest`."""
    return {**fields, "q": _decoded(fields["q"])}


def nearest_in_json(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a protobuf message `Nearest`, given as a dict, in the form of a JSON command."""
    fields = dict(message)
    if "queries" in fields:
        fields["q"] = [_vector_in_json(each) for each in fields.pop("queries").get("vectors", [])]
    elif "q" in fields:
        fields["q"] = _vector_in_json(fields["q"])
    if "distance_range" in fields:
        bounds = fields["distance_range"]
        fields["distance_range"] = [bounds.get("lower"), bounds.get("upper")]
    return fields


def hybrid(field: str, value: Any) -> Mapping[str, Any]:
    """Return the fields of a hybrid search, which are bound where the searches are known."""
    return check_fields(field, value, _HYBRID_FIELDS, required=())


def hybrid_in_json(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a protobuf message `Hybrid`, given as a dict, in the form of a JSON command."""
    fields = dict(message)
    if "weights" in fields:
        fields["weights"] = [fields["weights"].get(name, 0.0) for name in SEARCHES]
    return fields


def _vector_in_json(message: Mapping[str, Any]) -> Any:
    if "values" in message and "data" in message:
        raise InvalidInputError("nearest.q: values and data cannot be given together")
    return message["data"] if "data" in message else message.get("values", [])


def _query(field: str, value: Any) -> Any:
    """Return a query, or a list of queries, unchanged; each is base64 or a list of numbers."""
    if isinstance(value, str):
        base64_bytes(field, value)
        return value
    if not isinstance(value, list) or not value:
        raise InvalidInputError(f"{field}: expected base64, a list of numbers, or a list of one of them")
    is_batch = isinstance(value[0], list | str)
    for place, each in enumerate(value):
        if is_batch and isinstance(each, str):
            base64_bytes(f"{field}[{place}]", each)
        elif is_batch and isinstance(each, list):
            for inner, entry in enumerate(each):
                number(f"{field}[{place}][{inner}]", entry)
        else:
            number(f"{field}[{place}]", each)
    return value


def _decoded(q: Any) -> Any:
    """Return a query with bytes in the place of base64."""
    if isinstance(q, str):
        return base64_bytes("q", q)
    return [base64_bytes("q", each) if isinstance(each, str) else each for each in q]


def _bounds(field: str, value: Any) -> list[float | None]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidInputError(f"{field}: expected a lower and an upper bound, each a number or null")
    return [None if bound is None else number(field, bound) for bound in value]


_MOST_ROWS = (1 << 31) - 1
"""Most rows of a search."""

_FIELDS: Mapping[str, Checker] = {
    "column": string,
    "q": _query,
    "k": integer(1, _MOST_ROWS),
    "metric": string,
    "nprobes": integer(1),
    "minimum_nprobes": integer(),
    "maximum_nprobes": integer(),
    "refine_factor": integer(1, _MOST_ROWS),
    "ef": integer(1),
    "use_index": boolean,
    "distance_range": _bounds,
    "search_effort": number,
    "approx_mode": string,
}

_HYBRID_FIELDS: Mapping[str, Checker] = {
    "method": string,
    "depth": integer(1, _MOST_ROWS),
    "weights": list_of(number),
    "rank_constant": number,
}
