"""Evaluation of expression trees on record batches, by Arrow's kernels with the semantics of SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.values import uncut
from lance_core.errors import InvalidInputError
from lance_core.expressions.arithmetic import ARITHMETIC
from lance_core.expressions.casts import cast, try_cast
from lance_core.expressions.comparisons import Datum, compare, is_in
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
from lance_core.schema.arrow_values import scalar_of


def passing(expression: Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Return for each row whether the condition is true. The result has no nulls: null counts as false."""
    result = evaluate(expression, batch)
    return pc.fill_null(result, scalar_of(False)) if result.null_count else result


def evaluate(expression: Expression, batch: pa.RecordBatch) -> pa.Array:
    """Return the values of an expression: one per row of `batch`, in the type of the expression.

    `batch` has the top-level columns that the expression names, with nested values inside their structs.

    Raises:
        InvalidInputError: a value has no result, as for a division by zero or a cast that does not fit.
    """
    try:
        result = _evaluate(expression, batch)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"the expression has no value: {error}") from error
    if isinstance(result, pa.Scalar):
        return pa.repeat(result, batch.num_rows)
    return result


def _evaluate(expression: Expression, batch: pa.RecordBatch) -> Datum:
    result = _run(expression, batch)
    if isinstance(result, pa.ArrowException):
        raise result
    return result


def _run(expression: Expression, batch: pa.RecordBatch) -> Any:
    """Return the values of an expression, or the error of its evaluation.

    An error is returned and not raised, because AND, OR, CASE and `coalesce` may not need the operand's value
    in that row. Operands are evaluated before their node, from a list instead of by recursion, so that depth
    costs no stack.
    """
    values: list[Any] = []
    for node in _operands_first(expression):
        count = len(node.operands)
        operands = values[len(values) - count :]
        del values[len(values) - count :]
        failed = next((value for value in operands if isinstance(value, pa.ArrowException)), None)
        if failed is not None and not _may_do_without(node):
            values.append(failed)
            continue
        try:
            values.append(_EVALUATORS[type(node)](node, operands, batch))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            values.append(error)
    return values[0]


def _may_do_without(node: Expression) -> bool:
    """Return whether a node does not need the values of all operands in every row."""
    return isinstance(node, And | Or | Case) or (isinstance(node, Call) and node.function in _CHOICES)


def _operands_first(expression: Expression) -> Iterator[Expression]:
    # List parents before children from right to left, then reverse the list.
    order, stack = [], [expression]
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(node.operands)
    return reversed(order)


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


def _and(node: And, operands: list[Any], batch: pa.RecordBatch) -> Datum:
    return _junction(node.parts, operands, batch, pc.and_kleene, decided=False)


def _or(node: Or, operands: list[Any], batch: pa.RecordBatch) -> Datum:
    return _junction(node.parts, operands, batch, pc.or_kleene, decided=True)


def _junction(
    parts: Sequence[Expression],
    operands: list[Any],
    batch: pa.RecordBatch,
    kernel: Callable[[Datum, Datum], Datum],
    *,
    decided: bool,
) -> Datum:
    """Combine the parts with `kernel`. A part with an error is evaluated again for the undecided rows only.

    So `x <> 0 AND 10 / x > 1` has a value in every row, while a condition without errors selects no rows.
    """
    result = scalar_of(not decided)
    for part, operand in zip(parts, operands, strict=True):
        if isinstance(operand, pa.ArrowException):
            undecided = pc.fill_null(pc.invert(result) if decided else result, scalar_of(True))
            operand = _on_rows(part, batch, undecided)
        result = kernel(result, operand)
    return result


def _on_rows(expression: Expression, batch: pa.RecordBatch, rows: Datum) -> Datum:
    """Return the values of an expression in the chosen rows, and null in the others."""
    rows = pa.repeat(rows, batch.num_rows) if isinstance(rows, pa.Scalar) else rows
    chosen = uncut(batch.to_struct_array()).filter(rows)
    values = _evaluate(expression, pa.RecordBatch.from_struct_array(chosen))
    if isinstance(values, pa.Scalar):
        return pc.if_else(rows, values, scalar_of(None, values.type))
    positions = pc.subtract(pc.cumulative_sum(rows.cast(pa.int64())), scalar_of(1))
    return values.take(pc.if_else(rows, positions, scalar_of(None, pa.int64())))


