"""Questions to indices, from the conditions of a filter."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as types

from lance_core.encodings.json_values import member_path
from lance_core.expressions import tree
from lance_core.expressions.builders import shown
from lance_core.expressions.letters import words_of
from lance_core.expressions.patterns import literal_texts, required_texts
from lance_core.index.json.values import JsonValue
from lance_core.index.scalar.questions import (
    Between,
    HasLabels,
    HasTexts,
    HasWords,
    IsNull,
    OneOf,
    Question,
    StartsWith,
)
from lance_core.schema.arrow_values import scalar_of

_HAS_ONE = frozenset({"array_has", "array_contains", "list_has", "list_contains"})
_HAS_ANY = frozenset({"array_has_any", "list_has_any"})
_HAS_ALL = frozenset({"array_has_all", "list_has_all"})
_TYPED_MEMBERS = frozenset({"json_get_string", "json_get_int", "json_get_float", "json_get_bool"})
_MOST_SHOWN = 10
"""Most values of a list in the text of a question."""
_OPPOSITES = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True)
class Asked:
    """One condition on one column, or on a value inside the JSON of a column.

    Attributes:
        path: Path of the column.
        question: What an index is asked.
        negated: Whether the condition is true for the rows that the question is false for. For the other
            rows, which are null, neither is true.
        is_whole: Whether the question means the condition; otherwise only rows that meet the question meet
            the condition, and not all of them.
        json: The value inside JSON; None for the values of the column.
    """

    path: tree.Path
    question: Question
    negated: bool
    is_whole: bool = True
    json: JsonValue | None = None


def num_question_bytes(question: Asked) -> int:
    """Return the bytes of the constants of a question, which a filter with a list may have many of."""
    match question.question:
        case OneOf(values=values) | HasLabels(labels=values):
            return int(values.nbytes)
        case StartsWith(prefix=prefix):
            return len(prefix)
        case HasTexts(texts=texts) | HasWords(words=texts):
            return sum(map(len, texts))
    return 0


def question_text(question: Asked) -> str:
    """Return a question as the plans of the reference write it, such as `n >= 3 && n < 7`."""
    text = _text(".".join(question.path), question.question)
    if question.json is not None:
        text = f"Json({text}->{'.'.join(question.json.keys)})"
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
        case HasWords():
            return f'contains_tokens({column}, Utf8("{" ".join(question.words)}"))'
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
        case tree.IsNull():
            subject, question = _subject(node.operand), IsNull()
            if subject is None or (subject.json is not None and subject.json.is_text):
                return None  # the text of JSON null is no null
            return _asked(subject, question, negated)
        case tree.Comparison(right=tree.Literal() as constant):
            subject = _subject(node.left)
            return None if subject is None else _comparison(node.op, subject, constant.value, negated)
        case tree.IsIn():
            subject = _subject(node.operand)
            if subject is None or node.values.type != subject.type or (negated and node.has_null):
                return None
            return _asked(subject, OneOf(node.values), negated)
        case tree.DistinctFrom(right=tree.Literal() as constant):
            # The condition itself is true for nulls, too.
            subject = _subject(node.left)
            return (
                None if subject is None or not negated else _comparison("=", subject, constant.value, False)
            )
        case tree.StartsWith():
            prefix = node.prefix.encode() if isinstance(node.prefix, str) else node.prefix
            return _asked(_subject(node.operand), StartsWith(prefix), negated)
        case tree.Like():
            return None if negated else _like(node, _subject(node.operand))
        case tree.Call(arguments=(inner, tree.Literal() as other)) if _is_true_with(node.function, other):
            return None if negated else asked(inner, negated=False)
        case tree.Column() | tree.Call() if types.is_boolean(node.type) and (subject := _subject(node)):
            return _asked(subject, OneOf(pa.repeat(scalar_of(not negated), 1)), negated=False)
        case tree.Call(arguments=(column, tree.Literal() as constant)):
            subject = _subject(column)
            return None if subject is None else _call(node.function, subject, constant.value, negated)
    return None


def _is_true_with(function: str, other: tree.Literal) -> bool:
    """Return whether a function of a condition and a constant is true for the rows that meet the condition,
    and for no other rows.
    """
    return function in ("coalesce", "nullif") and other.value.equals(scalar_of(False))


@dataclass(frozen=True)
class _Subject:
    """Subject of a condition: a column, or a value inside the JSON of a column."""

    path: tree.Path
    type: pa.DataType
    json: JsonValue | None = None


def _subject(node: tree.Expression) -> _Subject | None:
    match node:
        case tree.Column():
            return _Subject(node.path, node.type)
        case tree.Call(
            function="json_extract", arguments=(tree.StoredJson() as column, tree.Literal() as path)
        ):
            keys = member_path(path.value.as_py()) if path.value.is_valid else None
            if keys is not None:
                return _Subject(column.path, node.type, JsonValue(keys, node.type, is_text=True))
        case tree.Call(arguments=(document, tree.Literal() as key)) if node.function in _TYPED_MEMBERS:
            found = _member(document, key.value)
            if found is not None:
                return _Subject(found[0], node.type, JsonValue(found[1], node.type))
    return None


def _member(document: tree.Expression, key: pa.Scalar) -> tuple[tree.Path, tuple[str, ...]] | None:
    """Return the column of a member of JSON, and the keys that lead to the member."""
    if not key.is_valid:
        return None
    match document:
        case tree.StoredJson():
            return document.path, (key.as_py(),)
        case tree.Call(function="json_get", arguments=(outer, tree.Literal() as above)):
            found = _member(outer, above.value)
            return None if found is None else (found[0], (*found[1], key.as_py()))
    return None


def _asked(
    subject: _Subject | None, question: Question, negated: bool, *, is_whole: bool = True
) -> Asked | None:
    """Return a question about a subject. Indices have values of JSON, not their text: what they find for a
    text are candidates.
    """
    if subject is None:
        return None
    if subject.json is not None and subject.json.is_text:
        if not isinstance(question, OneOf):
            return None
        is_whole = False
    return Asked(subject.path, question, negated, is_whole, subject.json)


def _comparison(op: str, subject: _Subject, value: pa.Scalar, negated: bool) -> Asked | None:
    if not value.is_valid or value.type != subject.type:
        return None
    if op in ("=", "!="):
        return _asked(subject, OneOf(pa.repeat(value, 1)), negated != (op == "!="))
    op = _OPPOSITES[op] if negated else op
    if op in ("<", "<="):
        return _asked(subject, Between(high=value, with_high=op == "<="), negated=False)
    return _asked(subject, Between(low=value, with_low=op == ">="), negated=False)


def _like(node: tree.Like, subject: _Subject | None) -> Asked | None:
    """Return the question for the texts of a pattern: for its prefix, if it begins with a text."""
    if subject is None or node.ignore_case:
        return None
    texts = literal_texts(node.pattern, node.escape)
    if len(texts) == 1 and texts[0] == node.pattern:
        return _asked(subject, OneOf(pa.array(texts, subject.type)), negated=False)
    return _asked(subject, HasTexts(tuple(texts)), negated=False, is_whole=False) if texts else None


def _call(function: str, subject: _Subject, value: pa.Scalar, negated: bool) -> Asked | None:
    """Return the question for a call with a constant."""
    if not value.is_valid:
        return None
    if (candidates := _candidates(function, value)) is not None:
        return None if negated else _asked(subject, candidates, negated=False, is_whole=False)
    if subject.json is not None:
        return None
    if function in _HAS_ONE and value.type == subject.type.value_type:
        return _asked(subject, HasLabels(pa.repeat(value, 1), every=False), negated)
    if function in _HAS_ANY and value.type == subject.type:
        labels = value.values.drop_null()
        return _asked(subject, HasLabels(labels, every=False), negated)
    if function in _HAS_ALL and value.type == subject.type and not value.values.null_count:
        return _asked(subject, HasLabels(value.values, every=True), negated)
    return None


def _candidates(function: str, value: pa.Scalar) -> Question | None:
    """Return the question for texts that contain something; it finds candidates."""
    if function == "contains":
        return HasTexts((value.as_py(),))
    if function == "regexp_like":
        texts = required_texts(value.as_py())
        return HasTexts(tuple(texts)) if texts else None
    if function == "contains_tokens":
        words = words_of(value.as_py())
        return HasWords(tuple(dict.fromkeys(words))) if words else None
    return None
