"""SQL text to expression trees, in the dialect of the reference's filters.

sqlglot reads the text; this module walks its tree by an allow-list, so that nothing gets through that is not
meant: no statements, sub-queries, aggregates or functions outside the table in `functions.py`. Backticks
quote names, single and double quotes make strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pyarrow as pa
from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError

from lance_core.errors import InvalidInputError
from lance_core.scan.expressions import build
from lance_core.scan.expressions.limits import MAX_TEXT, check_limits, check_size
from lance_core.scan.expressions.names import resolve_column
from lance_core.scan.expressions.tree import Column, Expression, Literal


class _Lance(Dialect):
    """What sqlglot has to know of the dialect; every function call stays a name with arguments."""

    class Tokenizer(tokens.Tokenizer):
        QUOTES: ClassVar = ["'", '"']
        IDENTIFIERS: ClassVar = ["`"]
        STRING_ESCAPES: ClassVar = ["'", '"']
        HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'")]

    class Parser(parser.Parser):
        FUNCTIONS: ClassVar = {}
        NO_PAREN_FUNCTIONS: ClassVar = {}
        FUNCTION_PARSERS: ClassVar = {
            name: parser.Parser.FUNCTION_PARSERS[name]
            for name in ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")
        }


_DIALECT = _Lance()

_COMPARISONS: dict[Any, str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


def parse_filter(text: str, schema: pa.Schema) -> Expression:
    """The condition that a text means on rows of `schema`.

    Raises:
        InvalidInputError: the text is no condition; the message names the token, column or limit.
    """
    parsed = _parse(text, schema)
    if not pa.types.is_boolean(parsed.type):
        raise InvalidInputError(f"the filter is not a condition: its type is {parsed.type}")
    return parsed


def parse_expression(text: str, schema: pa.Schema) -> Expression:
    """The value that a text means on rows of `schema`; a text that is the name of a column means that column.

    Raises:
        InvalidInputError: the text is no expression; the message names the token, column or limit.
    """
    if text in schema.names:
        return resolve_column((text,), schema)
    return _parse(text, schema)


def _parse(text: str, schema: pa.Schema) -> Expression:
    if len(text) > MAX_TEXT:
        raise InvalidInputError(f"the expression has {len(text)} characters, at most {MAX_TEXT} are allowed")
    try:
        words = _DIALECT.tokenize(text)
        parsed = _DIALECT.parser().parse_into(exp.Condition, words, text)
    except ParseError as error:
        raise InvalidInputError(_syntax_error(error)) from None
    except TokenError:
        raise InvalidInputError("the expression has a quote or comment without an end") from None
    except RecursionError:
        raise InvalidInputError("the expression is nested too deeply") from None
    if len(parsed) != 1 or parsed[0] is None:
        raise InvalidInputError(
            "the expression is empty" if not words else "there is more than one expression"
        )
    _check_size(parsed[0])
    return check_limits(_Reader(schema).read(parsed[0], top=True))


def _syntax_error(error: ParseError) -> str:
    found = error.errors[0] if error.errors else {}
    if not found.get("highlight"):
        return "the expression ends too early"
    token, place = found["highlight"], f"line {found.get('line')}, column {found.get('col')}"
    if found.get("end_context"):
        return f"the expression makes no sense at {token!r} ({place})"
    return f"the expression makes no sense at its end, {token!r} ({place})"


def _check_size(tree: Any) -> None:
    """Refuse a parsed text that is larger than the reader may walk; chains of AND and OR are one level."""
    nodes = literals = 0
    stack: list[tuple[Any, int]] = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, (exp.Literal, exp.Null, exp.Boolean)):
            literals += 1
        elif isinstance(node, (exp.Column, exp.EQ, exp.Func, exp.Binary, exp.Predicate)):
            nodes += 1
        check_size(depth, nodes, literals)
        flat = isinstance(node, (exp.And, exp.Or))
        for child in node.iter_expressions():
            level = (
                depth if isinstance(child, exp.Paren) or (flat and type(child) is type(node)) else depth + 1
            )
            stack.append((child, level))


def _chain(node: Any) -> Iterator[Any]:
    """The parts of a chain of one operator, AND or OR, from left to right."""
    stack = [node]
    while stack:
        current = stack.pop()
        if type(current) is type(node):
            stack += [current.expression, current.this]
        else:
            yield current


class _Reader:
    """Reads the parsed text of one expression on one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def read(self, node: Any, *, top: bool = False, column: Column | None = None) -> Expression:
        """The node's meaning.

        `top`: only AND and OR lie above, where the reference wants literals that fit the column beside them;
        `column`: that column.
        """
        reader = _READERS.get(type(node))
        if reader is None:
            raise InvalidInputError(f"{_shown(node)} is not supported in an expression")
        return reader(self, node, top, column)

    def _and(self, node: exp.And, top: bool, column: Column | None) -> Expression:
        return build.conjunction([self.read(part, top=top) for part in _chain(node)])

    def _or(self, node: exp.Or, top: bool, column: Column | None) -> Expression:
        return build.disjunction([self.read(part, top=top) for part in _chain(node)])

    def _not(self, node: exp.Not, top: bool, column: Column | None) -> Expression:
        # NOT IN and NOT BETWEEN arrive as NOT over IN and BETWEEN.
        negated = top and isinstance(node.this, (exp.In, exp.Between))
        return build.negation(self.read(node.this, top=negated))

    def _paren(self, node: exp.Paren, top: bool, column: Column | None) -> Expression:
        return self.read(node.this, top=top, column=column)

    def _sides(self, node: Any, top: bool, column: Column | None) -> tuple[Expression, Expression]:
        """Both operands of an operator, with literals in the type of the column that the reference takes."""
        if column is not None:
            return self.read(node.this, column=column), self.read(node.expression, column=column)
        left = self.read(node.this)
        beside = left if top and isinstance(left, Column) else None
        right = self.read(node.expression, column=beside)
        if top and beside is None and isinstance(right, Column) and _is_literal(node.this):
            left = build.in_type_of_column(left, right)
        return left, right

    def _comparison(self, node: Any, top: bool, column: Column | None) -> Expression:
        return build.comparison(_COMPARISONS[type(node)], *self._sides(node, top, column))

    def _between(self, node: exp.Between, top: bool, column: Column | None) -> Expression:
        operand = self.read(node.this)
        beside = operand if top and isinstance(operand, Column) else None
        low, high = (self.read(node.args[side], column=beside) for side in ("low", "high"))
        return build.between(operand, low, high)

    def _in(self, node: exp.In, top: bool, column: Column | None) -> Expression:
        if any(node.args.get(kind) is not None for kind in ("query", "unnest", "field")):
            raise InvalidInputError(f"{_shown(node)} is not supported: IN takes a list of values")
        operand = self.read(node.this)
        beside = operand if top and isinstance(operand, Column) and len(operand.path) == 1 else None
        return build.is_in(operand, [self.read(value, column=beside) for value in node.expressions])

    def _is(self, node: exp.Is, top: bool, column: Column | None) -> Expression:
        operand = self.read(node.this)
        if isinstance(node.expression, exp.Null):
            return build.is_null(operand)
        if isinstance(node.expression, exp.Boolean):
            return build.is_true(operand, bool(node.expression.this))
        raise InvalidInputError(f"{_shown(node)} is not supported in an expression")

    def _distinct(self, node: Any, top: bool, column: Column | None) -> Expression:
        distinct = build.distinct_from(self.read(node.this), self.read(node.expression))
        return distinct if isinstance(node, exp.NullSafeNEQ) else build.negation(distinct)

    def _like(self, node: Any, top: bool, column: Column | None) -> Expression:
        escape = None
        if isinstance(node, exp.Escape):
            escape, node = node.expression.this, node.this
        if not isinstance(node, (exp.Like, exp.ILike)):
            raise InvalidInputError(f"{_shown(node)} is not supported in an expression")
        operand, pattern = self.read(node.this), self.read(node.expression)
        like = build.like(operand, pattern, escape, ignore_case=isinstance(node, exp.ILike))
        # NOT LIKE is a LIKE with a mark, where other negations are nodes of their own.
        return build.negation(like) if node.args.get("negate") else like

    def _column(self, node: exp.Column, top: bool, column: Column | None) -> Expression:
        parts = node.parts
        if not all(isinstance(part, exp.Identifier) for part in parts):
            raise InvalidInputError(f"{_shown(node)} is not the name of a column")
        exact = len(parts) == 1 and bool(parts[0].args.get("quoted"))
        return resolve_column([part.this for part in parts], self.schema, exact=exact)

    def _literal(self, node: exp.Literal, top: bool, column: Column | None) -> Expression:
        value = build.literal(node.this, pa.string()) if node.is_string else _number(node.this)
        return build.in_type_of_column(value, column) if column is not None else value

    def _constant(self, node: Any, top: bool, column: Column | None) -> Expression:
        value = build.literal(None) if isinstance(node, exp.Null) else build.literal(bool(node.this))
        return build.in_type_of_column(value, column) if column is not None else value

    def _hex(self, node: exp.HexString, top: bool, column: Column | None) -> Expression:
        try:
            digits = node.this
            value = build.literal(bytes.fromhex("0" * (len(digits) % 2) + digits))
        except ValueError:
            raise InvalidInputError(f"x'{node.this}' has characters that are no hexadecimal digits") from None
        return build.in_type_of_column(value, column) if column is not None else value

    def _negative(self, node: exp.Neg, top: bool, column: Column | None) -> Expression:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            value = _number("-" + node.this.this)
            return build.in_type_of_column(value, column) if column is not None else value
        raise InvalidInputError(f"{_shown(node)} is not supported in an expression")


