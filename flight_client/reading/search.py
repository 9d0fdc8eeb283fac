"""Search of the rows whose vectors are nearest to a query, as commands ask for it."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flight_client.errors import InvalidInputError

DISTANCE = "_distance"
SCORE = "_score"
RELEVANCE = "_relevance_score"
QUERY_INDEX = "query_index"
ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
QUERIES = "q"
"""Column with the queries of a DoExchange."""
DEFAULT_NEAREST = 10
"""Rows that a search returns for each query, if the caller gives no number."""


def nearest_fields(vectors: Mapping[str, pa.DataType], nearest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a search in the form of a command.

    Args:
        vectors: see `vector_columns`.
        nearest: `q` (a vector, or a list of vectors), and the other arguments of
            `RemoteDataset.scanner(nearest=...)`. Without `column`, the dataset must have one column of
            vectors.

    Raises:
        InvalidInputError: there is no such column of vectors, or `q` holds no numbers.
    """
    if nearest.get("q") is None:
        raise InvalidInputError("nearest: the argument 'q' is missing")
    fields = repeated_fields(vectors, nearest)
    element = vectors.get(fields["column"])
    numbers = query_vectors(nearest["q"])
    many = numbers.ndim == 2
    fields["q"] = [_vector(each, element) for each in numbers] if many else _vector(numbers, element)
    return fields


def repeated_fields(vectors: Mapping[str, pa.DataType], nearest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a search in the form of a command, without its query.

    Arguments and errors are those of `nearest_fields`.
    """
    fields = {name: value for name, value in nearest.items() if value is not None and name != "q"}
    fields["column"] = fields.get("column") or _only(vectors)
    if "distance_range" in fields:
        fields["distance_range"] = list(fields["distance_range"])
    return fields


def query_vectors(q: Any) -> NDArray[Any]:
    """Return a query, or a list of queries, as numbers in one or two dimensions.

    Raises:
        InvalidInputError: the query holds no numbers, or vectors of different lengths.
    """
    if isinstance(q, pa.FixedSizeListScalar):
        q = q.values
    elif isinstance(q, pa.ChunkedArray):
        q = q.combine_chunks()
    try:
        if isinstance(q, pa.Array):
            is_nested = pa.types.is_nested(q.type)
            numbers = np.stack([_values(each.values) for each in q]) if is_nested else _values(q)
        else:
            numbers = np.asarray(q)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"q: expected a vector of numbers, or a list of vectors: {error}") from None
    if numbers.dtype.kind not in "fiu":
        values = numbers.ravel().tolist()
        found = next((value for value in values if type(value) not in (int, float)), numbers.dtype)
        raise InvalidInputError(f"q: expected numbers, found {found!r}")
    if numbers.ndim not in (1, 2):
        raise InvalidInputError(
            f"q: expected a vector, or a list of vectors, found an array of shape {numbers.shape}"
        )
    return numbers


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


def vector_columns(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the types of the elements of vectors, by the names of the columns of vectors of a dataset."""
    elements = {field.name: _vector_element(field.type) for field in schema}
    return {name: element for name, element in elements.items() if element is not None}


def best_rows(rows: pa.Table, k: int) -> pa.Table:
    """Return the best rows of the answers of several servers, `k` for each query, nearest first.

    The answers have the columns `_distance` and `_rowid`, and `query_index` if there are several queries.
    """
    is_batch = QUERY_INDEX in rows.column_names
    keys = [QUERY_INDEX] * is_batch + [DISTANCE, ROW_ID]
    rows = rows.sort_by([(name, "ascending") for name in keys])
    if not is_batch:
        return rows.slice(0, k)
    counts: Counter[int] = Counter()
    kept = []
    for number, query in enumerate(rows[QUERY_INDEX].to_pylist()):
        counts[query] += 1
        if counts[query] <= k:
            kept.append(number)
    return rows.take(pa.array(kept, pa.int64()))


def _only(vectors: Mapping[str, pa.DataType]) -> str:
    """Return the name of the only column of vectors; InvalidInputError if there is not exactly one."""
    if len(vectors) != 1:
        found = f"several: {', '.join(vectors)}" if vectors else "none"
        raise InvalidInputError(f"column: give the column of vectors to search; the dataset has {found}")
    return next(iter(vectors))


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


def _values(array: pa.Array | None) -> NDArray[Any]:
    """Return a view of the numbers of an array. `numpy.asarray` would import pandas."""
    if array is None or array.null_count:
        raise InvalidInputError("q: expected numbers, found null")
    if not (pa.types.is_floating(array.type) or pa.types.is_integer(array.type)):
        raise InvalidInputError(f"q: expected numbers, found {array.type}")
    values = array.buffers()[1]
    if values is None:
        return np.zeros(0)
    return np.frombuffer(values, array.type.to_pandas_dtype())[array.offset : array.offset + len(array)]


def _vector(numbers: NDArray[Any], element: pa.DataType | None) -> Any:
    """Return one vector as base64 or as numbers.

    NumPy converts it: a search is often the first work after a pause, when each Arrow call costs 0.1 ms.
    """
    if element is not None and not isinstance(element, pa.BaseExtensionType):
        stored = np.dtype(element.to_pandas_dtype())
        if stored.kind == "f" or stored == numbers.dtype:
            return base64.b64encode(numbers.astype(stored).tobytes()).decode()
    return numbers.tolist()
