"""Whether the values of an expression may be null, as the schema of a computed column says it.

The rules are those the reference reports: what is made of values that are never null is not null, except by
functions that have names.
"""

from __future__ import annotations

import pyarrow as pa

from lance_core.scan.expressions.tree import (
    ArrowExpression,
    Call,
    Case,
    Cast,
    Column,
    DistinctFrom,
    Expression,
    IsIn,
    IsNull,
    Literal,
)

_OPERATORS = frozenset({"+", "-", "*", "/", "%", "||"})


def is_nullable(expression: Expression, schema: pa.Schema) -> bool:
    """Whether a value may be null; `schema` has the columns that the expression names."""
    if isinstance(expression, Literal):
        return not expression.value.is_valid
    if isinstance(expression, Column):
        return _is_column_nullable(expression, schema)
    if isinstance(expression, IsNull | DistinctFrom):
        return False
    if isinstance(expression, ArrowExpression):
        return True
    if isinstance(expression, Call) and expression.function not in _OPERATORS:
        return True
    if isinstance(expression, Cast) and expression.try_cast:
        return True
    if isinstance(expression, IsIn) and expression.has_null:
        return True
    operands = expression.operands
    if isinstance(expression, Case):
        operands = (*(value for _, value in expression.branches), expression.otherwise)
    return any(is_nullable(operand, schema) for operand in operands)


def _is_column_nullable(column: Column, schema: pa.Schema) -> bool:
    field = schema.field(column.path[0])
    nullable = field.nullable
    for name in column.path[1:]:
        field = field.type.field(name)
        nullable = nullable or field.nullable
    return bool(nullable)
