"""Search of the rows whose vectors are nearest to a query, as commands ask for it."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flight_client.errors import InvalidInputError

DISTANCE = "_distance"
SCORE = "_score"
RELEVANCE = "_relevance_score"
QUERY_INDEX = "query_index"
ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
DEFAULT_NEAREST = 10
"""Rows that a search returns for each query, if the caller gives no number."""


def nearest_fields(schema: pa.Schema, nearest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a search in the form of a command.

    Args:
        schema: the columns of the dataset.
        nearest: `q` (a vector, or a list of vectors), and the other arguments of
            `RemoteDataset.scanner(nearest=...)`. Without `column`, the dataset must have one column of
            vectors.

    Raises:
        InvalidInputError: there is no such column of vectors, or `q` holds no numbers.
    """
    fields = {name: value for name, value in nearest.items() if value is not None}
    if "q" not in fields:
        raise InvalidInputError("nearest: the argument 'q' is missing")
    column = fields.setdefault("column", None) or vector_column(schema)
    fields["column"] = column
    fields["q"] = _encoded(fields["q"], _element_type(schema, column))
    if "distance_range" in fields:
        fields["distance_range"] = list(fields["distance_range"])
    return fields


def text_fields(query: Any) -> dict[str, Any]:
    """Return a full text query in the form of a command.

    Args:
        query: a text, a JSON object, an object that writes one (`to_json`), or a mapping with one of these
            as `query` and names as `columns`.

    Raises:
        InvalidInputError: the query is none of these.
    """
    if isinstance(query, str):
        return {"query": query}
    if hasattr(query, "to_json"):
        query = json.loads(query.to_json())
    if not isinstance(query, Mapping):
        raise InvalidInputError(f"full_text_query: expected a text or a query, found {type(query).__name__}")
    if "query" in query and not isinstance(query["query"], str):
        return {**query, "query": text_fields(query["query"])}
    return dict(query)


def vector_column(schema: pa.Schema) -> str:
    """Return the name of the only column of vectors; InvalidInputError if there is not exactly one."""
    names = [field.name for field in schema if _vector_element(field.type) is not None]
    if len(names) != 1:
        found = f"several: {', '.join(names)}" if names else "none"
        raise InvalidInputError(f"column: give the column of vectors to search; the dataset has {found}")
    return str(names[0])


def best_rows(rows: pa.Table, k: int) -> pa.Table:
    """Return the best rows of the answers of several servers, `k` for each query, nearest first.

    The answers have the columns `_distance` and `_rowid`, and `query_index` if there are several queries.
    """
    is_batch = QUERY_INDEX in rows.column_names
    keys = [QUERY_INDEX] * is_batch + [DISTANCE, ROW_ID]
    rows = rows.take(pc.sort_indices(rows, [(name, "ascending") for name in keys]))
    if not is_batch:
        return rows.slice(0, k)
    counts: Counter[int] = Counter()
    kept = []
    for number, query in enumerate(rows[QUERY_INDEX].to_pylist()):
        counts[query] += 1
        if counts[query] <= k:
            kept.append(number)
    return rows.take(pa.array(kept, pa.int64()))


def _element_type(schema: pa.Schema, column: str) -> pa.DataType | None:
    """Return the type of the elements of a column of vectors; None if this client does not know it."""
    position = schema.get_field_index(column)
    return None if position < 0 else _vector_element(schema.field(position).type)


def _vector_element(data_type: pa.DataType) -> pa.DataType | None:
    for _ in range(2):  # a row may have a list of vectors
        if isinstance(data_type, pa.BaseExtensionType):
            data_type = data_type.storage_type
        if pa.types.is_fixed_size_list(data_type):
            element: pa.DataType = data_type.value_type
            is_short = isinstance(element, pa.BaseExtensionType)
            numbers = pa.types.is_floating(element) or element in (pa.uint8(), pa.int8())
            return element if is_short or numbers else None
        if not (pa.types.is_list(data_type) or pa.types.is_large_list(data_type)):
            return None
        data_type = data_type.value_type
    return None


def _encoded(q: Any, element: pa.DataType | None) -> Any:
    """Return a query, or a list of queries, as base64 or, if that would lose digits, as numbers."""
    try:
        array = q if isinstance(q, pa.Array) else _as_array(q)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInputError(f"q: expected a vector of numbers, or a list of vectors: {error}") from None
    if pa.types.is_nested(array.type):
        return [_vector(each.values, element) for each in array]
    return _vector(array, element)


def _as_array(q: Any) -> pa.Array:
    if isinstance(q, pa.FixedSizeListScalar):
        return q.values
    if isinstance(q, pa.ChunkedArray):
        return q.combine_chunks()
    shape = getattr(q, "shape", ())
    return pa.array(list(q) if len(shape) == 2 else q)


def _vector(numbers: pa.Array, element: pa.DataType | None) -> Any:
    if numbers.null_count:
        raise InvalidInputError("q: expected numbers, found null")
    if not (pa.types.is_floating(numbers.type) or pa.types.is_integer(numbers.type)):
        raise InvalidInputError(f"q: expected numbers, found {numbers.type}")
    is_plain = element is not None and not isinstance(element, pa.BaseExtensionType)
    if is_plain and (pa.types.is_floating(element) or numbers.type == element):
        values = numbers.cast(element, safe=False)
        data = values.buffers()[1].slice(values.offset * values.type.bit_width // 8)
        return base64.b64encode(data.to_pybytes()[: len(values) * values.type.bit_width // 8]).decode()
    return numbers.to_pylist()
