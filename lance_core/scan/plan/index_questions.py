"""Questions to indices, from the conditions of a filter."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as types

from lance_core.expressions import tree
from lance_core.expressions.builders import shown
from lance_core.expressions.patterns import literal_texts
from lance_core.index.scalar.questions import (
    Between,
    HasLabels,
    HasTexts,
    IsNull,
    OneOf,
    Question,
    StartsWith,
)

_HAS_ONE = frozenset({"array_has", "array_contains", "list_has", "list_contains"})
_HAS_ANY = frozenset({"array_has_any", "list_has_any"})
_HAS_ALL = frozenset({"array_has_all", "list_has_all"})
_MOST_SHOWN = 10
"""Most values of a list in the text of a question."""
_OPPOSITES = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True)
class Asked:
    """One condition on one column.

    Attributes:
        question: What an index is asked.
        negated: Whether the condition is true for the rows that the question is false for. For the other
            rows, which are null, neither is true.
        is_whole: Whether the question means the condition; otherwise only rows that meet the question meet
            the condition, and not all of them.
    """

    path: tree.Path
    question: Question
    negated: bool
    is_whole: bool = True


def question_text(question: Asked) -> str:
    """Return a question as the plans of the reference write it, such as `n >= 3 && n < 7`."""
    text = _text(".".join(question.path), question.question)
    return f"NOT({text})" if question.negated else text


def _text(column: str, question: Question) -> str:
    match question:
        case OneOf(values=values):
            some = ",".join(shown(value) for value in values[:_MOST_SHOWN])
            rest = f",... {len(values)} values" if len(values) > _MOST_SHOWN else ""
            return f"{column} = {some}" if len(values) == 1 else f"{column} IN [{some}{rest}]"
        case Between():
            sides = []
            if question.low is not None:
                sides.append(f"{column} {'>=' if question.with_low else '>'} {shown(question.low)}")
            if question.high is not None:
                sides.append(f"{column} {'<=' if question.with_high else '<'} {shown(question.high)}")
            return " && ".join(sides)
        case IsNull():
            return f"{column} IS NULL"
        case StartsWith():
            return f"starts_with({column}, {question.prefix!r})"
        case HasTexts():
            return " && ".join(f'contains({column}, Utf8("{text}"))' for text in question.texts)
        case HasLabels():
            labels = ",".join(shown(label) for label in question.labels[:_MOST_SHOWN])
            return f"array_has_{'all' if question.every else 'any'}({column}, [{labels}])"


def asked(node: tree.Expression, *, negated: bool) -> Asked | None:
    """Return the question that a condition without AND, OR and NOT asks; None for other conditions.

    Args:
        node: The condition.
        negated: Whether the rows are wanted for which it is false.
    """
    match node:
        case tree.Column() if types.is_boolean(node.type):
            return Asked(node.path, OneOf(pa.array([not negated])), negated=False)
        case tree.IsNull(operand=tree.Column() as column):
            return Asked(column.path, IsNull(), negated)
        case tree.Comparison(left=tree.Column() as column, right=tree.Literal() as constant):
            return _comparison(node.op, column, constant.value, negated)
        case tree.IsIn(operand=tree.Column() as column):
            if node.values.type != column.type or (negated and node.has_null):
                return None
            return Asked(column.path, OneOf(node.values), negated)
        case tree.DistinctFrom(left=tree.Column() as column, right=tree.Literal() as constant):
            # The condition itself is true for nulls, too.
            return _comparison("=", column, constant.value, False) if negated else None
        case tree.StartsWith(operand=tree.Column() as column):
            prefix = node.prefix.encode() if isinstance(node.prefix, str) else node.prefix
            return Asked(column.path, StartsWith(prefix), negated)
        case tree.Like(operand=tree.Column() as column):
            return None if negated else _like(node, column)
        case tree.Call(arguments=(tree.Column() as column, tree.Literal() as constant)):
            return _call(node.function, column, constant.value, negated)
    return None


def _comparison(op: str, column: tree.Column, value: pa.Scalar, negated: bool) -> Asked | None:
    if not value.is_valid or value.type != column.type:
        return None
    if op in ("=", "!="):
        return Asked(column.path, OneOf(pa.repeat(value, 1)), negated != (op == "!="))
    op = _OPPOSITES[op] if negated else op
    if op in ("<", "<="):
        return Asked(column.path, Between(high=value, with_high=op == "<="), False)
    return Asked(column.path, Between(low=value, with_low=op == ">="), False)


def _like(node: tree.Like, column: tree.Column) -> Asked | None:
    """Return the question for the texts of a pattern: for its prefix, if it begins with a text."""
    if node.ignore_case:
        return None
    texts = literal_texts(node.pattern, node.escape)
    if len(texts) == 1 and texts[0] == node.pattern:
        return Asked(column.path, OneOf(pa.array(texts, column.type)), False)
    return Asked(column.path, HasTexts(tuple(texts)), False, is_whole=False) if texts else None


def _call(function: str, column: tree.Column, value: pa.Scalar, negated: bool) -> Asked | None:
    if not value.is_valid:
        return None
    if function == "contains":
        return None if negated else Asked(column.path, HasTexts((value.as_py(),)), False, is_whole=False)
    if function in _HAS_ONE and value.type == column.type.value_type:
        return Asked(column.path, HasLabels(pa.repeat(value, 1), every=False), negated)
    if function in _HAS_ANY and value.type == column.type:
        labels = value.values.drop_null()
        return Asked(column.path, HasLabels(labels, every=False), negated)
    if function in _HAS_ALL and value.type == column.type and not value.values.null_count:
        return Asked(column.path, HasLabels(value.values, every=True), negated)
    return None
