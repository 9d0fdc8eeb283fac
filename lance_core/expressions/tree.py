"""Expression trees: filters and computed columns whose names and types are resolved.

All parsers (SQL text, Substrait, Arrow expressions of callers) make such a tree. The evaluation and the
pruning read it. Nodes are frozen and hashable, and know their Arrow type. The operands of a comparison have
the same type, except that a dictionary column stands for its values. Nothing here recurses, so a deep tree
cannot exhaust the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lance_core.process.derived import Derived

if TYPE_CHECKING:
    import pyarrow.compute as pc

Path = tuple[str, ...]
"""Name of a top-level column, followed by the names of struct children."""


class Expression:
    """Node of an expression tree."""

    @property
    def type(self) -> pa.DataType:
        """Arrow type of the values, by default boolean."""
        return pa.bool_()

    @property
    def operands(self) -> tuple[Expression, ...]:
        """Nodes directly below, in the order of the text."""
        return ()


@dataclass(frozen=True)
class Column(Expression):
    """Column or child of a struct column, with the names of the schema, whatever case the text used."""

    path: Path
    data_type: pa.DataType = field(hash=False)  # extension types of Python have no hash

    @property
    def type(self) -> pa.DataType:
        return self.data_type


@dataclass(frozen=True)
class StoredJson(Column):
    """JSON column that is read as it is stored: as binary JSON (large_binary) instead of text."""


@dataclass(frozen=True)
class Literal(Expression):
    """Constant. A null has a type, too."""

    value: pa.Scalar
    written: Decimal | None = None
    """Exact number as it was written, if it has a fraction or is too large for an integer: a double cannot
    hold it exactly, but a decimal or integer column beside it can. For a time with digits finer than its
    unit, the seconds since 1970 or midnight.
    """

    @property
    def type(self) -> pa.DataType:
        return self.value.type


@dataclass(frozen=True)
class Comparison(Expression):
    """Comparison `left op right`, null if either side is null; `op` is one of `= != < <= > >=`.

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
    """Condition `left IS DISTINCT FROM right`. It is never null, and two nulls are not distinct."""

    left: Expression
    right: Expression

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, eq=False)
class IsIn(Expression):
    """Condition `operand IN (values)`. `NOT IN` is `Not(IsIn(...))`.

    `values` has the type of the operand and no nulls. `has_null` says that the list contained a null, so an
    operand that is not found gives null instead of false.
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
        # Caches hold many lists of one length. Three values tell them apart without reading the whole list.
        # Equal half floats, 0.0 and -0.0, have different hashes in Arrow.
        count = len(self.values)
        places = {0, count // 2, count - 1} if count and self.values.type != pa.float16() else ()
        return hash((self.operand, count, self.has_null, *(self.values[place] for place in places)))


@dataclass(frozen=True)
class IsNull(Expression):
    """Condition `operand IS NULL`, which is never null itself."""

    operand: Expression

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class And(Expression):
    """Three-valued AND of two or more conditions."""

    parts: tuple[Expression, ...]

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.parts


@dataclass(frozen=True)
class Or(Expression):
    """Three-valued OR of two or more conditions."""

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
    """Condition `operand LIKE pattern`: `%` is any text, `_` one character; after `escape` both
    are literal.
    """

    operand: Expression
    pattern: str
    escape: str | None = None
    ignore_case: bool = False

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class StartsWith(Expression):
    """Condition that a string or binary operand starts with `prefix`; `LIKE 'abc%'` becomes this node."""

    operand: Expression
    prefix: str | bytes

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Cast(Expression):
    """Cast `CAST(operand AS data_type)`. A value that does not fit is an error, or null with `try_cast`."""

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
    """Choice `CASE WHEN condition THEN value ... ELSE otherwise END`. All values have one type."""

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
    """Call of any other function or operator, by its name in the function table (`functions/registry.py`)."""

    function: str
    arguments: tuple[Expression, ...]
    data_type: pa.DataType = field(hash=False)

    @property
    def type(self) -> pa.DataType:
        return self.data_type

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.arguments


@dataclass(frozen=True, eq=False)
class ArrowExpression(Expression):
    """`pyarrow.compute.Expression` of a caller, evaluated by Arrow with Arrow's semantics.

    `paths` are the columns that it names.
    """

    expression: pc.Expression
    paths: tuple[Path, ...]
    data_type: pa.DataType

    @property
    def type(self) -> pa.DataType:
        return self.data_type


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield all nodes, parents before children, from left to right."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        operands = node.operands
        if operands:
            stack += operands[::-1]


class _Reads(NamedTuple):
    """Columns that an expression reads, and in which form.

    Attributes:
        paths: The distinct paths of its columns, in order of appearance.
        stored_json: The top-level columns among them that are read as stored JSON.
        others: The top-level columns that are read in another form.
    """

    paths: tuple[Path, ...]
    stored_json: frozenset[str]
    others: frozenset[str]


def _reads(expression: Expression) -> _Reads:
    paths: dict[Path, None] = {}
    stored_json, others = set[str](), set[str]()
    if isinstance(expression, And) and not any(isinstance(part, And) for part in expression.parts):
        for part in map(_reads_of.of, expression.parts):  # these are asked for, too
            paths.update(dict.fromkeys(part.paths))
            stored_json |= part.stored_json
            others |= part.others
        return _Reads(tuple(paths), frozenset(stored_json), frozenset(others))
    for node in walk(expression):
        if isinstance(node, Column):
            paths[node.path] = None
            (stored_json if isinstance(node, StoredJson) else others).add(node.path[0])
        elif isinstance(node, ArrowExpression):
            paths.update(dict.fromkeys(node.paths))
            others.update([path[0] for path in node.paths])
    return _Reads(tuple(paths), frozenset(stored_json), frozenset(others))


# Planning, pruning and filtering all ask for the columns of the same trees.
_reads_of: Derived[Expression, _Reads] = Derived(_reads)


def columns(expression: Expression) -> tuple[Path, ...]:
    """Return the distinct paths of the columns that an expression reads, in order of appearance."""
    return _reads_of.of(expression).paths


def stored_only(*expressions: Expression) -> frozenset[str]:
    """Return the names of the top-level columns that expressions read only as stored JSON."""
    reads = [_reads_of.of(expression) for expression in expressions]
    stored_json = frozenset[str]().union(*[one.stored_json for one in reads])
    return stored_json.difference(*[one.others for one in reads]) if stored_json else stored_json


def read_alike(expression: Expression, model: Expression) -> None:
    """Let `columns` and `stored_only` know of a new expression that it reads what another one reads."""
    _reads_of.keep(expression, _reads_of.of(model))


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """Return the conditions that all must hold: the operands of a top-level AND, or the expression itself."""
    return expression.operands if isinstance(expression, And) else (expression,)


def with_columns(expression: Expression, replacement: Callable[[Column], Expression]) -> Expression:
    """Return the expression with a replacement for each column; an `ArrowExpression` keeps its columns."""
    made: dict[int, Expression] = {}

    def replaced(value: object) -> object:
        if isinstance(value, Expression):
            return made[id(value)]
        return tuple(map(replaced, value)) if isinstance(value, tuple) else value

    for node in reversed(tuple(walk(expression))):  # operands before the nodes that have them
        if isinstance(node, Column):
            made[id(node)] = replacement(node)
        else:
            assert is_dataclass(node)
            values = {each.name: replaced(getattr(node, each.name)) for each in fields(node)}
            made[id(node)] = replace(node, **values)
    return made[id(expression)]
