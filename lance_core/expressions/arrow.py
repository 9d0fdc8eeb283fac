"""A caller's `pyarrow.compute.Expression` as a filter, with Arrow's own semantics.

Arrow compares floats by IEEE 754 and looks nulls up in IN; for everything else its conditions mean what SQL
means. Those become our tree, which pages can be pruned by; the others stay Arrow's to evaluate.
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
from lance_core.expressions.complexity_limits import check_limits
from lance_core.expressions.substrait import read_substrait
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
"""Arrow's time to write an expression doubles with each level: 5 ms for 10, 5 s for 20."""

_SHARED = And | Or | Not | Column | Literal | Comparison | IsIn | IsNull | StartsWith


def parse_arrow(expression: pc.Expression, schema: pa.Schema) -> Expression:
    """Return the condition on rows of `schema`.

    Raises:
        InvalidInputError: it names a column that is not there, or is no condition.
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


def _nesting(text: str) -> int:
    """Return the most brackets that are open at one place of a text."""
    signs = (1 if character == "(" else -1 for character in text if character in "()")
    return max(accumulate(signs), default=0)


def _columns(expression: pc.Expression, text: str, schema: pa.Schema) -> list[str]:
    """Return the top-level columns without which Arrow cannot evaluate the expression."""
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
    """Let Arrow bind the expression as a filter on these columns only."""
    fields = [schema.field(name) for name in names]
    # A filter needs a table with a column.
    table = pa.Table.from_batches([], pa.schema([*fields, pa.field("", pa.null())]))
    source = Declaration("table_source", TableSourceNodeOptions(table))
    plan = Declaration("filter", FilterNodeOptions(expression), [source])
    try:
        plan.to_table(use_threads=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInputError(f"the expression does not fit the table: {reason}") from None


def _as_tree(expression: pc.Expression, schema: pa.Schema) -> Expression | None:
    """Return the condition as a tree, or None if the meaning differs or Arrow cannot write it."""
    try:
        from pyarrow.substrait import serialize_expressions

        data = bytes(serialize_expressions([expression], ["filter"], schema))
        tree, unguarded = read_substrait(data, schema)
    except (ImportError, pa.ArrowException, InvalidInputError):
        return None
    return tree if all(_means_the_same(node, unguarded > 0) for node in walk(tree)) else None


def _means_the_same(node: Expression, unguarded: bool) -> bool:
    """Return whether Arrow gives the node the value that we do; `unguarded`: a null may be looked up in a
    list.
    """
    if isinstance(node, Comparison) and types.is_floating(node.left.type):
        # NaN is not above a number for Arrow, and never equal to NaN.
        constant = node.right.value.as_py() if isinstance(node.right, Literal) else None
        return node.op not in (">", ">=") and constant is not None and not math.isnan(constant)
    if isinstance(node, IsIn):
        return not node.has_null and not types.is_floating(node.operand.type)
    if unguarded and not isinstance(node, And | Or) and any(isinstance(inner, IsIn) for inner in walk(node)):
        # Arrow says that a null is not in a list, where SQL does not know: alike only where null is false.
        return False
    return isinstance(node, _SHARED)
