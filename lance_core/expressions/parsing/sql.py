"""Parser of SQL text to expression trees, in the dialect of the reference's filters.

sqlglot parses the text, and `sql_reader.py` turns the result into nodes. Backticks quote names; single and
double quotes make strings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, ClassVar

import pyarrow as pa
from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import TokenType

from lance_core.errors import InvalidInputError
from lance_core.expressions.aggregates import AGGREGATE_NAMES, COUNT_DISTINCT, Aggregate, aggregate
from lance_core.expressions.column_names import resolve_column
from lance_core.expressions.parsing.complexity_limits import MAX_LITERALS, MAX_TEXT, check_limits, check_size
from lance_core.expressions.parsing.long_lists import UnfitList, without_lists
from lance_core.expressions.parsing.plain_shapes import keep_shape, with_constants
from lance_core.expressions.parsing.shapes import without_constants
from lance_core.expressions.parsing.sql_reader import Reader
from lance_core.expressions.sql_types import sql_type
from lance_core.expressions.tree import Expression, Literal


class _Lance(Dialect):
    """Dialect for sqlglot, in which every function call is a name with arguments."""

    class Tokenizer(tokens.Tokenizer):
        QUOTES: ClassVar = ["'", '"']
        IDENTIFIERS: ClassVar = ["`"]
        STRING_ESCAPES: ClassVar = ["'", '"']
        HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'")]

    class Parser(parser.Parser):
        FUNCTIONS: ClassVar = {}
        NO_PAREN_FUNCTIONS: ClassVar = {}
        # `a = b IS NULL` means `(a = b) IS NULL`, as in the reference.
        IS_PREDICATE_PRECEDENCE: ClassVar = parser.IsPredicatePrecedence.LOW
        # The JSON arrows are left out, because sqlglot logs warnings about them.
        COLUMN_OPERATORS: ClassVar = {
            token: parser.Parser.COLUMN_OPERATORS[token] for token in (TokenType.DOT, TokenType.DCOLON)
        }
        # Nested types are not supported. Trying to parse them would take time that doubles with each level.
        NESTED_TYPE_TOKENS: ClassVar = set()
        STRUCT_TYPE_TOKENS: ClassVar = set()
        FUNCTION_PARSERS: ClassVar = {
            name: parser.Parser.FUNCTION_PARSERS[name]
            for name in ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")
        }


_DIALECT = _Lance()
_MOST_HINT_CHARACTERS = 1000
"""Maximum characters of a text in which an error message looks for column names."""
_MOST_SHAPES = 256
_SHAPE_NODES = frozenset(
    {
        exp.Column,
        exp.Identifier,
        exp.Literal,
        exp.Null,
        exp.Boolean,
        exp.Neg,
        exp.Paren,
        exp.And,
        exp.Or,
        exp.Not,
    }
    | {exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Is, exp.Like, exp.ILike}
)
"""Nodes that sqlglot makes without looking at the characters of constants."""
_TYPE_TEXT = re.compile(r"[A-Za-z]{1,32}( [A-Za-z]{1,32})?(\([0-9]{1,4}(, ?[0-9]{1,4})?\))?")


def parse_type(text: str) -> pa.DataType:
    """Return the Arrow type of a type name in SQL.

    Raises:
        InvalidInputError: there is no such type.
    """
    if not _TYPE_TEXT.fullmatch(text):
        raise InvalidInputError("not a type", found=text)
    try:
        given = exp.DataType.build(text, dialect=_DIALECT)
    except (ParseError, TokenError, ValueError):
        raise InvalidInputError("not a type", found=text) from None
    return sql_type(given)


def parse_filter(text: str, schema: pa.Schema, *, repeatable: bool = False) -> Expression:
    """Return the condition that a text means on rows of `schema`.

    With `repeatable`, functions of the current time are refused: a text that is parsed again must mean the
    same condition.

    Raises:
        InvalidInputError: the text is not a condition; the message names the token, column or limit.
    """
    parsed = _parse(text, schema, repeatable=repeatable)
    if not pa.types.is_boolean(parsed.type):
        raise InvalidInputError(f"the filter is not a condition: its type is {parsed.type}")
    return parsed


def parse_expression(
    text: str, schema: pa.Schema, *, checked: bool = False, repeatable: bool = False
) -> Expression:
    """Return the value that a text means on rows of `schema`. A text that equals a column name means this
    column.

    With `checked`, an integer overflow is an error when the expression is evaluated; otherwise integers wrap
    around. `repeatable` is that of `parse_filter`.

    Raises:
        InvalidInputError: the text is not an expression; the message names the token, column or limit.
    """
    if text in schema.names:
        return resolve_column((text,), schema)
    return _parse(text, schema, checked=checked, repeatable=repeatable)


def parse_aggregate(text: str, schema: pa.Schema, *, repeatable: bool = False) -> Aggregate:
    """Return the aggregate function that a text means on rows of `schema`, such as `sum(price * amount)`.

    `repeatable` is that of `parse_filter`.

    Raises:
        InvalidInputError: the text is no call of an aggregate function, or its argument is not an expression.
        UnsupportedFeatureError: see `aggregate`.
    """
    call = _tree(text, schema)
    name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
    if name not in AGGREGATE_NAMES:
        known = ", ".join(f"{name}(...)" for name in AGGREGATE_NAMES)
        raise InvalidInputError("not an aggregate function", expected=known, found=text)
    function, arguments = AGGREGATE_NAMES[name], call.expressions
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        if function not in ("count", "min", "max"):
            raise InvalidInputError(f"{function}(DISTINCT ...) is not supported", found=text)
        function = COUNT_DISTINCT if function == "count" else function
        arguments = arguments[0].expressions
    if len(arguments) != 1:
        raise InvalidInputError(f"{name} has one argument", found=text)
    if isinstance(arguments[0], exp.Star) and function == "count":
        return aggregate(function, None)
    value = _bound(arguments[0], schema, repeatable=repeatable)
    if function == "count" and isinstance(value, Literal) and value.value.is_valid:
        return aggregate(function, None)
    return aggregate(function, value)


def check_syntax(text: str) -> None:
    """Refuse a text that is no expression, whatever columns there are.

    Raises:
        InvalidInputError: the text is not an expression; the message names the token or limit.
    """
    _tree(text, pa.schema([]))


def _parse(text: str, schema: pa.Schema, *, checked: bool = False, repeatable: bool) -> Expression:
    short, lists = without_lists(text, MAX_LITERALS) if len(text) <= MAX_TEXT else (text, [])
    shape, constants = without_constants(short) or ("", [])
    if constants and not lists and (found := with_constants(shape, constants, schema)) is not None:
        return found
    tree = _tree_of_shape(shape, len(constants)) if constants else None
    if lists or tree is not None:
        # Errors name places in the text, so that a text with an error is parsed as it is.
        with suppress(UnfitList, InvalidInputError):
            if tree is None:
                return _bound(_tree(short, schema), schema, lists, checked=checked, repeatable=repeatable)
            bound = _bound(tree, schema, lists, constants, checked=checked, repeatable=repeatable)
            if not lists:
                keep_shape(shape, tree, schema, bound)
            return bound
    return _bound(_tree(text, schema), schema, checked=checked, repeatable=repeatable)


@lru_cache(maxsize=_MOST_SHAPES)
def _tree_of_shape(shape: str, num_constants: int) -> Any:
    """Return the tree of sqlglot for a shape; None if sqlglot may read the texts of the shape differently."""
    try:
        tree = _tree(shape, pa.schema([]))
    except InvalidInputError:
        return None
    nodes = list(tree.walk())
    literals = sorted(node.this for node in nodes if isinstance(node, exp.Literal))
    is_shared = literals == sorted(map(str, range(num_constants)))
    return tree if is_shared and _SHAPE_NODES.issuperset(map(type, nodes)) else None


def _bound(
    tree: Any,
    schema: pa.Schema,
    lists: Sequence[pa.Array] = (),
    constants: Sequence[str] | None = None,
    *,
    checked: bool = False,
    repeatable: bool,
) -> Expression:
    """Return the expression that a tree of sqlglot means on rows of `schema`.

    `lists` are those of `long_lists.without_lists`, `constants` those of `shapes.without_constants`.
    """
    reader = Reader(schema, lists, constants, checked=checked, repeatable=repeatable)
    try:
        return check_limits(reader.condition(tree, top=True))
    except RecursionError:
        raise InvalidInputError("the expression is nested too deeply") from None


def _tree(text: str, schema: pa.Schema) -> Any:
    """Return the tree of sqlglot for a text; `schema` is for hints in errors."""
    if len(text) > MAX_TEXT:
        raise InvalidInputError(f"the expression has {len(text)} characters, at most {MAX_TEXT} are allowed")
    try:
        words = _DIALECT.tokenize(text)
        parsed = _DIALECT.parser().parse_into(exp.Condition, words, text)
    except ParseError as error:
        raise InvalidInputError(_syntax_error(error, text, schema)) from None
    except TokenError:
        raise InvalidInputError(
            "the expression has a quote or comment without an end, or digits that are none"
        ) from None
    except RecursionError:
        raise InvalidInputError("the expression is nested too deeply") from None
    if len(parsed) != 1 or parsed[0] is None:
        raise InvalidInputError(
            "the expression is empty" if not words else "there is more than one expression"
        )
    _check_size(parsed[0])
    return parsed[0]


def _syntax_error(error: ParseError, text: str, schema: pa.Schema) -> str:
    found = error.errors[0] if error.errors else {}
    if not found.get("highlight"):
        return "the expression ends too early"
    token: str = found["highlight"]
    start = found["col"] - len(token) + 1  # sqlglot gives the end of the token
    place = f"line {found['line']}, column {start}"
    hint = _backtick_hint(token, text, schema)
    if found.get("end_context"):
        return f"the expression makes no sense at {token!r} ({place}){hint}"
    return f"the expression makes no sense at its end, {token!r} ({place}){hint}"


def _backtick_hint(token: str, text: str, schema: pa.Schema) -> str:
    """Return a hint that names a column which needs backticks; empty if there is none.

    The column is `token` if it is a keyword, or a column in the text whose name has spaces or signs.
    """
    name: str | None = token
    if token not in schema.names or _DIALECT.tokenize(token)[0].token_type is TokenType.VAR:
        beginning = text[:_MOST_HINT_CHARACTERS]
        names = (name for name in schema.names if name.strip() and not name.isidentifier())
        name = next((name for name in names if name in beginning and f"`{name}`" not in beginning), None)
    return "" if name is None else f"; write `{name}` in backticks for the column"


def _check_size(tree: Any) -> None:
    """Refuse a tree of sqlglot that has too many levels, operations or literals.

    A chain of AND or OR is one level; parentheses are none.

    Raises:
        InvalidInputError: the tree is too large; see `check_size`.
    """
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
