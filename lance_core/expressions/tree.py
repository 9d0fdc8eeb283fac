"""The expression tree: what a filter or a computed column means, after names and types are settled.

Every parser (SQL text, Substrait, a caller's Arrow expression) makes this tree; the evaluation and the
pruning by statistics read it. Nodes are frozen and hashable, and know their Arrow type. Comparisons have
operands of one type, except that a dictionary-encoded one stands for its values. Nothing here walks the tree
by recursion, so that no depth of a tree can exhaust the stack.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import pyarrow.compute as pc

Path = tuple[str, ...]
"""A top-level column and the struct children below it."""


class Expression:
    """A node of the tree; `type` is the Arrow type of its values."""

    @property
    def type(self) -> pa.DataType:
        """Arrow type of the values; boolean unless a class says otherwise."""
        return pa.bool_()

    @property
    def operands(self) -> tuple[Expression, ...]:
        """The nodes right below, in the order of the text."""
        return ()


@dataclass(frozen=True)
class Column(Expression):
    """A column, or a child of a struct column, by the names of the schema, whatever the text's case."""

    path: Path
    data_type: pa.DataType

    @property
    def type(self) -> pa.DataType:
        return self.data_type


@dataclass(frozen=True)
class Literal(Expression):
    """A constant; a null has a type too."""

    value: pa.Scalar
    written: Decimal | None = None
    """The number as it was written, where it was written with a fraction or is too large for an integer: a
    double cannot hold it exactly, a decimal or integer column beside it can. Of a time that was written with
    digits finer than its unit, the seconds since 1970 or midnight."""

    @property
    def type(self) -> pa.DataType:
        return self.value.type


@dataclass(frozen=True)
class Comparison(Expression):
    """`left op right`, null where either side is; `op` is one of `= != < <= > >=`.

    NaN equals NaN and is greater than every other number; -0.0 equals 0.0.
    """

    op: str
    left: Expression
    right: Expression

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class DistinctFrom(Expression):
    """`left IS DISTINCT FROM right`: never null, two nulls are not distinct."""

    left: Expression
    right: Expression

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, eq=False)
class IsIn(Expression):
    """`operand IN (values)`; `NOT IN` is `Not(IsIn(...))`.

    `values` has the type of the operand and no nulls; `has_null`: the list held one, so that what is not
    found is null instead of false.
    """

    operand: Expression
    values: pa.Array
    has_null: bool

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, IsIn)
            and (self.operand, self.has_null) == (other.operand, other.has_null)
            and self.values.equals(other.values)
        )

    def __hash__(self) -> int:
        return hash((self.operand, len(self.values), self.has_null))


@dataclass(frozen=True)
class IsNull(Expression):
    """`operand IS NULL`; never null itself."""

    operand: Expression

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class And(Expression):
    """Three-valued AND of two or more."""

    parts: tuple[Expression, ...]

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.parts


@dataclass(frozen=True)
class Or(Expression):
    """Three-valued OR of two or more."""

    parts: tuple[Expression, ...]

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.parts


@dataclass(frozen=True)
class Not(Expression):
    """Three-valued NOT."""

    operand: Expression

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Like(Expression):
    """`operand LIKE pattern`: `%` is any text, `_` one character, after `escape` both are literal."""

    operand: Expression
    pattern: str
    escape: str | None = None
    ignore_case: bool = False

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class StartsWith(Expression):
    """Whether a string or binary operand starts with `prefix`; `LIKE 'abc%'` is parsed to this."""

    operand: Expression
    prefix: str | bytes

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Cast(Expression):
    """`CAST(operand AS data_type)`; a value that does not fit is an error, or null with `try_cast`."""

    operand: Expression
    data_type: pa.DataType
    try_cast: bool = False

    @property
    def type(self) -> pa.DataType:
        return self.data_type

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Case(Expression):
    """`CASE WHEN condition THEN value ... ELSE otherwise END`; all values have one type."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression

    @property
    def type(self) -> pa.DataType:
        return self.otherwise.type

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (*(node for branch in self.branches for node in branch), self.otherwise)


@dataclass(frozen=True)
class Call(Expression):
    """Any other function or operator, by its name in the function table (`functions/registry.py`)."""

    function: str
    arguments: tuple[Expression, ...]
    data_type: pa.DataType

    @property
    def type(self) -> pa.DataType:
        return self.data_type

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.arguments


@dataclass(frozen=True, eq=False)
class ArrowExpression(Expression):
    """A `pyarrow.compute.Expression` of a caller: evaluated by Arrow, with Arrow's semantics.

    `paths` are the columns it names.
    """

    expression: pc.Expression
    paths: tuple[Path, ...]
    data_type: pa.DataType

    @property
    def type(self) -> pa.DataType:
        return self.data_type


def walk(expression: Expression) -> Iterator[Expression]:
    """All nodes, parents before children, from left to right."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.operands))


def columns(expression: Expression) -> tuple[Path, ...]:
    """Distinct paths of the columns that an expression reads, in order of appearance."""
    found: dict[Path, None] = {}
    for node in walk(expression):
        if isinstance(node, Column):
            found[node.path] = None
        elif isinstance(node, ArrowExpression):
            found.update(dict.fromkeys(node.paths))
    return tuple(found)


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """Return the conditions that all have to hold: the parts of a top-level AND, or the expression alone."""
    return expression.operands if isinstance(expression, And) else (expression,)
