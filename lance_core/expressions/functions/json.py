"""Functions of JSON: values at paths, members, and their conversion to other types.

They work on binary JSON as data files store it. Text of JSON, which some callers evaluate on, is converted
first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from lance_core.encodings import json_values
from lance_core.encodings.json_binary import show_text, store_json
from lance_core.expressions.builders import cast
from lance_core.expressions.coercion import is_binary, is_string
from lance_core.expressions.comparisons import Datum
from lance_core.expressions.functions.registry import Bound, Function, as_constant_text, expect, unfit
from lance_core.expressions.tree import Column, Expression, Literal, StoredJson
from lance_core.kernels import NoResult

_STORED = pa.large_binary()


def _as_document(name: str, argument: Expression) -> Expression:
    """Return an argument that must be JSON or binary JSON."""
    if isinstance(argument.type, pa.JsonType):
        return StoredJson(argument.path, _STORED) if isinstance(argument, Column) else argument
    if is_binary(argument.type) or pa.types.is_null(argument.type):
        return cast(argument, _STORED)
    raise unfit(name, argument, "JSON")


def _as_constant(name: str, argument: Expression) -> Literal:
    """Return an argument that must be a constant text; an integer is written as text."""
    if isinstance(argument, Literal) and pa.types.is_integer(argument.type):
        argument = cast(argument, pa.string())
    return as_constant_text(name, argument)


def _function(
    result: pa.DataType, compute: Callable[..., pa.Array], *, texts: int, has_path: bool
) -> Function:
    """Return a function of JSON and `texts` constant texts, of which the first is a path if it `has_path`."""

    def bind(name: str, arguments: Sequence[Expression]) -> Bound:
        expect(name, arguments, 1 + texts)
        constants = [_as_constant(name, argument) for argument in arguments[1:]]
        path = constants[0].value
        if has_path and path.is_valid:
            json_values.check_path(path.as_py())
        return [_as_document(name, arguments[0]), *constants], result

    def run(documents: Datum, *constants: pa.Scalar) -> Datum:
        if not all(constant.is_valid for constant in constants):
            return pa.nulls(len(documents), result)
        try:
            return compute(_binary(documents), *(constant.as_py() for constant in constants))
        except NoResult as error:
            raise pa.ArrowInvalid(str(error)) from None

    return Function(bind, run)


def _binary(documents: pa.Array) -> pa.Array:
    """Return JSON in the form that data files store."""
    if isinstance(documents.type, pa.JsonType):
        documents = documents.storage
    return store_json(documents, "JSON") if is_string(documents.type) else documents


def _get(data_type: pa.DataType) -> Function:
    """Return the function that gives one member in another type."""

    def compute(documents: pa.Array, name: str) -> pa.Array:
        return json_values.converted(json_values.member(documents, name), data_type)

    return _function(data_type, compute, texts=1, has_path=False)


def _extract(documents: pa.Array, path: str) -> pa.Array:
    return show_text(json_values.values_at(documents, path))


FUNCTIONS = {
    "json_extract": _function(pa.string(), _extract, texts=1, has_path=True),
    "json_exists": _function(pa.bool_(), json_values.exists, texts=1, has_path=True),
    "json_array_length": _function(pa.int64(), json_values.array_length, texts=1, has_path=True),
    "json_array_contains": _function(pa.bool_(), json_values.array_contains, texts=2, has_path=True),
    "json_get": _function(_STORED, json_values.member, texts=1, has_path=False),
    "json_get_string": _get(pa.string()),
    "json_get_int": _get(pa.int64()),
    "json_get_float": _get(pa.float64()),
    "json_get_bool": _get(pa.bool_()),
}
