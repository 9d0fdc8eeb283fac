"""Filters that callers give as `pyarrow.compute.Expression`, with Arrow's semantics.

Arrow compares floats by IEEE 754, and an IN list of Arrow can find nulls. All other conditions of Arrow mean
the same as in SQL. Those become our expression tree, so that pages can be pruned. The others are evaluated by
Arrow.
"""

from __future__ import annotations

import math
import re
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from pyarrow.acero import Declaration, FilterNodeOptions, TableSourceNodeOptions

from lance_core.errors import InvalidInputError
from lance_core.expressions.parsing.complexity_limits import check_limits
from lance_core.expressions.parsing.substrait import read_substrait
from lance_core.expressions.tree import (
    And,
    ArrowExpression,
    Column,
    Comparison,
    Expression,
    IsIn,
    IsNull,
    Literal,
    Not,
    Or,
    StartsWith,
    walk,
)

_DEEPEST_WRITTEN = 10
"""Maximum nesting of an expression that Arrow is asked to serialize. Arrow's time doubles with each level: 5
ms for 10 levels, 5 s for 20.
"""

_SHARED = And | Or | Not | Column | Literal | Comparison | IsIn | IsNull | StartsWith


def parse_arrow(expression: pc.Expression, schema: pa.Schema) -> Expression:
    """Return the condition that an Arrow expression means on rows of `schema`.

    Raises:
        InvalidInputError: the expression names a missing column, refers to columns by number, or is no
            condition.
    """
    text = str(expression)
    if "FieldPath(" in text:
        raise InvalidInputError("an expression has to name its columns, not count them")
    columns = _columns(expression, text, schema)
    if _nesting(text) <= _DEEPEST_WRITTEN:
        tree = _as_tree(expression, pa.schema([schema.field(name) for name in columns]))
        if tree is not None:
            return tree
    return check_limits(ArrowExpression(expression, tuple((name,) for name in columns), pa.bool_()))


def parse_arrow_as_sql(expression: pc.Expression, schema: pa.Schema) -> Expression | None:
    """Return the condition that an Arrow expression means if SQL's semantics apply to it.

    NaN equals NaN and is greater than every number, and an IN list gives null for a null. None: Arrow cannot
    serialize the expression, or serializing would take too long.

    Raises:
        InvalidInputError: see `parse_arrow`.
    """
    text = str(expression)
    columns = _columns(expression, text, schema)
    if _nesting(text) > _DEEPEST_WRITTEN:
        return None
    found = _written(expression, pa.schema([schema.field(name) for name in columns]))
    return None if found is None else found[0]


def _nesting(text: str) -> int:
    """Return the maximum number of brackets that are open at the same place of a text."""
    signs = (1 if character == "(" else -1 for character in text if character in "()")
    return max(accumulate(signs), default=0)


def _columns(expression: pc.Expression, text: str, schema: pa.Schema) -> list[str]:
    """Return the top-level columns that Arrow needs to evaluate the expression."""
    named = [name for name in schema.names if _appears(name, text)]
    _bind(expression, schema, named)
    for name in list(named):
        fewer = [other for other in named if other != name]
        try:
            _bind(expression, schema, fewer)
        except InvalidInputError:
            continue
        named = fewer
    return named


def _appears(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _bind(expression: pc.Expression, schema: pa.Schema, names: list[str]) -> None:
    """Let Arrow bind the expression as a filter on the given columns only.

    Raises:
        InvalidInputError: Arrow refuses the expression.
    """
    fields = [schema.field(name) for name in names]
    # Add a column, because a filter needs a table with at least one.
    table = pa.Table.from_batches([], pa.schema([*fields, pa.field("", pa.null())]))
    source = Declaration("table_source", TableSourceNodeOptions(table))
    plan = Declaration("filter", FilterNodeOptions(expression), [source])
    try:
        plan.to_table(use_threads=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInputError(f"the expression does not fit the table: {reason}") from None


def _as_tree(expression: pc.Expression, schema: pa.Schema) -> Expression | None:
    """Return the condition as a tree; None if its meaning differs from SQL, or if Arrow cannot
    serialize it.
    """
    found = _written(expression, schema)
    if found is None:
        return None
    tree, unguarded = found
    return tree if all(_means_the_same(node, unguarded > 0) for node in walk(tree)) else None


def _written(expression: pc.Expression, schema: pa.Schema) -> tuple[Expression, int] | None:
    """Return the result of `read_substrait` for the expression; None if Arrow cannot serialize it."""
    try:
        from pyarrow.substrait import serialize_expressions

        return read_substrait(bytes(serialize_expressions([expression], ["filter"], schema)), schema)
    except (ImportError, pa.ArrowException, InvalidInputError):
        return None


def _means_the_same(node: Expression, unguarded: bool) -> bool:
    """Return whether Arrow evaluates the node as we do.

    `unguarded` says that some IN list may be asked for a null.
    """
    if isinstance(node, Comparison) and types.is_floating(node.left.type):
        # In Arrow, NaN is neither greater than a number nor equal to NaN.
        constant = node.right.value.as_py() if isinstance(node.right, Literal) else None
        return node.op not in (">", ">=") and constant is not None and not math.isnan(constant)
    if isinstance(node, IsIn):
        return not node.has_null and not types.is_floating(node.operand.type)
    if unguarded and not isinstance(node, And | Or) and any(isinstance(inner, IsIn) for inner in walk(node)):
        # For a null operand of IN, Arrow gives false and SQL gives null. Only AND and OR treat both alike in
        # a filter.
        return False
    return isinstance(node, _SHARED)
