"""Full text queries of scans, as callers of the reference write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lance_core.arguments import named
from lance_core.errors import ArgumentTypeError, InvalidInputError
from lance_core.hints import did_you_mean
from lance_core.index.text.query import (
    Match,
    Phrase,
    TextQuery,
    columns_of,
    parse_query,
    query_json,
    with_columns,
)
from lance_core.schema import Field, Schema, split_path

_KEYS = {"query", "columns"}


def bind_text_query(schema: Schema, value: Any) -> TextQuery:
    """Return the query of an argument `full_text_query`.

    Args:
        schema: The columns that the query may name.
        value: A text; a query of `lance_core.api.query`, or its JSON object; or a mapping with `query`, which
            is one of these, and `columns`, a list of names. A text in double quotes is a phrase.

    Raises:
        InvalidInputError: The mapping is no query; the message says where. Or a column does not exist, or has
            no texts.
        ArgumentTypeError: The value has another type.
    """
    query = _parsed(value)
    for column in columns_of(query):
        if column is not None:
            text_field(schema, column)
    return query


def _parsed(value: Any) -> TextQuery:
    if isinstance(value, str):
        is_phrase = len(value) > 2 and value[0] == value[-1] == '"'
        return Phrase(value[1:-1]) if is_phrase else Match(value)
    if isinstance(value, Mapping) and _KEYS & value.keys():
        if "query" not in value or value.keys() - _KEYS:
            raise InvalidInputError("full_text_query", expected="query and columns", found=sorted(value))
        query = _parsed(value["query"])
        columns = value.get("columns")
        return query if columns is None else _in_columns(query, columns)
    if isinstance(value, Mapping):
        return parse_query(value)
    inner = getattr(value, "inner", None)
    if isinstance(inner, TextQuery):
        return parse_query(query_json(inner))
    raise ArgumentTypeError(
        f"full_text_query must be a text, a query or a mapping, got {type(value).__name__}"
    )


@named
def _in_columns(query: TextQuery, columns: Sequence[str]) -> TextQuery:
    if isinstance(columns, str) or not all(isinstance(column, str) for column in columns):
        raise ArgumentTypeError("columns of full_text_query must be a list of names")
    if not columns:
        raise InvalidInputError("columns of full_text_query", expected="names of columns", found="none")
    if all(column is not None for column in columns_of(query)):
        return query
    if isinstance(query, Phrase) and len(columns) > 1:
        raise InvalidInputError(
            "columns of full_text_query", expected="one column for a phrase", found=columns
        )
    return with_columns(query, list(columns))


def text_field(schema: Schema, path: str) -> Field:
    """Return the column of texts, of lists of texts, or of JSON, at a dotted path.

    Raises:
        InvalidInputError: There is no such column, or it has no texts.
    """
    fields: Sequence[Field] = schema.fields
    names = [path] if any(field.name == path for field in fields) else split_path(path)
    found = None
    for name in names:
        found = next((field for field in fields if field.name == name), None)
        if found is None:
            known = [field.name for field in fields]
            raise InvalidInputError(f"there is no column {path!r}{did_you_mean(name, known)}")
        fields = found.children if found.logical_type == "struct" else ()
    if found is None or not (found.is_json or _is_text(found.to_arrow().type)):
        raise InvalidInputError(f"column {path!r} cannot be searched for words: it has no texts")
    return found


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
