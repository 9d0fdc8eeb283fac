"""Split of a condition, a `pyarrow.compute.Expression`, into Substrait for the server and a rest for the
client.

A condition is split at its top-level ANDs. The server evaluates the conditions that it understands. The
client evaluates the rest on the rows that it receives. Arrow does not show the inside of an expression, but
it pickles expressions as a list of calls, columns and constants in the metadata of a record batch. Because
this form is private to Arrow, the parsed expression is built again and compared with the original.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import pyarrow as pa

from flight_client.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow.compute as pc

_UNDERSTOOD = {
    "and_kleene",
    "or_kleene",
    "invert",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "is_null",
    "is_valid",
    "is_in",
    "if_else",
    "starts_with",
}
"""Functions with the same meaning on the server."""

_TOKEN = re.compile(r"^(call|end|field_ref|nested_field_ref|literal|options): '(.*)'$")


@dataclass(frozen=True)
class Filter:
    """Condition in two parts. Rows must meet both."""

    substrait: bytes | None = None
    """Condition for the server, in Substrait."""
    rest: pc.Expression | None = None
    """Condition for the client."""
    rest_columns: tuple[str, ...] = ()
    """Top-level columns that `rest` needs."""

    def as_text(self) -> str | None:
        """Return `substrait` in the form of commands."""
        return None if self.substrait is None else b64encode(self.substrait).decode()


def filter_here(condition: pc.Expression, schema: pa.Schema) -> Filter:
    """Return a filter that the client evaluates as a whole."""
    whole = _Written.of(condition)
    if whole is None:
        return Filter(rest=condition, rest_columns=tuple(schema.names))
    _check_columns(whole, schema)
    return Filter(rest=condition, rest_columns=whole.columns)


def split_filter(condition: pc.Expression, schema: pa.Schema) -> Filter:
    """Return a condition on rows of `schema`, split into the part that the server can evaluate and the rest.

    The server compares floats like Lance, DuckDB and Polars: NaN equals NaN and is greater than every number.
    """
    whole = _Written.of(condition)
    if whole is None:
        return filter_here(condition, schema)
    _check_columns(whole, schema)
    parts = list(whole.conjuncts())
    messages = [_to_substrait([part], schema) for part in parts]
    travelling = [part for part, message in zip(parts, messages, strict=True) if message is not None]
    left = [part for part, message in zip(parts, messages, strict=True) if message is None]
    columns = dict.fromkeys(name for part in left for name in part.columns)
    return Filter(
        substrait=_to_substrait(travelling, schema) if travelling else None,
        rest=_joined(left) if left else None,
        rest_columns=tuple(columns),
    )


def travelling(condition: pc.Expression, schema: pa.Schema) -> pc.Expression | None:
    """Return the part of a condition on rows of `schema` that the server can evaluate; None if there is none.

    Use this for engines that evaluate the whole condition themselves. If the client evaluated the rest, as
    `split_filter` does, it would compare floats like Arrow, for which no comparison with NaN is true.
    """
    whole = _Written.of(condition)
    if whole is None:
        return None
    parts = [part for part in whole.conjuncts() if _to_substrait([part], schema) is not None]
    return _joined(parts) if parts else None


def _check_columns(condition: _Written, schema: pa.Schema) -> None:
    unknown = [name for name in condition.columns if name not in schema.names]
    if unknown:
        raise InvalidInputError(
            f"the filter names the column {unknown[0]!r}, expected one of {', '.join(schema.names)}"
        )


def passing_rows(part: Filter, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a batch that meet the client's part of a filter.

    Raises:
        InvalidInputError: Arrow cannot evaluate the part, or it is no condition.
    """
    from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions

    # Acero would copy bodies of messages, which are not aligned, and would warn each time.
    sink = pa.BufferOutputStream()
    needed = batch.select([name for name in part.rest_columns if name in batch.schema.names])
    if needed.num_columns == 0:  # a condition on constants
        needed = needed.append_column("", pa.nulls(batch.num_rows))
    with pa.ipc.new_stream(sink, needed.schema) as writer:
        writer.write_batch(needed)
    source = Declaration(
        "table_source", TableSourceNodeOptions(pa.ipc.open_stream(sink.getvalue()).read_all())
    )
    mask = Declaration("project", ProjectNodeOptions([part.rest], ["passes"]), [source])
    try:
        return batch.filter(mask.to_table(use_threads=False).column(0).combine_chunks())
    except pa.ArrowException as error:
        raise InvalidInputError(f"the filter {part.rest} cannot be evaluated: {error}") from None


def _joined(parts: Sequence[_Written]) -> pc.Expression:
    return reduce(and_, (part.expression for part in parts))


def _to_substrait(parts: Sequence[_Written], schema: pa.Schema) -> bytes | None:
    """Return the parts joined by AND as an ExtendedExpression; None if the client has to evaluate them."""
    from pyarrow.substrait import serialize_expressions

    if not all(part.is_understood for part in parts):
        return None
    names = dict.fromkeys(name for part in parts for name in part.columns)
    if not all(schema.names.count(name) == 1 for name in names):
        return None
    needed = pa.schema([_plain(schema.field(name)) for name in names])  # Substrait lacks some types
    if not all(_is_known_type(field.type) for field in needed):
        return None
    try:
        return bytes(serialize_expressions([_joined(parts)], ["filter"], needed))
    except (pa.ArrowException, ValueError):
        return None


def _plain(field: pa.Field) -> pa.Field:
    """Return the field with the value type of a dictionary, which means the same to a condition."""
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


