"""Nullability of expressions, as the schema of a computed column declares it.

The rules are those that the reference reports: a result of values that are never null is not nullable, except
for most functions.
"""

from __future__ import annotations

import pyarrow as pa

from lance_core.expressions.arithmetic import ARITHMETIC
from lance_core.expressions.functions import FUNCTIONS
from lance_core.expressions.tree import (
    ArrowExpression,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    IsIn,
    IsNull,
    Literal,
)

_FIRST_NOT_NULL = frozenset({"coalesce", "nvl", "ifnull"})


def is_nullable(expression: Expression, schema: pa.Schema) -> bool:
    """Return whether a value of the expression may be null; `schema` has the columns that the expression
    names.
    """
    if isinstance(expression, Literal):
        return not expression.value.is_valid
    if isinstance(expression, Column):
        return _is_column_nullable(expression, schema)
    if isinstance(expression, IsNull):
        return False
    if isinstance(expression, ArrowExpression):
        return True
    if isinstance(expression, Call):
        return _is_call_nullable(expression, schema)
    if isinstance(expression, Cast) and expression.try_cast:
        return True
    if isinstance(expression, IsIn) and expression.has_null:
        return True
    operands = expression.operands
    if isinstance(expression, Case):
        operands = (*(value for _, value in expression.branches), expression.otherwise)
    return any(is_nullable(operand, schema) for operand in operands)


def _is_call_nullable(call: Call, schema: pa.Schema) -> bool:
    parts = [is_nullable(argument, schema) for argument in call.arguments]
    if call.function in _FIRST_NOT_NULL:
        return all(parts)
    if call.function == "nvl2":
        return any(parts[1:])
    keeps_nulls = call.function in ARITHMETIC or FUNCTIONS[call.function].keeps_nulls
    return any(parts) or not keeps_nulls


def _is_column_nullable(column: Column, schema: pa.Schema) -> bool:
    field = schema.field(column.path[0])
    nullable = field.nullable
    for name in column.path[1:]:
        field = field.type.field(name)
        nullable = nullable or field.nullable
    return bool(nullable)
