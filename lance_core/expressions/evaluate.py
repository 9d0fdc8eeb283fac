"""Evaluation of expression trees on record batches, by Arrow's kernels with the semantics of SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.values import uncut
from lance_core.errors import InvalidInputError
from lance_core.expressions.arithmetic import ARITHMETIC
from lance_core.expressions.casts import cast, try_cast
from lance_core.expressions.comparisons import Datum, compare, is_in, true_only
from lance_core.expressions.functions import FUNCTIONS
from lance_core.expressions.patterns import like
from lance_core.expressions.tree import (
    And,
    ArrowExpression,
    Call,
    Case,
    Cast,
    Column,
    Comparison,
    DistinctFrom,
    Expression,
    IsIn,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    StartsWith,
    StoredJson,
)
from lance_core.process.readers import look_at_reader
from lance_core.schema.arrow_values import scalar_of

MOST_HELD_BYTES = 64 << 20
"""Bytes of values that the evaluation of an expression on several rows may hold. Rows with more are divided.
"""

MOST_ROW_BYTES = 256 << 20
"""Bytes of values that the evaluation of an expression on one row may hold."""

MOST_RESULT_BYTES = 1 << 30
"""Most bytes of the values of an expression on one batch."""

_MOST_GROWTH = 1 << 16
"""Bytes by which a constant that is computed may be larger than the constants that it is computed from."""

_TEXTS = (pa.StringScalar, pa.LargeStringScalar, pa.BinaryScalar, pa.LargeBinaryScalar)


class _TooLargeError(Exception):
    """The values for a batch have too many bytes."""


def passing(expression: Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Return for each row whether the condition is true. The result has no nulls: null counts as false."""
    return true_only(evaluate(expression, batch))


def evaluate(expression: Expression, batch: pa.RecordBatch) -> pa.Array:
    """Return the values of an expression: one per row of `batch`, in the type of the expression.

    `batch` has the top-level columns that the expression names, with nested values inside their structs.

    Raises:
        InvalidInputError: a value has no result, as for a division by zero or a cast that does not fit; or
            the values for one row, or the results for all rows, have too many bytes.
    """
    num_rows = batch.num_rows
    try:
        result = _evaluate(expression, batch)
        if isinstance(result, pa.Scalar):
            _check_held(_size(result) * num_rows, num_rows)
            result = pa.repeat(result, num_rows)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"the expression has no value: {error}") from error
    except (_TooLargeError, pa.ArrowCapacityError):
        if num_rows < 2:
            raise InvalidInputError(
                f"the values of the expression for one row have more than {MOST_ROW_BYTES} bytes"
            ) from None
        look_at_reader()
        middle = num_rows // 2
        halves = [evaluate(expression, part) for part in (batch.slice(0, middle), batch.slice(middle))]
        if sum(half.nbytes for half in halves) > MOST_RESULT_BYTES:
            raise InvalidInputError(
                f"the values of the expression for {num_rows} rows have more than {MOST_RESULT_BYTES} bytes"
            ) from None
        return pa.concat_arrays(halves)
    return result


def _evaluate(expression: Expression, batch: pa.RecordBatch) -> Datum:
    """Return the values of an expression.

    If a value has no result, the expression is evaluated once more, and operands of AND, OR, CASE and the
    like only in the rows that need them. So the time grows with the length of an expression, not with its
    depth.
    """
    try:
        return _run(expression, batch)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        try:
            return _run(expression, batch, late=True)
        except RecursionError:
            raise InvalidInputError("an expression without a value is nested too deeply") from None