def _is_literal(node: Any) -> bool:
    inner = node.this if isinstance(node, exp.Neg) else node
    return isinstance(inner, (exp.Literal, exp.Boolean, exp.Null, exp.HexString))


def _number(text: str) -> Literal:
    """An integer of 64 bits, signed if possible, or else a double."""
    try:
        integer = int(text)
    except ValueError:
        try:
            return build.literal(float(text))
        except ValueError:
            raise InvalidInputError(f"{text!r} is not a number") from None
    if -(2**63) <= integer < 2**63:
        return build.literal(integer, pa.int64())
    if 0 <= integer < 2**64:
        return build.literal(integer, pa.uint64())
    return build.literal(float(text))


def _shown(node: Any) -> str:
    """A part of the text for a message, or its kind where it is long or cannot be shown."""
    try:
        text = node.sql()
    except Exception:  # sqlglot cannot print everything that it reads
        text = ""
    return repr(text) if 0 < len(text) <= 60 else type(node).__name__


_READERS: dict[Any, Callable[[_Reader, Any, bool, Column | None], Expression]] = {
    exp.And: _Reader._and,
    exp.Or: _Reader._or,
    exp.Not: _Reader._not,
    exp.Paren: _Reader._paren,
    **dict.fromkeys(_COMPARISONS, _Reader._comparison),
    exp.Between: _Reader._between,
    exp.In: _Reader._in,
    exp.Is: _Reader._is,
    exp.NullSafeEQ: _Reader._distinct,
    exp.NullSafeNEQ: _Reader._distinct,
    exp.Like: _Reader._like,
    exp.ILike: _Reader._like,
    exp.Escape: _Reader._like,
    exp.Column: _Reader._column,
    exp.Literal: _Reader._literal,
    exp.Null: _Reader._constant,
    exp.Boolean: _Reader._constant,
    exp.HexString: _Reader._hex,
    exp.Neg: _Reader._negative,
}
