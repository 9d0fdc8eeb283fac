"""Evaluation of expression trees on record batches, by Arrow's kernels with SQL's semantics around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import InvalidInputError
from lance_core.scan.expressions.casts import cast
from lance_core.scan.expressions.comparisons import Datum, compare, is_in
from lance_core.scan.expressions.tree import (
    And,
    Cast,
    Column,
    Comparison,
    DistinctFrom,
    Expression,
    IsIn,
    IsNull,
    Literal,
    Not,
    Or,
    StartsWith,
)


def passing(expression: Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    """For each row whether the condition is true; without nulls, since null does not pass."""
    result = evaluate(expression, batch)
    return pc.fill_null(result, False) if result.null_count else result


def evaluate(expression: Expression, batch: pa.RecordBatch) -> pa.Array:
    """The values of an expression: one per row of `batch`, of the expression's type.

    `batch` has the top-level columns that the expression names, with nested values inside their structs.

    Raises:
        InvalidInputError: a value has no result: division by zero, a cast that does not fit.
    """
    try:
        result = _evaluate(expression, batch)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"the expression has no value: {error}") from error
    if isinstance(result, pa.Scalar):
        return pa.repeat(result, batch.num_rows)
    return result


def _evaluate(expression: Expression, batch: pa.RecordBatch) -> Datum:
    return _EVALUATORS[type(expression)](expression, batch)


def _column(column: Column, batch: pa.RecordBatch) -> Datum:
    values = batch.column(column.path[0])
    for name in column.path[1:]:
        values = pc.struct_field(values, name)
    return values


def _comparison(node: Comparison, batch: pa.RecordBatch) -> Datum:
    return _on_dictionary(
        _evaluate(node.left, batch),
        _evaluate(node.right, batch),
        lambda left, right: compare(node.op, left, right),
    )


def _on_dictionary(left: Datum, right: Datum, function: Callable[[Datum, Datum], Datum]) -> Datum:
    """Apply `function` to the dictionary only, where one side is encoded and the other constant."""
    if isinstance(left, pa.DictionaryArray) and isinstance(right, pa.Scalar):
        return _by_dictionary(left, lambda values: function(values, right))
    if isinstance(right, pa.DictionaryArray) and isinstance(left, pa.Scalar):
        return _by_dictionary(right, lambda values: function(left, values))
    return function(left, right)


def _by_dictionary(encoded: Datum, function: Callable[[Datum], Datum]) -> Datum:
    """`function` of encoded values, through the dictionary where that is shorter; nulls in give nulls out."""
    if not isinstance(encoded, pa.DictionaryArray):
        return function(encoded)
    if len(encoded.dictionary) > len(encoded):
        return function(encoded.dictionary_decode())
    result = function(encoded.dictionary)
    if isinstance(result, pa.Scalar):
        result = pa.repeat(result, len(encoded.dictionary))
    return result.take(encoded.indices)


def _distinct_from(node: DistinctFrom, batch: pa.RecordBatch) -> Datum:
    left, right = _evaluate(node.left, batch), _evaluate(node.right, batch)
    differs = pc.fill_null(compare("!=", left, right), False)
    return pc.or_(differs, pc.xor(_is_null(left), _is_null(right)))


def _is_null(datum: Datum) -> Datum:
    if isinstance(datum, pa.DictionaryArray) and datum.dictionary.null_count:
        return pc.is_null(datum.dictionary_decode())
    return pc.is_null(datum)


def _is_in(node: IsIn, batch: pa.RecordBatch) -> Datum:
    return _by_dictionary(
        _evaluate(node.operand, batch), lambda values: is_in(values, node.values, node.has_null)
    )


def _and(node: And, batch: pa.RecordBatch) -> Datum:
    result = _evaluate(node.parts[0], batch)
    for part in node.parts[1:]:
        result = pc.and_kleene(result, _evaluate(part, batch))
    return result


def _or(node: Or, batch: pa.RecordBatch) -> Datum:
    result = _evaluate(node.parts[0], batch)
    for part in node.parts[1:]:
        result = pc.or_kleene(result, _evaluate(part, batch))
    return result


def _starts_with(node: StartsWith, batch: pa.RecordBatch) -> Datum:
    return _by_dictionary(_evaluate(node.operand, batch), lambda values: pc.starts_with(values, node.prefix))


_EVALUATORS: dict[type[Expression], Callable[[Any, pa.RecordBatch], Datum]] = {
    Column: _column,
    Literal: lambda node, batch: node.value,
    Comparison: _comparison,
    DistinctFrom: _distinct_from,
    IsIn: _is_in,
    IsNull: lambda node, batch: _is_null(_evaluate(node.operand, batch)),
    And: _and,
    Or: _or,
    Not: lambda node, batch: pc.invert(_evaluate(node.operand, batch)),
    StartsWith: _starts_with,
    Cast: lambda node, batch: cast(_evaluate(node.operand, batch), node.data_type),
}
