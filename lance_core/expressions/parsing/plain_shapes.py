"""Shapes whose texts are comparisons of columns with constants, joined by AND: most filters.

A table is asked for the same shape with other constants again and again. What such a shape means on a schema
is found once. Then each text costs only its constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from sqlglot import exp

from lance_core.expressions.builders import plain_comparison
from lance_core.expressions.parsing.sql_reader import COMPARISONS
from lance_core.expressions.tree import And, Column, Comparison, Expression, conjuncts, read_alike
from lance_core.process.derived import Derived

_MOST_KEPT = 64
"""Most shapes that are kept for a schema."""


class _Part(NamedTuple):
    """Comparison of a column with the constant of this number."""

    op: str
    column: Column
    number: int
    is_text: bool
    model: Expression
    """The comparison with some constant."""


class _Shape(NamedTuple):
    """Conditions that must all hold."""

    parts: tuple[_Part, ...]
    model: Expression
    """The conditions with some constants."""


_known: Derived[pa.Schema, dict[str, _Shape]] = Derived(lambda schema: {})


def keep_shape(shape: str, tree: Any, schema: pa.Schema, bound: Expression) -> None:
    """Keep what a shape means on a schema, if it only compares columns with constants.

    Args:
        shape: The shape; see `shapes.without_constants`.
        tree: The tree of sqlglot for it.
        schema: The columns.
        bound: What the tree means on the schema with some constants.
    """
    written, found = tuple(tree.flatten()) if isinstance(tree, exp.And) else (tree,), conjuncts(bound)
    if len(written) != len(found):
        return
    parts = []
    for node, condition in zip(written, found, strict=True):
        op, constant = COMPARISONS.get(type(node)), node.args.get("expression")
        if op is None or not isinstance(node.this, exp.Column) or not isinstance(constant, exp.Literal):
            return
        if not isinstance(condition, Comparison) or not isinstance(condition.left, Column):
            return
        parts.append(_Part(op, condition.left, int(constant.this), constant.is_string, condition))
    known = _known.of(schema)
    if len(known) >= _MOST_KEPT:
        known.clear()
    known[shape] = _Shape(tuple(parts), bound)


def with_constants(shape: str, constants: Sequence[str], schema: pa.Schema) -> Expression | None:
    """Return what a shape that was kept means with these constants; None if the text has to be parsed.

    A constant that does not fit its column is for the parser, which knows what it means.
    """
    known = _known.of(schema).get(shape)
    if known is None:
        return None
    conditions = []
    for op, column, number, is_text, model in known.parts:
        condition = plain_comparison(op, column, constants[number], is_text=is_text)
        if condition is None:
            return None
        read_alike(condition, model)
        conditions.append(condition)
    if len(conditions) == 1:
        return conditions[0]
    both = And(tuple(conditions))
    read_alike(both, known.model)
    return both
