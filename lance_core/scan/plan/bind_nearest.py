"""Binding of a search of nearest rows, as callers write it, to the columns of a table version."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from inspect import signature
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.arguments import named
from lance_core.errors import ArgumentTypeError, InvalidInputError
from lance_core.hints import did_you_mean
from lance_core.scan.plan.nearest import (
    APPROXIMATIONS,
    DEFAULT_NEAREST,
    METRICS,
    QUERY_INDEX,
    NearestQuery,
    VectorType,
)
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import DataColumn, project
from lance_core.schema import Schema
from lance_core.schema.arrow_values import numbers_of

_TOO_MANY = 1 << 31
"""Number that is too large for any argument that counts something."""
_SYNONYMS = {"euclidean": "l2"}
_ELEMENTS = {
    pa.float16(): "float16",
    pa.float32(): "float32",
    pa.float64(): "float64",
    pa.uint8(): "uint8",
    pa.int8(): "int8",
}


class NoVectorsError(InvalidInputError, TypeError):
    """A column or a query holds no vectors; the reference raises TypeError."""


def bind_nearest(schema: Schema, arguments: Mapping[str, Any], last_row: int | None = None) -> NearestQuery:
    """Return a search from the arguments of the reference: `column`, `q`, and those of `_bound`.

    A vector may be bytes, too: little-endian values of the type of the column. `last_row` is the number of
    rows of the result before limit and offset; it is `k` if the arguments have none.

    Raises:
        InvalidInputError: The column does not exist or has no vectors, the query has another dimension or
            holds no numbers, or a number is out of range; the message names the argument.
        ArgumentTypeError: An argument is unknown, missing, or of another type.
    """
    known = _arguments()
    for name in arguments:
        if name not in known:
            raise ArgumentTypeError(f"nearest: unexpected argument {name!r}{did_you_mean(str(name), known)}")
    for name in ("column", "q"):
        if arguments.get(name) is None:
            raise ArgumentTypeError(f"nearest: the argument {name!r} is missing")
    given = {name: value for name, value in arguments.items() if value is not None}
    if last_row is not None and last_row > 0:
        given.setdefault("k", last_row)
    return _bound(schema, **given)


@cache
def _arguments() -> tuple[str, ...]:
    """Return the names of the arguments of a search."""
    return tuple(name for name in signature(_bound).parameters if name != "schema")


@named
def _bound(
    schema: Schema,
    column: str,
    q: Any,
    k: int = DEFAULT_NEAREST,
    metric: str | None = None,
    nprobes: int | None = None,
    minimum_nprobes: int | None = None,
    maximum_nprobes: int | None = None,
    refine_factor: int | None = None,
    use_index: bool = True,
    ef: int | None = None,
    query_parallelism: int = 0,
    approx_mode: str = "normal",
    distance_range: Sequence[float | None] | None = None,
    search_effort: float | None = None,
) -> NearestQuery:
    vectors = vector_type(schema, column)
    chosen = None if metric is None else metric_of(metric, vectors)
    numbers, is_nested = _query_vectors(q, vectors)
    _check_bytes(chosen or vectors.default_metric, numbers)
    is_batch = is_nested and not vectors.is_multiple
    if is_batch and QUERY_INDEX in {field.name for field in schema.fields}:
        raise InvalidInputError(
            f"the table has a column {QUERY_INDEX!r}, which the result of several queries needs for itself"
        )
    if approx_mode not in APPROXIMATIONS:
        raise InvalidInputError(
            f"nearest: approx_mode must be one of {', '.join(APPROXIMATIONS)}", found=repr(approx_mode)
        )
    minimum, maximum = (
        _at_least("minimum_nprobes", minimum_nprobes, 0),
        _at_least("maximum_nprobes", maximum_nprobes, 0),
    )
    if minimum is not None and maximum is not None and minimum > maximum:
        raise InvalidInputError(
            "nearest: minimum_nprobes must be <= maximum_nprobes", found=f"{minimum} and {maximum}"
        )
    if search_effort is None and nprobes is not None:
        minimum = maximum = _at_least("nprobes", nprobes, 1)
    if search_effort is not None and not 0 <= search_effort <= 1:
        raise InvalidInputError("nearest: search_effort must be from 0 to 1", found=search_effort)
    _at_least("query_parallelism", query_parallelism, -1)
    number = _at_least("k", k, 1)
    assert number is not None
    candidates, factor = _at_least("ef", ef, 1), _at_least("refine_factor", refine_factor, 1)
    if candidates is not None and candidates < number * (factor or 1):
        raise InvalidInputError(
            "nearest: ef must be at least k, times refine_factor if it is given",
            expected=f"{number * (factor or 1)} or more",
            found=candidates,
        )
    lower, upper = _bounds(distance_range)
    return NearestQuery(
        column,
        vectors,
        numbers.tobytes(),
        is_batch=is_batch,
        k=number,
        metric=chosen,
        lower=lower,
        upper=upper,
        use_index=bool(use_index),
        minimum_probes=minimum or None,
        maximum_probes=maximum or None,
        search_effort=None if search_effort is None else float(search_effort),
        candidates=candidates,
        approximation=approx_mode,
        refine_factor=factor,
    )


def with_queries(query: NearestQuery, vectors: pa.Array) -> NearestQuery:
    """Return the same search of other query vectors, which are searched one by one.

    Args:
        query: A search of several queries.
        vectors: Fixed-size lists of numbers, one for each query.

    Raises:
        InvalidInputError: There is no vector, or one is null, has another dimension, or holds a null or no
            numbers.
    """
    kind = vectors.type
    if not pa.types.is_fixed_size_list(kind) or not (
        pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)
    ):
        raise NoVectorsError("nearest: queries must be fixed-size lists of numbers", found=kind)
    shape = len(vectors), kind.list_size
    _check_shape(shape, query.vectors)
    numbers = vectors.flatten()
    if vectors.null_count or numbers.null_count:
        raise NoVectorsError("nearest: q must be a vector of numbers, found a null")
    values = numbers_of(numbers).astype(np.float64).reshape(shape)
    _check_bytes(query.metric or query.vectors.default_metric, values)
    return replace(query, queries=values.tobytes(), is_batch=True)


def bind_segments(query: NearestQuery | None, segments: Iterable[str | UUID]) -> NearestQuery:
    """Return a search with some segments of an index, given by their uuids.

    Raises:
        InvalidInputError: There is no search of vectors, or no segment, or a text is no uuid.
        ArgumentTypeError: The segments are no list, or hold other values.
    """
    if query is None:
        raise InvalidInputError("index_segments is only for searches: give nearest, too")
    if isinstance(segments, str | UUID):
        raise ArgumentTypeError(f"index_segments must be a list of uuids, got {type(segments).__name__}")
    found = set()
    for segment in segments:
        if not isinstance(segment, str | UUID):
            raise ArgumentTypeError(
                f"index_segments must have texts or uuid.UUID, got {type(segment).__name__}"
            )
        try:
            found.add(str(segment if isinstance(segment, UUID) else UUID(segment)))
        except ValueError:
            raise InvalidInputError("index_segments must have uuids", found=segment) from None
    if not found:
        raise InvalidInputError("index_segments must have at least one segment")
    return replace(query, segments=frozenset(found))


def vector_type(schema: Schema, column: str) -> VectorType:
    """Return the type of a column of vectors.

    Raises:
        InvalidInputError: There is no such column, or it has no vectors; the message names it.
    """
    if not isinstance(column, str):
        raise ArgumentTypeError(f"nearest: column must be a name, got {type(column).__name__}")
    known = _known.setdefault(schema, {})
    found = known.get(column)
    if found is None:
        found = known[column] = _vector_type(schema, column)
    return found


# Finding a type takes as long as the other arguments of a search together.
_known: WeakKeyDictionary[Schema, dict[str, VectorType]] = WeakKeyDictionary()
"""Types of the columns of vectors that searches named."""


def _vector_type(schema: Schema, column: str) -> VectorType:
    (projected,) = project(schema, ScanOptions(columns=(column,))).columns
    found = projected.output.type if isinstance(projected, DataColumn) else pa.null()
    data_type = _storage(found)
    is_multiple = pa.types.is_list(data_type) or pa.types.is_large_list(data_type)
    if is_multiple:
        data_type = _storage(data_type.value_type)
    if not pa.types.is_fixed_size_list(data_type) or data_type.list_size < 1:
        raise NoVectorsError(
            f"Query column {column} must be a vector",
            expected="a fixed-size list of numbers, or a list of them",
            found=found,
        )
    element = _element(data_type.value_type)
    if element is None:
        raise NoVectorsError(
            f"Query column {column} must be a vector of {', '.join(_ELEMENTS.values())} or bfloat16",
            found=data_type.value_type,
        )
    return VectorType(data_type.list_size, element, is_multiple)


def metric_of(name: str, vectors: VectorType) -> str:
    """Return the metric with a name, in any case; InvalidInputError if it does not fit the vectors."""
    if not isinstance(name, str):
        raise ArgumentTypeError(f"nearest: metric must be a name, got {type(name).__name__}")
    metric = _SYNONYMS.get(name.lower(), name.lower())
    if metric not in METRICS:
        raise InvalidInputError(
            f"nearest: unknown metric {name!r}{did_you_mean(metric, METRICS)}",
            expected=f"one of {', '.join(METRICS)}",
        )
    if metric == "hamming" and vectors.element != "uint8":
        raise InvalidInputError(
            "nearest: the metric hamming compares the bits of uint8 vectors", found=vectors.element
        )
    return metric


def _storage(data_type: pa.DataType) -> pa.DataType:
    return data_type.storage_type if isinstance(data_type, pa.BaseExtensionType) else data_type


def _element(data_type: pa.DataType) -> str | None:
    if isinstance(data_type, pa.BaseExtensionType):
        is_short = data_type.extension_name == "lance.bfloat16"
        return "bfloat16" if is_short else _element(data_type.storage_type)
    return _ELEMENTS.get(data_type)


def _query_vectors(q: Any, vectors: VectorType) -> tuple[npt.NDArray[np.float64], bool]:
    """Return the query vectors, one per row, and whether the caller gave a list of vectors."""
    if isinstance(q, bytes):
        q = _from_bytes(q, vectors)
    elif isinstance(q, list) and any(isinstance(each, bytes) for each in q):
        q = [_from_bytes(each, vectors) if isinstance(each, bytes) else each for each in q]
    values = _as_array(q)
    _check_shape(values.shape, vectors)
    return np.ascontiguousarray(values.reshape(-1, vectors.dimension)), values.ndim == 2


def _check_shape(shape: tuple[int, ...], vectors: VectorType) -> None:
    if len(shape) not in (1, 2) or 0 in shape:
        raise InvalidInputError(
            "nearest: q must be a vector or a list of vectors", found=f"an array of shape {shape}"
        )
    if shape[-1] != vectors.dimension:
        raise InvalidInputError(
            f"Query vector size {shape[-1]} does not match index column size {vectors.dimension}"
        )


def _from_bytes(data: bytes, vectors: VectorType) -> npt.NDArray[np.generic]:
    """Return a vector from little-endian values of the type of the column."""
    kind = np.dtype("uint16" if vectors.element == "bfloat16" else vectors.element).newbyteorder("<")
    if len(data) % kind.itemsize:
        raise InvalidInputError(f"nearest: q has {len(data)} bytes, which are no values of {vectors.element}")
    values = np.frombuffer(data, kind)
    return (values.astype(np.uint32) << 16).view(np.float32) if vectors.element == "bfloat16" else values


def _check_bytes(metric: str, values: npt.NDArray[np.float64]) -> None:
    if metric == "hamming" and not ((values >= 0) & (values <= 255) & (values % 1 == 0)).all():
        raise InvalidInputError("nearest: q must have whole numbers from 0 to 255 for the metric hamming")


def _as_array(q: Any) -> npt.NDArray[np.float64]:
    """Return a query of any form as numbers, in one or two dimensions."""
    if isinstance(q, pa.Scalar):
        if not q.is_valid:
            raise NoVectorsError("nearest: q must be a vector, found null")
        value = q.value if isinstance(q, pa.ExtensionScalar) else q
        q = value.values if hasattr(value, "values") else value.as_py()
    if isinstance(q, pa.ChunkedArray):
        q = q.combine_chunks()
    if isinstance(q, pa.ExtensionArray):
        q = q.storage
    if isinstance(q, pa.Array):
        if q.null_count or (pa.types.is_nested(q.type) and q.flatten().null_count):
            raise NoVectorsError("nearest: q must be a vector of numbers, found a null")
        q = q.to_numpy(zero_copy_only=False) if not pa.types.is_nested(q.type) else q.to_pylist()
    if isinstance(q, list | tuple):
        lengths = {len(each) for each in q if isinstance(each, Sequence | np.ndarray | pa.Array)}
        if len(lengths) > 1:
            raise InvalidInputError(
                "nearest: All query vectors must have the same length", found=sorted(lengths)
            )
    try:
        values = np.asarray(q)
        if values.dtype == object or values.dtype.kind not in "fiub":
            values = np.asarray(q, np.float64)
        return values.astype(np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise NoVectorsError("nearest: q must be a vector of numbers", found=error) from None


def _at_least(name: str, value: Any, least: int) -> int | None:
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        if not isinstance(value, float) or not value.is_integer():
            raise ArgumentTypeError(
                f"nearest: {name} must be an integer, got {type(value).__name__}"
            ) from None
        number = int(value)
    if number >= _TOO_MANY:
        raise InvalidInputError(f"nearest: {name} must be less than {_TOO_MANY}, got {number}")
    if number < least:
        shown = "Nearest-K must be > 0 but got" if name == "k" else f"nearest: {name} must be >= {least}, got"
        raise InvalidInputError(f"{shown} {number}")
    return number


def _bounds(distance_range: Sequence[float | None] | None) -> tuple[float | None, float | None]:
    if distance_range is None:
        return None, None
    if len(distance_range) != 2:
        raise InvalidInputError(
            "distance_range must be a tuple of (lower_bound, upper_bound)", found=f"{distance_range}"
        )
    bounds = []
    for bound in distance_range:
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int | float | np.number)):
            raise ArgumentTypeError(f"distance_range must have numbers or None, got {type(bound).__name__}")
        bounds.append(None if bound is None else float(bound))
    return bounds[0], bounds[1]