def _is_known_type(given: pa.DataType) -> bool:
    """Return whether the server understands the Substrait form of a type."""
    if pa.types.is_struct(given):
        return all(_is_known_type(field.type) for field in given)
    if pa.types.is_list(given):
        return _is_known_type(given.value_type)
    return any(is_kind(given) for is_kind in _KNOWN_TYPES)


_KNOWN_TYPES = (
    pa.types.is_null,
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_decimal128,
    pa.time64("us").equals,
)


@dataclass(frozen=True)
class _Written:
    """Expression in the form in which Arrow pickles it: keys and values in prefix order, and a batch of
    constants.
    """

    expression: pc.Expression
    tokens: tuple[tuple[str, str], ...]
    constants: pa.RecordBatch

    @staticmethod
    def of(expression: pc.Expression) -> _Written | None:
        """Return the parsed expression; None if Arrow writes it in an unknown form."""
        try:
            _, (data,) = expression.__reduce__()
            constants = pa.ipc.open_file(data).get_batch(0)
            text = constants.schema.to_string(truncate_metadata=False)
            lines = text.partition("-- schema metadata --\n")[2].splitlines()
            tokens = [match.groups() for line in lines if (match := _TOKEN.match(line))]
            pairs = tuple((str(key), str(value)) for key, value in tokens)
            again = _rebuild(pairs, constants)
        except (pa.ArrowException, ValueError, TypeError, AttributeError):
            return None
        # A name with a line break is parsed wrongly, and `equals` alone overlooks missing arguments.
        same = again.equals(expression) and again.__reduce__()[1][0].equals(data)
        return _Written(expression, pairs, constants) if same else None

    def conjuncts(self) -> Iterator[_Written]:
        """Yield the parts that top-level ANDs join."""
        if self.tokens[0] != ("call", "and_kleene"):
            yield self
            return
        for tokens in _arguments(self.tokens):
            part = _Written(_rebuild(tokens, self.constants), tokens, self.constants)
            yield from part.conjuncts()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the top-level columns."""
        names: dict[str, None] = {}
        nested = 0
        for key, value in self.tokens:
            if key == "nested_field_ref":
                nested = -int(value)
            elif key == "field_ref":
                if nested <= 0:
                    names[value] = None
                nested = abs(nested) - 1 if nested else 0
        return tuple(names)

    @property
    def is_understood(self) -> bool:
        """Whether the server gives the expression the same meaning."""
        functions = {value for key, value in self.tokens if key == "call"}
        if not functions <= _UNDERSTOOD:
            return False
        if not self._treats_nulls_alike():
            return False
        literals = (int(value) for key, value in self.tokens if key == "literal")
        if not all(_is_known_type(self.constants.schema.field(column).type) for column in literals):
            return False
        return not any(self._is_unusual(int(value)) for key, value in self.tokens if key == "options")

    def _treats_nulls_alike(self) -> bool:
        """Return whether nulls mean the same in SQL.

        In Arrow a null is not in a list, in SQL the result is null: the rows are the same only where both
        drop the row. If the condition of `if_else` is null, so is its result, while SQL takes the other
        branch. The remaining `if_else` is the form in which DuckDB writes lists: a null stays null, other
        values are looked up.
        """
        calls: list[str] = []
        guarded = -1
        for position, (key, value) in enumerate(self.tokens):
            if key == "end":
                calls.pop()
            if key != "call":
                continue
            if value == "if_else":
                guarded = self._guarded_list(position)
                if guarded < 0:
                    return False
            if value == "is_in" and position != guarded and not {"and_kleene", "or_kleene"}.issuperset(calls):
                return False
            calls.append(value)
        return True

    def _guarded_list(self, position: int) -> int:
        """Return the position of `is_in` in `if_else(is_valid(c), is_in(c), ...)` at `position`; -1 for
        other conditions.
        """
        tokens = self.tokens
        if tokens[position + 1] != ("call", "is_valid"):
            return -1
        end = tokens.index(("end", "is_valid"), position)
        column = tokens[position + 2 : end]
        is_in = (("call", "is_in"), *column)
        return end + 1 if tokens[end + 1 : end + 1 + len(is_in)] == is_in else -1

    def _is_unusual(self, column: int) -> bool:
        """Return whether options of a call ask for what the server reads differently: NaN as null, a null
        in a list, no case.
        """
        given = self.constants.column(column)[0]
        options = given.as_py()
        if options.get("nan_is_null") or options.get("ignore_case"):
            return True
        values = options.get("value_set")
        if values is None:
            return False
        if not _is_known_type(given["value_set"].type):
            return True
        return any(value is None or value != value for value in values)


def _arguments(tokens: Sequence[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Yield the arguments of the call that the tokens are."""
    start, depth, nested = 1, 0, 0
    for position in range(1, len(tokens) - 1):
        key, value = tokens[position]
        if key == "nested_field_ref":
            nested = int(value)
            continue
        if nested:
            nested -= 1
            if nested:
                continue
        depth += {"call": 1, "end": -1}.get(key, 0)
        if depth == 0:
            yield tuple(tokens[start : position + 1])
            start = position + 1


def _rebuild(tokens: Sequence[tuple[str, str]], constants: pa.RecordBatch) -> pc.Expression:
    """Return the expression that tokens stand for."""
    schema = constants.schema.with_metadata(pa.KeyValueMetadata(list(tokens)))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(constants.columns, schema=schema))
    # Late: a program that gives no expressions does without, and starts sooner.
    from pyarrow.compute import Expression

    return Expression._deserialize(sink.getvalue())
