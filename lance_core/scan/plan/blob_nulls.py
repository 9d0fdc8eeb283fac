"""Nulls of blobs in expressions on scans that return the values of blobs.

Expressions see the descriptors of blobs. In 2.0 files the descriptor of a null blob is no null, but an empty
value with a position (docs/format.md, "Blobs"). A scan that returns values returns null there, so its filter
has to see a null, too.
"""

from __future__ import annotations

import pyarrow as pa

from lance_core.errors import UnsupportedFeatureError
from lance_core.expressions.builders import comparison, conjunction, literal
from lance_core.expressions.tree import ArrowExpression, Case, Column, Expression, Path, columns, with_columns
from lance_core.schema import Schema


def with_nulls_of_values(schema: Schema, expression: Expression, *, below: Path = ()) -> Expression:
    """Return an expression with null descriptors of the first form where the values of the blobs are null.

    Only descriptors are read. Other descriptors are null where their values are null. The expression names
    the columns of the schema below the path `below`.

    Raises:
        UnsupportedFeatureError: Arrow must evaluate the expression, and it names such a blob.
    """
    blobs = {path for path in columns(expression) if _is_first_form(schema, path, below)}
    if not blobs:
        return expression
    if isinstance(expression, ArrowExpression):
        names = ", ".join(path[0] for path in sorted(blobs))
        raise UnsupportedFeatureError("an Arrow expression of this kind on values of blobs", column=names)
    return with_columns(expression, lambda column: _with_nulls(column) if column.path in blobs else column)


def _is_first_form(schema: Schema, path: Path, below: Path) -> bool:
    """Return whether the path leads to a blob whose descriptor is a position and a size."""
    if path[: len(below)] != below or path == below:
        return False
    fields = schema.fields
    for name in path[len(below) : -1]:
        fields = next((field.children for field in fields if field.name == name), ())
    return any(field.name == path[-1] and field.is_blob for field in fields)


def _with_nulls(column: Column) -> Expression:
    position, size = (Column((*column.path, name), pa.uint64()) for name in ("position", "size"))
    is_null = conjunction([comparison("=", size, literal(0)), comparison("!=", position, literal(0))])
    return Case(((is_null, literal(None, column.type)),), column)