def _run(expression: Expression, batch: pa.RecordBatch, *, late: bool = False) -> Datum:
    """Return the values of an expression. If `late`, choices evaluate their own operands.

    Other operands are evaluated before their node, from a list instead of by recursion, so that depth costs
    no stack.

    Raises:
        _TooLargeError: the values of operands that wait for their nodes have too many bytes.
    """
    values: list[Any] = []
    sizes: list[int] = []
    num_rows, held = batch.num_rows, 0
    for node in _operands_first(expression, late):
        kind = type(node)
        if late and (choose := _choice(node)) is not None:
            value = choose(node, _Later(node, batch))
        else:
            first = len(values) - len(node.operands)
            operands = values[first:]
            constants = 0
            if kind is Call or kind is Case:  # a constant may become the value of every row
                constants = sum(_size(each) for each in operands if isinstance(each, _TEXTS))
            _check_held(held + constants * num_rows, num_rows)
            value = _EVALUATORS[kind](node, operands, batch)
            held -= sum(sizes[first:])
            del values[first:], sizes[first:]
        size = num_rows >> 3 if kind in _CONDITIONS else 0 if kind in _STORED else _size(value)
        held += size
        values.append(value)
        sizes.append(size)
    return values[0]


def _size(value: Datum) -> int:
    """Return the bytes of an array, or of a constant text."""
    if isinstance(value, pa.Scalar):
        return len(value.as_buffer()) if isinstance(value, _TEXTS) and value.is_valid else 0
    return int(value.nbytes)


def _check_held(num_bytes: int, num_rows: int) -> None:
    if num_bytes > (MOST_HELD_BYTES if num_rows > 1 else MOST_ROW_BYTES):
        raise _TooLargeError


def _choice(node: Expression) -> Callable[[Any, Operands], Datum] | None:
    """Return what evaluates a node that does not need all operands in every row; None for other nodes."""
    return _CHOICES.get(node.function) if isinstance(node, Call) else _CHOICES.get(type(node))


def _operands_first(expression: Expression, late: bool) -> Iterator[Expression]:
    # List parents before children from right to left, then reverse the list.
    order, stack = [], [expression]
    while stack:
        node = stack.pop()
        order.append(node)
        if not (late and _choice(node) is not None):
            stack.extend(node.operands)
    return reversed(order)


Operands = Callable[[int, Callable[[], Datum]], Datum]
"""Gives the values of the operand at a place, at least in the rows that the second argument gives."""


class _Later:
    """Operands of a node that are evaluated when they are needed, where they are."""

    def __init__(self, node: Expression, batch: pa.RecordBatch) -> None:
        self._operands = node.operands
        self._batch = batch

    def __call__(self, place: int, needing: Callable[[], Datum]) -> Datum:
        rows, batch = needing(), self._batch
        if isinstance(rows, pa.Scalar):
            if rows.as_py():
                return _run(self._operands[place], batch, late=True)
            rows = pa.repeat(rows, batch.num_rows)
        chosen = pa.RecordBatch.from_struct_array(uncut(batch.to_struct_array()).filter(rows))
        values = _run(self._operands[place], chosen, late=True)
        if isinstance(values, pa.Scalar):
            return pc.if_else(rows, values, scalar_of(None, values.type))
        positions = pc.subtract(pc.cumulative_sum(rows.cast(pa.int64())), scalar_of(1))
        return values.take(pc.if_else(rows, positions, scalar_of(None, pa.int64())))


def _known(operands: list[Datum]) -> Operands:
    return lambda place, needing: operands[place]


def _column(column: Column, operands: list[Datum], batch: pa.RecordBatch) -> Datum:
    values = batch.column(column.path[0])
    for name in column.path[1:]:
        values = pc.struct_field(values, name)
    is_storage = isinstance(values, pa.ExtensionArray) and not isinstance(column.type, pa.BaseExtensionType)
    return values.storage if is_storage else values


def _comparison(node: Comparison, operands: list[Datum], batch: pa.RecordBatch) -> Datum:
    left, right = operands
    # To compare a dictionary column with a constant, compare its dictionary.
    if isinstance(left, pa.DictionaryArray) and isinstance(right, pa.Scalar):
        return _by_dictionary(left, lambda values: compare(node.op, values, right))
    return compare(node.op, left, right)


def _by_dictionary(encoded: Datum, function: Callable[[Datum], Datum]) -> Datum:
    """Apply `function` to dictionary values through the dictionary, if the dictionary is not longer than the
    column.

    `function` must give null for null.
    """
    if not isinstance(encoded, pa.DictionaryArray):
        return function(encoded)
    if len(encoded.dictionary) <= len(encoded):
        with suppress(pa.ArrowInvalid):  # the error may be due to a value that no row has
            return function(encoded.dictionary).take(encoded.indices)
    return function(encoded.dictionary_decode())


