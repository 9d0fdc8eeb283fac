"""Reader of parsed SQL, which turns the nodes of sqlglot's tree into our nodes by an allow-list.

Everything else is refused: statements, sub-queries, aggregates, and functions outside the table of
`functions`. A node with a part that its method does not know is refused, too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from lance_core.errors import InvalidInputError
from lance_core.expressions import builders
from lance_core.expressions.arithmetic import arithmetic, negative
from lance_core.expressions.coercion import common_type, is_string, is_time
from lance_core.expressions.column_names import as_compared, child_type, resolve_column
from lance_core.expressions.evaluate import folded
from lance_core.expressions.functions import call
from lance_core.expressions.parsing.arrow_type_names import arrow_type
from lance_core.expressions.parsing.long_lists import fitted, list_number
from lance_core.expressions.sql_types import parse_interval, sql_type
from lance_core.expressions.tree import Column, Expression, IsIn, Literal
from lance_core.schema.arrow_values import array_of, scalar_of

COMPARISONS: dict[Any, str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
"""Operators of comparisons, by the nodes of sqlglot."""

_ARITHMETIC: dict[Any, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}


def _chain(node: Any) -> Iterator[Any]:
    """Yield the operands of a chain of one operator, AND or OR, from left to right."""
    stack = [node]
    while stack:
        current = stack.pop()
        if type(current) is type(node):
            stack += [current.expression, current.this]
        else:
            yield current


class Reader:
    """Reader of one parsed expression on one schema."""

    def __init__(
        self,
        schema: pa.Schema,
        lists: Sequence[pa.Array] = (),
        constants: Sequence[str] | None = None,
        *,
        checked: bool = False,
        repeatable: bool = False,
    ) -> None:
        """Prepare to read an expression on rows of `schema`, whose long lists are `lists`.

        If the expression is a shape, its literals are numbers of `constants`.
        With `checked`, an integer overflow is an error when the expression is evaluated; otherwise integers
        wrap around. With `repeatable`, functions of the current time are refused.
        """
        self.schema = schema
        self._lists = lists
        self._constants = constants
        self._checked = checked
        self._now_ns = None if repeatable else time.time_ns()

    def read(self, node: Any, *, top: bool = False, column: Column | None = None) -> Expression:
        """Return the node for a node of sqlglot.

        Args:
            node: node of sqlglot's tree.
            top: whether only AND and OR are above the node. There the reference requires literals that fit
                the column beside them.
            column: column beside the node, in whose type literals must be; None without one.
        """
        reader, known = _READERS.get(type(node), (None, frozenset()))
        if reader is None or not known.issuperset([name for name, value in node.args.items() if value]):
            raise _unsupported(node)
        return folded(reader(self, node, top, column))

    def condition(self, node: Any, *, top: bool = False) -> Expression:
        """Return the node as an operand of AND, OR or NOT.

        There `regexp_match` means whether there is a match.
        """
        found = self.read(node, top=top)
        if isinstance(node, exp.Anonymous) and str(node.this).lower() == "regexp_match":
            return builders.is_true(found, True)
        return found

    def _and(self, node: exp.And, top: bool, column: Column | None) -> Expression:
        return builders.conjunction([self.condition(part, top=top) for part in _chain(node)])

    def _or(self, node: exp.Or, top: bool, column: Column | None) -> Expression:
        return builders.disjunction([self.condition(part, top=top) for part in _chain(node)])

    def _not(self, node: exp.Not, top: bool, column: Column | None) -> Expression:
        # sqlglot parses NOT IN and NOT BETWEEN as NOT over IN and BETWEEN.
        negated = top and isinstance(node.this, (exp.In, exp.Between))
        return builders.negation(self.condition(node.this, top=negated))

    def _paren(self, node: exp.Paren, top: bool, column: Column | None) -> Expression:
        return self.read(node.this, top=top, column=column)

    def _sides(self, node: Any, top: bool, column: Column | None) -> tuple[Expression, Expression]:
        """Return both operands of an operator, with literals in the type of the column that the reference
        chooses.
        """
        if column is not None:
            return self.read(node.this, column=column), self.read(node.expression, column=column)
        left = self.read(node.this)
        # A literal in an operand with other columns or calls does not get this type: `i8 < i8 * 2` does not
        # wrap around.
        beyond = node.expression
        constant = isinstance(beyond, exp.Literal) or beyond.find(exp.Column, exp.Func) is None
        beside = left if top and constant and isinstance(left, Column) else None
        right = self.read(node.expression, column=beside)
        if top and beside is None and isinstance(right, Column) and _is_literal(node.this):
            left = builders.in_type_of_column(left, right)
        return left, right

    def _comparison(self, node: Any, top: bool, column: Column | None) -> Expression:
        constant = node.expression
        if isinstance(constant, exp.Literal) and isinstance(node.this, exp.Column):
            left = self.read(node.this)
            op, text = COMPARISONS[type(node)], self._text(constant)
            plain = builders.plain_comparison(op, left, text, is_text=constant.is_string)
            if plain is not None:
                return plain
        # The literals of a comparison do not get the type of a boolean column beside the comparison.
        return builders.comparison(COMPARISONS[type(node)], *self._sides(node, top, None))

    def _between(self, node: exp.Between, top: bool, column: Column | None) -> Expression:
        operand = self.read(node.this)
        beside = operand if top and isinstance(operand, Column) else None
        low, high = (self.read(node.args[side], column=beside) for side in ("low", "high"))
        return builders.between(operand, low, high)

    def _in(self, node: exp.In, top: bool, column: Column | None) -> Expression:
        if not node.expressions:
            raise InvalidInputError(f"{_shown(node)} has no values to look for")
        operand = self.read(node.this)
        if self._lists and isinstance(operand, Column) and len(node.expressions) == 1:
            only = node.expressions[0]
            number = list_number(self._text(only)) if isinstance(only, exp.Literal) else None
            if number is not None:
                return IsIn(operand, fitted(self._lists[number], operand.type), False)
        beside = operand if top and isinstance(operand, Column) and len(operand.path) == 1 else None
        return builders.is_in(operand, [self.read(value, column=beside) for value in node.expressions])

    def _is(self, node: exp.Is, top: bool, column: Column | None) -> Expression:
        operand = self.read(node.this)
        if isinstance(node.expression, exp.Null):
            return builders.is_null(operand)
        if isinstance(node.expression, exp.Boolean):
            return builders.is_true(operand, bool(node.expression.this))
        raise _unsupported(node)

    def _distinct(self, node: Any, top: bool, column: Column | None) -> Expression:
        distinct = builders.distinct_from(*self._sides(node, top, column))
        return distinct if isinstance(node, exp.NullSafeNEQ) else builders.negation(distinct)

    def _like(self, node: Any, top: bool, column: Column | None) -> Expression:
        escape = None
        if isinstance(node, exp.Escape):
            escape, node = node.expression.name, node.this
            if not isinstance(node, (exp.Like, exp.ILike)) or len(escape) != 1:
                raise InvalidInputError("ESCAPE goes with LIKE and takes one character")
        operand, pattern = self.read(node.this), self.read(node.expression)
        found = builders.like(operand, pattern, escape, ignore_case=isinstance(node, exp.ILike))
        return builders.negation(found) if node.args.get("negate") else found

    def _column(self, node: exp.Column, top: bool, column: Column | None) -> Expression:
        parts = node.parts
        if not all(isinstance(part, exp.Identifier) for part in parts):
            raise InvalidInputError(f"{_shown(node)} is not the name of a column")
        exact = len(parts) == 1 and bool(parts[0].args.get("quoted"))
        names = [part.this for part in parts]
        if not exact and names[0].lower() in _BARE_CLOCKS and names[0] not in self.schema.names:
            return self._clock(names[0].lower())
        return as_compared(resolve_column(names, self.schema, exact=exact))

    def _clock(self, name: str) -> Literal:
        """Return the current time in UTC, or its date. It is the same everywhere in one expression."""
        if self._now_ns is None:
            raise InvalidInputError(
                f"{name}() cannot be used here: the same text must always mean the same rows; "
                "write the date or time instead"
            )
        now = pa.scalar(self._now_ns, pa.timestamp("ns"))
        return Literal(now.cast(pa.date32(), safe=False) if _CLOCKS[name] == pa.date32() else now)

    def _text(self, node: exp.Literal) -> str:
        """Return the characters of a literal."""
        text: str = node.this
        return text if self._constants is None else self._constants[int(text)]

    def _literal(self, node: exp.Literal, top: bool, column: Column | None) -> Expression:
        text = self._text(node)
        value = builders.literal(text, pa.string()) if node.is_string else _number(text)
        return builders.in_type_of_column(value, column) if column is not None else value

    def _constant(self, node: Any, top: bool, column: Column | None) -> Expression:
        value = builders.literal(None) if isinstance(node, exp.Null) else builders.literal(bool(node.this))
        return builders.in_type_of_column(value, column) if column is not None else value

    def _hex(self, node: exp.HexString, top: bool, column: Column | None) -> Expression:
        try:
            digits = node.this
            value = builders.literal(bytes.fromhex("0" * (len(digits) % 2) + digits))
        except ValueError:
            raise InvalidInputError(f"x'{node.this}' has characters that are no hexadecimal digits") from None
        return builders.in_type_of_column(value, column) if column is not None else value

    def _negative(self, node: exp.Neg, top: bool, column: Column | None) -> Expression:
        if not isinstance(node.this, exp.Literal) or node.this.is_string:
            return negative(self.read(node.this), checked=self._checked)
        value = _number("-" + self._text(node.this))
        return builders.in_type_of_column(value, column) if column is not None else value

    def _arithmetic(self, node: Any, top: bool, column: Column | None) -> Expression:
        left, right = self._sides(node, top, column)
        if top:
            left, right = builders.in_type_of_factor(left, right), builders.in_type_of_factor(right, left)
        return arithmetic(_ARITHMETIC[type(node)], left, right, checked=self._checked)

    def _join(self, node: exp.DPipe, top: bool, column: Column | None) -> Expression:
        return call("||", [self.read(node.this), self.read(node.expression)])

    def _case(self, node: exp.Case, top: bool, column: Column | None) -> Expression:
        subject = None if node.this is None else self.read(node.this)
        branches = []
        for branch in node.args["ifs"]:
            condition = self.read(branch.this)
            if subject is not None:
                condition = builders.comparison("=", subject, condition)
            branches.append((condition, self.read(branch.args["true"])))
        default = node.args.get("default")
        return builders.case(branches, builders.literal(None) if default is None else self.read(default))

    def _cast(self, node: Any, top: bool, column: Column | None) -> Expression:
        operand, data_type = self.read(node.this), sql_type(node.to)
        is_plain = is_time(data_type) and not node.to.expressions and not isinstance(node, exp.TryCast)
        if is_plain and isinstance(operand, Literal) and is_string(operand.type):
            return builders.time_literal(operand, data_type)  # `timestamp '...'` without a unit
        return builders.cast(operand, data_type, try_cast=isinstance(node, exp.TryCast))

    def _interval(self, node: exp.Interval, top: bool, column: Column | None) -> Expression:
        if not isinstance(node.this, exp.Literal) or not isinstance(
            node.args.get("unit"), (exp.Var, type(None))
        ):
            raise _unsupported(node)
        parts = [node.this.name, node.unit.name if node.unit else ""]
        return builders.literal(parse_interval(" ".join(parts)))

    def _array(self, node: exp.Array, top: bool, column: Column | None) -> Expression:
        value = _array_of([self.read(element) for element in node.expressions])
        return builders.in_type_of_column(value, column) if column is not None else value

    def _bracket(self, node: exp.Bracket, top: bool, column: Column | None) -> Expression:
        if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
            raise InvalidInputError(f"{_shown(node)} is not supported: one index or name goes in brackets")
        operand, index = self.read(node.this), self.read(node.expressions[0])
        if isinstance(index, Literal) and is_string(index.type):
            return _child(operand, index.value.as_py())
        return call("array_element", [operand, index])

    def _dot(self, node: exp.Dot, top: bool, column: Column | None) -> Expression:
        if not isinstance(node.expression, exp.Identifier):
            raise _unsupported(node)
        return _child(self.read(node.this), node.expression.this)

    def _function(self, node: exp.Anonymous, top: bool, column: Column | None) -> Expression:
        if not isinstance(node.this, str):
            raise _unsupported(node)
        name = node.this.lower()
        arguments = [self.read(argument) for argument in node.expressions]
        if name in ("make_array", "array"):
            return _array_of(arguments)
        if name == "arrow_cast":
            return _arrow_cast(arguments)
        if name == "is_valid" and len(arguments) == 1:
            return builders.negation(builders.is_null(arguments[0]))
        if name == "starts_with" and len(arguments) == 2:
            return builders.starts_with(*arguments)
        if name in _CLOCKS and not arguments:
            return self._clock(name)
        if name == "pi" and not arguments:
            return builders.literal(math.pi)
        if name == "regexp_match":
            # The reference returns the list of groups, or null without a match. Here the result is true or
            # null.
            return call("nullif", [call("regexp_like", arguments), builders.literal(False)])
        return call(name, arguments)

    def _extract(self, node: exp.Extract, top: bool, column: Column | None) -> Expression:
        return call("date_part", [builders.literal(node.this.name), self.read(node.expression)])

    def _substring(self, node: exp.Substring, top: bool, column: Column | None) -> Expression:
        given = [node.args.get(part) for part in ("start", "length")]
        start = self.read(given[0]) if given[0] is not None else builders.literal(1)
        length = [self.read(given[1])] if given[1] is not None else []
        return call("substr", [self.read(node.this), start, *length])

    def _trim(self, node: exp.Trim, top: bool, column: Column | None) -> Expression:
        characters = [self.read(node.expression)] if node.args.get("expression") is not None else []
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")).upper(), "btrim")
        return call(name, [self.read(node.this), *characters])

    def _position(self, node: exp.StrPosition, top: bool, column: Column | None) -> Expression:
        return call("strpos", [self.read(node.this), self.read(node.args["substr"])])


_CLOCKS = {
    "current_date": pa.date32(),
    "today": pa.date32(),
    "current_timestamp": pa.timestamp("ns"),
    "now": pa.timestamp("ns"),
}
"""Functions of the current time, and their types."""
_BARE_CLOCKS = {"current_date", "current_timestamp"}
"""Functions that SQL writes without parentheses."""


def _child(operand: Expression, name: str) -> Expression:
    if isinstance(operand, Column):
        return Column((*operand.path, name), child_type(operand.path, operand.type, name))
    return call("get_field", [operand, builders.literal(name)])


def _arrow_cast(arguments: list[Expression]) -> Expression:
    """Return the first argument in the Arrow type that the second one names."""
    if len(arguments) != 2:
        raise InvalidInputError(f"arrow_cast takes 2 arguments, not {len(arguments)}")
    operand, name = arguments
    if not isinstance(name, Literal) or not is_string(name.type):
        raise InvalidInputError("arrow_cast takes the name of a type as text in quotes")
    data_type = arrow_type(name.value.as_py())
    if pa.types.is_date(operand.type) and pa.types.is_timestamp(data_type):
        # The midnight in the zone that is named. Beside times, a date is its midnight in UTC.
        operand = builders.cast(operand, pa.timestamp(data_type.unit))
    return builders.cast(operand, data_type)


def _array_of(values: list[Expression]) -> Literal:
    """Return a literal list of constants in their common type."""
    constants = [value.value for value in values if isinstance(value, Literal)]
    if len(constants) < len(values):
        raise InvalidInputError("a list in an expression holds constants only")
    common = pa.null()
    for constant in constants:
        wider = common_type(common, constant.type)
        if wider is None:
            raise InvalidInputError(f"a list cannot hold values of types {common} and {constant.type}")
        common = wider
    try:
        typed = [pa.repeat(constant.cast(common), 1) for constant in constants]
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"a list cannot hold these values: {error}") from None
    items = pa.concat_arrays(typed or [pa.nulls(0, common)])
    return Literal(pa.ListArray.from_arrays(array_of(np.array([0, len(items)], np.int32)), items)[0])


def _is_literal(node: Any) -> bool:
    inner = node.this if isinstance(node, exp.Neg) else node
    return isinstance(inner, (exp.Literal, exp.Boolean, exp.Null, exp.HexString))


def _number(text: str) -> Literal:
    """Return an integer of 64 bits, signed if possible; a double if it does not fit or has a fraction."""
    try:
        integer = int(text)
    except ValueError:
        try:
            return Literal(scalar_of(float(text)), Decimal(text))
        except (ValueError, InvalidOperation):
            raise InvalidInputError(f"{text!r} is not a number") from None
    if -(2**63) <= integer < 2**63:
        return builders.literal(integer, pa.int64())
    if 0 <= integer < 2**64:
        return builders.literal(integer, pa.uint64())
    return Literal(scalar_of(float(text)), Decimal(text))


def _unsupported(node: Any) -> InvalidInputError:
    return InvalidInputError(f"{_shown(node)} is not supported in an expression")


def _shown(node: Any) -> str:
    """Return a part of the SQL text for a message, or its kind if the text is long or cannot be printed."""
    try:
        text = node.sql()
    except Exception:  # sqlglot cannot print every node that it parses
        text = ""
    return repr(text) if 0 < len(text) <= 60 else type(node).__name__


_Method = Callable[[Reader, Any, bool, Column | None], Expression]
_BINARY = "this expression"
_PARTS: dict[Any, tuple[_Method, str]] = {
    exp.And: (Reader._and, _BINARY),
    exp.Or: (Reader._or, _BINARY),
    exp.Not: (Reader._not, "this"),
    exp.Paren: (Reader._paren, "this"),
    **dict.fromkeys(COMPARISONS, (Reader._comparison, _BINARY)),
    **dict.fromkeys(_ARITHMETIC, (Reader._arithmetic, _BINARY)),
    exp.Neg: (Reader._negative, "this"),
    exp.DPipe: (Reader._join, f"{_BINARY} safe"),
    exp.Between: (Reader._between, "this low high"),
    exp.In: (Reader._in, "this expressions"),
    exp.Is: (Reader._is, _BINARY),
    exp.NullSafeEQ: (Reader._distinct, _BINARY),
    exp.NullSafeNEQ: (Reader._distinct, _BINARY),
    exp.Like: (Reader._like, f"{_BINARY} negate"),
    exp.ILike: (Reader._like, f"{_BINARY} negate"),
    exp.Escape: (Reader._like, _BINARY),
    exp.Column: (Reader._column, "this table db catalog"),
    exp.Dot: (Reader._dot, _BINARY),
    exp.Bracket: (Reader._bracket, "this expressions"),
    exp.Literal: (Reader._literal, "this is_string"),
    exp.Null: (Reader._constant, ""),
    exp.Boolean: (Reader._constant, "this"),
    exp.HexString: (Reader._hex, "this is_integer"),
    exp.Interval: (Reader._interval, "this unit"),
    exp.Array: (Reader._array, "expressions"),
    exp.Case: (Reader._case, "this ifs default"),
    exp.Cast: (Reader._cast, "this to"),
    exp.TryCast: (Reader._cast, "this to safe"),
    exp.Anonymous: (Reader._function, "this expressions"),
    exp.Extract: (Reader._extract, _BINARY),
    exp.Substring: (Reader._substring, "this start length"),
    exp.Trim: (Reader._trim, f"{_BINARY} position"),
    exp.StrPosition: (Reader._position, "this substr"),
}
"""Method for each kind of node, and the parts of the node that it reads."""

_READERS: dict[Any, tuple[_Method | None, frozenset[str]]] = {
    kind: (method, frozenset(parts.split())) for kind, (method, parts) in _PARTS.items()
}
"""Methods with the parts as a set. A node with other parts is refused."""