def _case(node: Case, operands: list[Any], batch: pa.RecordBatch) -> Datum:
    """Return in each row the value of the first branch whose condition holds.

    A branch with an error is evaluated again for its own rows only.
    """

    def values(place: int, rows: Datum) -> Datum:
        found = operands[place]
        return _on_rows(node.operands[place], batch, rows) if isinstance(found, pa.ArrowException) else found

    undecided: Datum = scalar_of(True)
    chosen: list[tuple[Datum, Datum]] = []
    for place in range(0, len(operands) - 1, 2):
        holds = pc.and_(undecided, pc.fill_null(values(place, undecided), scalar_of(False)))
        chosen.append((holds, values(place + 1, holds)))
        undecided = pc.and_not(undecided, holds)
    result = values(len(operands) - 1, undecided)
    for holds, branch in reversed(chosen):
        result = pc.if_else(holds, branch, result)
    return result


def _like(node: Like, operands: list[Datum], batch: pa.RecordBatch) -> Datum:
    return _by_dictionary(
        operands[0], lambda values: like(values, node.pattern, node.escape, node.ignore_case)
    )


def _starts_with(node: StartsWith, operands: list[Datum], batch: pa.RecordBatch) -> Datum:
    return _by_dictionary(operands[0], lambda values: pc.starts_with(values, node.prefix))


def _cast(node: Cast, operands: list[Datum], batch: pa.RecordBatch) -> Datum:
    change = try_cast if node.try_cast else cast
    return _by_dictionary(operands[0], lambda values: change(values, node.data_type))


def _call(node: Call, arguments: list[Any], batch: pa.RecordBatch) -> Datum:
    if any(isinstance(argument, pa.ArrowException) for argument in arguments):
        return _CHOICES[node.function](node, arguments, batch)
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


def _coalesce(node: Call, arguments: list[Any], batch: pa.RecordBatch) -> Datum:
    """Return in each row the first value that is not null.

    An argument with an error is evaluated again for the rows that need it only.
    """
    result: Datum = pa.scalar(None, node.data_type)
    for argument, found in zip(node.arguments, arguments, strict=True):
        if isinstance(found, pa.ArrowException):
            found = _on_rows(argument, batch, pc.is_null(result))
        result = pc.coalesce(
            result, found.dictionary_decode() if isinstance(found, pa.DictionaryArray) else found
        )
    return result


def _nvl2(node: Call, arguments: list[Any], batch: pa.RecordBatch) -> Datum:
    """Return in each row the second value, or the third one if the first value is null; see `_coalesce`."""
    given, value, other = node.arguments
    found, *values = arguments
    if isinstance(found, pa.ArrowException):
        raise found
    return _case(Case(((Not(IsNull(given)), value),), other), [pc.is_valid(found), *values], batch)


_CHOICES: dict[str, Callable[[Call, list[Any], pa.RecordBatch], Datum]] = {
    "coalesce": _coalesce,
    "nvl": _coalesce,
    "ifnull": _coalesce,
    "nvl2": _nvl2,
}
"""Functions that do without arguments whose evaluation failed, by name."""


def _applied(node: Call, arguments: list[Datum]) -> Datum:
    if isinstance(arguments[0], pa.Scalar):
        length = next(len(argument) for argument in arguments if isinstance(argument, pa.Array))
        arguments = [pa.repeat(arguments[0], length), *arguments[1:]]
    if node.function in ARITHMETIC:
        return ARITHMETIC[node.function](arguments, node.data_type)
    return FUNCTIONS[node.function].compute(*arguments)


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
    And: _and,
    Or: _or,
    Not: lambda node, operands, batch: pc.invert(operands[0]),
    Like: _like,
    StartsWith: _starts_with,
    Cast: _cast,
    Case: _case,
    Call: _call,
    ArrowExpression: _arrow,
}


_ONE_ROW = pa.record_batch([pa.nulls(1)], names=[""])


def folded(expression: Expression) -> Expression:
    """Return the value of the expression as a literal if all operands are literals, otherwise the expression.

    Raises:
        InvalidInputError: the literals have no result, as for a division by zero.
    """
    operands = expression.operands
    if not operands or not all(isinstance(operand, Literal) for operand in operands):
        return expression
    return Literal(evaluate(expression, _ONE_ROW)[0])