def _distinct_from(node: DistinctFrom, operands: list[Datum], batch: pa.RecordBatch) -> Datum:
    left, right = operands
    differs = pc.fill_null(compare("!=", left, right), scalar_of(False))
    return pc.or_(differs, pc.xor(_is_null(left), _is_null(right)))


def _is_null(datum: Datum) -> Datum:
    if isinstance(datum, pa.DictionaryArray) and datum.dictionary.null_count:
        return pc.is_null(datum.dictionary_decode())
    return pc.is_null(datum)


def _is_in(node: IsIn, operands: list[Datum], batch: pa.RecordBatch) -> Datum:
    return _by_dictionary(operands[0], lambda values: is_in(values, node.values, node.has_null))


def _and(node: And, operands: Operands) -> Datum:
    return _junction(len(node.parts), operands, pc.and_kleene, decided=False)


def _or(node: Or, operands: Operands) -> Datum:
    return _junction(len(node.parts), operands, pc.or_kleene, decided=True)


def _junction(
    count: int, operands: Operands, kernel: Callable[[Datum, Datum], Datum], *, decided: bool
) -> Datum:
    """Combine the operands with `kernel`. Each counts in rows that those before it leave undecided.

    So `x <> 0 AND 10 / x > 1` has a value in every row, while a condition without errors selects no rows.
    """
    result = scalar_of(not decided)
    for place in range(count):
        result = kernel(result, operands(place, partial(_undecided, result, decided)))
    return result


def _undecided(result: Datum, decided: bool) -> Datum:
    return pc.fill_null(pc.invert(result) if decided else result, scalar_of(True))


def _case(node: Case, operands: Operands) -> Datum:
    """Return in each row the value of the first branch whose condition holds."""
    undecided: Datum = scalar_of(True)
    chosen: list[tuple[Datum, Datum]] = []
    for place in range(0, 2 * len(node.branches), 2):
        holds = pc.and_(undecided, pc.fill_null(operands(place, partial(_same, undecided)), scalar_of(False)))
        chosen.append((holds, operands(place + 1, partial(_same, holds))))
        undecided = pc.and_not(undecided, holds)
    result = operands(2 * len(node.branches), partial(_same, undecided))
    for holds, branch in reversed(chosen):
        result = pc.if_else(holds, branch, result)
    return result


def _same(rows: Datum) -> Datum:
    return rows


def _coalesce(node: Call, operands: Operands) -> Datum:
    """Return in each row the first value that is not null."""
    result: Datum = scalar_of(None, node.data_type)
    for place in range(len(node.arguments)):
        found = operands(place, partial(pc.is_null, result))
        result = pc.coalesce(result, _decoded(found))
    return result


def _nvl2(node: Call, operands: Operands) -> Datum:
    """Return in each row the second value, or the third one if the first value is null."""
    is_given = pc.is_valid(_decoded(operands(0, partial(_same, scalar_of(True)))))
    value = _decoded(operands(1, partial(_same, is_given)))
    return pc.if_else(is_given, value, _decoded(operands(2, partial(pc.invert, is_given))))


def _decoded(values: Datum) -> Datum:
    return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values


def _like(node: Like, operands: list[Datum], batch: pa.RecordBatch) -> Datum:
    return _by_dictionary(
        operands[0], lambda values: like(values, node.pattern, node.escape, node.ignore_case)
    )


def _starts_with(node: StartsWith, operands: list[Datum], batch: pa.RecordBatch) -> Datum:
    return _by_dictionary(operands[0], lambda values: pc.starts_with(values, node.prefix))


def _cast(node: Cast, operands: list[Datum], batch: pa.RecordBatch) -> Datum:
    change = try_cast if node.try_cast else cast
    return _by_dictionary(operands[0], lambda values: change(values, node.data_type))


