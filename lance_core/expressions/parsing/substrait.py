"""Parser of Substrait messages to expression trees: filters that Arrow, DuckDB and DataFusion write.

Functions are identified by name, by an allow-list, whatever the extension that declares them. They mean the
same as in SQL text: NaN is a number, and IN gives null for a null. Columns are identified by the names in the
schema of the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_core.errors import InvalidInputError
from lance_core.expressions import builders
from lance_core.expressions.arithmetic import arithmetic, negative
from lance_core.expressions.coercion import is_string
from lance_core.expressions.column_names import child_type, resolve_column
from lance_core.expressions.evaluate import folded
from lance_core.expressions.functions import call
from lance_core.expressions.parsing.complexity_limits import MAX_DEPTH, MAX_TEXT, check_limits, check_size
from lance_core.expressions.parsing.substrait_values import arrow_scalar, arrow_type
from lance_core.expressions.tree import Column, Expression, Literal
from lance_core.proto import substrait_pb2 as messages


def parse_substrait(data: bytes, schema: pa.Schema) -> Expression:
    """Return the condition of an `ExtendedExpression` with one expression, on rows of `schema`.

    Raises:
        InvalidInputError: the bytes are not such a message, or contain something unsupported, which the
            message names.
    """
    return read_substrait(data, schema)[0]


def read_substrait(data: bytes, schema: pa.Schema) -> tuple[Expression, int]:
    """Return the condition, and the number of its IN lists that no CASE guards against null operands.

    DuckDB guards its lists by a CASE, see `guarded_in`.
    """
    if len(data) > MAX_TEXT:
        raise InvalidInputError(f"the Substrait message has {len(data)} bytes, {MAX_TEXT} are allowed")
    message = _parsed(messages.ExtendedExpression, data)
    if len(message.referred_expr) != 1 or message.referred_expr[0].WhichOneof("expr_type") != "expression":
        raise InvalidInputError("the Substrait message has to hold exactly one expression")
    reader = _Reader(message, schema)
    try:
        found = reader.read(message.referred_expr[0].expression, 1)
    except RecursionError:
        raise InvalidInputError("the Substrait expression is nested too deeply") from None
    return check_limits(builders.boolean(found)), reader.unguarded


def _parsed(kind: Callable[[], Any], data: bytes) -> Any:
    message = kind()
    try:
        message.ParseFromString(data)
    except (DecodeError, RuntimeError):
        raise InvalidInputError(f"the bytes are not a Substrait {type(message).__name__}") from None
    return message


class _Reader:
    """Reader of the expressions of one message."""

    def __init__(self, message: Any, schema: pa.Schema) -> None:
        self._schema = schema
        self._fields = _named_fields(message.base_schema)
        self._functions: dict[int, str] = {}
        self._types: dict[int, str] = {}
        self.unguarded = 0
        for extension in message.extensions:
            if extension.WhichOneof("mapping_type") == "extension_function":
                function = extension.extension_function
                # A name may contain the types of the arguments: `equal:any_any`.
                self._functions[function.function_anchor] = function.name.partition(":")[0].lower()
            else:
                self._types[extension.extension_type.type_anchor] = extension.extension_type.name

    def read(self, data: bytes, depth: int) -> Expression:
        """Return the node of one serialized expression at the given depth."""
        check_size(depth, 0, 0)
        expression = _parsed(messages.Expression, data)
        kind = expression.WhichOneof("rex_type")
        if kind is None:
            raise InvalidInputError("a Substrait expression is of a kind that is not supported")
        return folded(getattr(self, f"_{kind}")(getattr(expression, kind), depth + 1))

    def _literal(self, given: Any, depth: int) -> Expression:
        return Literal(arrow_scalar(given, self._types))

    def _selection(self, given: Any, depth: int) -> Expression:
        segment = given.direct_reference
        if given.WhichOneof("root_type") == "expression":
            return self._below(self.read(given.expression, depth), segment, [])
        if segment.WhichOneof("reference_type") != "struct_field":
            raise InvalidInputError("a Substrait field reference does not start at a column")
        name, children = _field(self._fields, segment.struct_field.field)
        column = resolve_column([name], self._schema, exact=True)
        if not segment.struct_field.HasField("child"):
            return column
        return self._below(column, segment.struct_field.child, children)

    def _below(self, operand: Expression, segment: Any, children: list[Any]) -> Expression:
        """Return a child of a struct or an element of a list; `children` are the fields that the message
        names there.
        """
        for _ in range(MAX_DEPTH):
            kind = segment.WhichOneof("reference_type")
            if kind == "list_element":
                step = segment.list_element
                index = builders.literal(step.offset + 1 if step.offset >= 0 else step.offset)
                operand, children = folded(call("array_element", [operand, index])), []
            elif kind == "struct_field" and isinstance(operand, Column) and children:
                step = segment.struct_field
                name, children = _field(children, step.field)
                operand = Column((*operand.path, name), child_type(operand.path, operand.type, name))
            else:
                raise InvalidInputError(
                    "a Substrait field reference names a field that the message does not have"
                )
            if not step.HasField("child"):
                return operand
            segment = step.child
        raise InvalidInputError(f"a Substrait field reference has more than {MAX_DEPTH} steps")

    def _scalar_function(self, given: Any, depth: int) -> Expression:
        name = self._functions.get(given.function_reference)
        if name is None:
            raise InvalidInputError(f"Substrait function {given.function_reference} is not declared")
        options = {option.name.lower(): set(option.preference) for option in given.options}
        if name in ("and", "or"):
            parts = [self.read(part, depth) for part in self._chain(given, name)]
            if not parts:
                raise InvalidInputError(f"Substrait function {name!r} has no arguments")
            return (builders.conjunction if name == "and" else builders.disjunction)(parts)
        arguments = [self.read(argument, depth) for argument in _arguments(given, name)]
        return _call(name, arguments, options)

    def _chain(self, given: Any, name: str) -> Iterator[bytes]:
        """Yield the operands of nested calls of AND or OR as one list."""
        stack = list(reversed(_arguments(given, name)))
        while stack:
            data = stack.pop()
            inner = _parsed(messages.Expression, data)
            function = inner.scalar_function
            if inner.WhichOneof("rex_type") == "scalar_function" and (
                self._functions.get(function.function_reference) == name
            ):
                stack += reversed(_arguments(function, name))
            else:
                yield data

    def _if_then(self, given: Any, depth: int) -> Expression:
        branches = [
            (self.read(getattr(clause, "if"), depth), self.read(clause.then, depth)) for clause in given.ifs
        ]
        default = getattr(given, "else")
        otherwise = self.read(default, depth) if default else builders.literal(None)
        guarded = builders.guarded_in(branches, otherwise)
        if guarded is None:
            return builders.case(branches, otherwise)
        self.unguarded -= 1
        return guarded

    def _singular_or_list(self, given: Any, depth: int) -> Expression:
        self.unguarded += 1
        return builders.is_in(
            self.read(given.value, depth), [self.read(option, depth) for option in given.options]
        )

    def _cast(self, given: Any, depth: int) -> Expression:
        data_type = arrow_type(given.type, self._types)
        return builders.cast(self.read(given.input, depth), data_type, try_cast=given.failure_behavior == 1)


def _named_fields(schema: Any) -> list[Any]:
    """Return the top-level fields of a schema: pairs of a name and the list of its children in
    the same form.
    """
    names = iter(schema.names)

    def fields(types: Sequence[Any]) -> list[Any]:
        return [(next(names), below(data_type)) for data_type in types]

    def below(data_type: Any) -> list[Any]:
        kind = data_type.WhichOneof("kind")
        if kind == "struct":
            return fields(data_type.struct.types)
        if kind == "list":
            below(data_type.list.type)
        elif kind == "map":
            below(data_type.map.key)
            below(data_type.map.value)
        return []

    try:
        return fields(schema.struct.types)
    except (StopIteration, RuntimeError):
        raise InvalidInputError("the Substrait message names fewer fields than its schema has") from None


def _field(fields: list[Any], index: int) -> Any:
    if not 0 <= index < len(fields):
        raise InvalidInputError(f"the Substrait message refers to field {index} of {len(fields)}")
    return fields[index]


def _arguments(given: Any, name: str) -> list[bytes]:
    if given.args:
        return list(given.args)
    if any(argument.WhichOneof("arg_type") != "value" for argument in given.arguments):
        raise InvalidInputError(f"Substrait function {name!r} has an argument that is no value")
    return [argument.value for argument in given.arguments]


_COMPARISONS = {"equal": "=", "not_equal": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_ARITHMETIC = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "modulus": "%"}
_ONE: dict[str, Callable[[Expression], Expression]] = {
    "not": builders.negation,
    "is_null": builders.is_null,
    "is_not_null": lambda operand: builders.negation(builders.is_null(operand)),
    "is_true": lambda operand: builders.is_true(operand, True),
    "is_false": lambda operand: builders.is_true(operand, False),
    "is_not_true": lambda operand: builders.negation(builders.is_true(operand, True)),
    "is_not_false": lambda operand: builders.negation(builders.is_true(operand, False)),
    "negate": negative,
}
_SAME_NAMES = (
    ("abs", "ceil", "floor", "sqrt", "exp", "ln", "log10", "log2", "power", "sign", "sin", "cos", "tan"),
    ("asin", "acos", "atan", "atan2", "coalesce", "nullif", "lower", "upper", "char_length", "octet_length"),
    ("substring", "concat", "replace", "ltrim", "rtrim", "trim", "contains", "ends_with"),
)
_CALLS = {
    **{name: name for names in _SAME_NAMES for name in names},
    "is_nan": "isnan",
    "utf8_lower": "lower",
    "utf8_upper": "upper",
}


def _call(name: str, arguments: list[Expression], options: dict[str, set[str]]) -> Expression:
    """Return the node of a Substrait function. Options that would change the result are refused."""
    ignore_case = _checked_options(name, options)
    if name in _ONE and len(arguments) == 1:
        return _ONE[name](arguments[0])
    if name in _CALLS:
        return call(_CALLS[name], arguments)
    if len(arguments) == 2:
        left, right = arguments
        if name in _COMPARISONS:
            return builders.comparison(_COMPARISONS[name], left, right)
        if name in _ARITHMETIC:
            checked = "ERROR" in options.get("overflow", ())
            return arithmetic(_ARITHMETIC[name], left, right, checked=checked)
        if name == "starts_with":
            return builders.starts_with(left, right)
        if name in ("is_distinct_from", "is_not_distinct_from"):
            distinct = builders.distinct_from(left, right)
            return distinct if name == "is_distinct_from" else builders.negation(distinct)
    if name == "between" and len(arguments) == 3:
        return builders.between(*arguments)
    if name == "like" and len(arguments) in (2, 3):
        escape = _escape(arguments[2]) if len(arguments) == 3 else None
        return builders.like(arguments[0], arguments[1], escape, ignore_case=ignore_case)
    raise InvalidInputError(f"Substrait function {name!r} of {len(arguments)} arguments is not supported")


def _checked_options(name: str, options: dict[str, set[str]]) -> bool:
    """Return whether case is ignored."""
    case = options.get("case_sensitivity", {"CASE_SENSITIVE"})
    if name == "like" and case <= {"CASE_INSENSITIVE", "CASE_INSENSITIVE_ASCII"}:
        return True
    if "CASE_SENSITIVE" not in case:
        raise InvalidInputError(f"Substrait function {name!r} without regard to case is not supported")
    return False


def _escape(argument: Expression) -> str:
    escape = argument.value.as_py() if isinstance(argument, Literal) and is_string(argument.type) else None
    if not isinstance(escape, str) or len(escape) != 1:
        raise InvalidInputError("the escape of Substrait's 'like' has to be one character")
    return escape