def _call(node: Call, arguments: list[Datum], batch: pa.RecordBatch) -> Datum:
    if all(isinstance(argument, pa.Scalar) for argument in arguments):
        arguments[0] = pa.repeat(arguments[0], 1)
        found = _applied(node, arguments)
        # a scalar if the function uses only arguments after the first
        return found if isinstance(found, pa.Scalar) else found[0]
    encoded = [place for place, argument in enumerate(arguments) if isinstance(argument, pa.DictionaryArray)]
    if len(encoded) == 1 and sum(isinstance(argument, pa.Array) for argument in arguments) == 1:
        place = encoded[0]

        def of_values(values: Datum) -> Datum:
            return _applied(node, [*arguments[:place], values, *arguments[place + 1 :]])

        return _by_dictionary(arguments[place], of_values)
    for place in encoded:
        arguments[place] = arguments[place].dictionary_decode()
    return _applied(node, arguments)


def _applied(node: Call, arguments: list[Datum]) -> Datum:
    if isinstance(arguments[0], pa.Scalar):
        length = next(len(argument) for argument in arguments if isinstance(argument, pa.Array))
        arguments = [pa.repeat(arguments[0], length), *arguments[1:]]
    if node.function in ARITHMETIC:
        return ARITHMETIC[node.function](arguments, node.data_type)
    function = FUNCTIONS[node.function]
    if function.most_bytes is not None:
        _check_held(function.most_bytes(*arguments), len(arguments[0]))
    return function.compute(*arguments)


def _arrow(node: ArrowExpression, operands: list[Datum], batch: pa.RecordBatch) -> Datum:
    """Let Arrow evaluate its own expression on one batch. The engine is imported at the first use."""
    from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions

    table = pa.Table.from_batches([batch])
    plan = Declaration.from_sequence(
        [
            Declaration("table_source", TableSourceNodeOptions(table)),
            Declaration("project", ProjectNodeOptions([node.expression], [""])),
        ]
    )
    return plan.to_table(use_threads=False).column(0).combine_chunks()


_EVALUATORS: dict[type[Expression], Callable[[Any, list[Any], pa.RecordBatch], Datum]] = {
    Column: _column,
    StoredJson: _column,
    Literal: lambda node, operands, batch: node.value,
    Comparison: _comparison,
    DistinctFrom: _distinct_from,
    IsIn: _is_in,
    IsNull: lambda node, operands, batch: _is_null(operands[0]),
    And: lambda node, operands, batch: _and(node, _known(operands)),
    Or: lambda node, operands, batch: _or(node, _known(operands)),
    Not: lambda node, operands, batch: pc.invert(operands[0]),
    Like: _like,
    StartsWith: _starts_with,
    Cast: _cast,
    Case: lambda node, operands, batch: _case(node, _known(operands)),
    Call: _call,
    ArrowExpression: _arrow,
}


_CONDITIONS = frozenset((Comparison, DistinctFrom, IsIn, IsNull, And, Or, Not, Like, StartsWith))
"""Nodes whose values are true or false."""

_STORED = frozenset((Column, StoredJson, Literal))
"""Nodes whose values are there already."""

_CHOICES: dict[type[Expression] | str, Callable[[Any, Operands], Datum]] = {
    And: _and,
    Or: _or,
    Case: _case,
    "coalesce": _coalesce,
    "nvl": _coalesce,
    "ifnull": _coalesce,
    "nvl2": _nvl2,
}
"""Nodes, and functions by name, that do not need the values of all operands in every row."""

_ONE_ROW = pa.record_batch([pa.nulls(1)], names=[""])


def folded(expression: Expression) -> Expression:
    """Return the value of the expression as a literal if all operands are literals, otherwise the expression.

    Raises:
        InvalidInputError: the literals have no result, as for a division by zero, or a result that is too
            long.
    """
    operands = expression.operands
    literals = [operand for operand in operands if isinstance(operand, Literal)]
    if not operands or len(literals) < len(operands):
        return expression
    value = evaluate(expression, _ONE_ROW)[0]
    if _size(value) > sum(_size(each.value) for each in literals) + _MOST_GROWTH:
        raise InvalidInputError(
            f"a constant of {_size(value)} bytes is computed from short ones; it may be at most "
            f"{_MOST_GROWTH} bytes longer"
        )
    return Literal(value)
