"""Hostile expressions: all are refused in time, with an error that names the limit. T20"""

from __future__ import annotations

import contextlib
import time

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core.errors import InvalidInputError
from lance_core.expressions.complexity_limits import (
    MAX_DEPTH,
    MAX_LITERALS,
    MAX_NODES,
    MAX_TEXT,
    check_limits,
)
from lance_core.expressions.evaluate import evaluate, passing
from lance_core.expressions.sql import parse_expression, parse_filter
from lance_core.expressions.tree import Case, Column, Comparison, Expression, Literal, Not
from support import sql_cases
from support.draws import draws

BATCH = pa.record_batch({"x": pa.array([0, 1, 2, None, 5]), "s": pa.array(["1", "a", None, "7", "9"])})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(" * 100_000 + "x" + ")" * 100_000 + " = 1", "deeply"),
        ("NOT " * 100_000 + "x = 1", "deeply"),
        ("CASE WHEN " * 10_000, "deeply"),
        ("x[" * 10_000 + "1" + "]" * 10_000, "deeply"),
        ("x" + " + 1" * MAX_DEPTH + " = 1", f"{MAX_DEPTH} levels"),
        ("x = 1" + " OR x = 2" * MAX_NODES, f"{MAX_NODES} operations"),
        (f"x IN ({', '.join(map(str, range(MAX_LITERALS + 1)))})", f"{MAX_LITERALS} literals"),
        ("x = 1 " + " " * MAX_TEXT, f"{MAX_TEXT} are allowed"),
        ("struct(" * 40 + "x", "no sense"),
        ("-" * 100_000 + "x = 1", "empty"),
        ("x = '" + "'" * 100_000, "x|quote"),
        ("repeat(s, 1000000000) = 'a'", "copies"),
        ("lpad(s, 1000000000) = 'a'", "characters"),
        ("regexp_like(s, '" + "(" * 100 + "')", "regular expression"),
        ("regexp_like(s, '((a{1000}){1000}){1000}')", "regular expression"),
    ],
    ids=range(15),
)
def test_what_is_too_large_is_refused(text: str, words: str) -> None:
    """T20: depth, nodes, literals, length, memory and patterns."""
    started = time.process_time()
    with pytest.raises(InvalidInputError, match=words):
        passing(parse_filter(text, BATCH.schema), BATCH)
    assert time.process_time() - started < 10


def test_what_is_large_but_allowed() -> None:
    """T20: the limits are no lower than they say."""
    chain = " OR ".join(f"x = {value}" for value in range(500))
    assert sum(passing(parse_filter(chain, BATCH.schema), BATCH).to_pylist()) == 4
    values = f"x IN ({', '.join(map(str, range(MAX_LITERALS)))})"
    assert sum(passing(parse_filter(values, BATCH.schema), BATCH).to_pylist()) == 4
    brackets = "(" * 30 + "x = 1" + ")" * 30
    assert sum(passing(parse_filter(brackets, BATCH.schema), BATCH).to_pylist()) == 1


def test_depth_costs_no_stack() -> None:
    """T20: evaluation does not recurse."""
    node: Expression = Comparison("=", Column(("x",), pa.int64()), Literal(pa.scalar(1)))
    for _ in range(20_000):
        node = Not(node)
    assert passing(node, BATCH).to_pylist() == [False, True, False, False, False]
    with pytest.raises(InvalidInputError, match=f"{MAX_DEPTH} levels"):
        check_limits(node)


def test_catastrophic_patterns_take_linear_time() -> None:
    """T20: RE2 does not go back."""
    batch = pa.record_batch({"s": pa.array(["a" * 5_000 + "!"])})
    started = time.process_time()
    assert passing(parse_filter("regexp_like(s, '^(a+)+$')", batch.schema), batch).to_pylist() == [False]
    assert passing(parse_filter("s LIKE '%a%a%a%a%a%a%a%a%b'", batch.schema), batch).to_pylist() == [False]
    assert time.process_time() - started < 2


WORDS = r"""
id x s st l dict ts d dec bin ( ) [ ] , . = <> < >= + - * / % || :: -> and or not in is null true like between
case when then else end cast as int string struct array map interval '1 day' 'a' "b" `id` 1 2.5 x'ff' date
timestamp lower coalesce array_has select from exists distinct escape ilike ; -- /* */ ' " ` $1 ? @ \ é
"""
TOKENS = st.sampled_from(WORDS.split())


@settings(max_examples=draws(300), deadline=None)
@given(st.lists(TOKENS, max_size=14).map(" ".join) | st.text(max_size=30))
def test_any_text_gives_a_filter_or_an_error_of_ours(text: str) -> None:
    """T20: no traceback of the parser, no RecursionError, nothing but InvalidInputError."""
    batch = sql_cases.PLAIN.to_batches()[0]
    with contextlib.suppress(InvalidInputError):
        found = passing(parse_filter(text, batch.schema), batch)
        assert len(found) == batch.num_rows


@settings(max_examples=draws(300), deadline=None)
@given(st.data())
def test_mutated_texts(data: st.DataObject) -> None:
    """T20: filters with characters taken away, put in or exchanged."""
    known = sql_cases.PLAIN_FILTERS + sql_cases.PLAIN_EXPRESSIONS
    text = list(data.draw(st.sampled_from(known)))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text)))
        text[place : place + data.draw(st.integers(0, 2))] = data.draw(st.text(max_size=2))
    batch = sql_cases.PLAIN.to_batches()[0]
    with contextlib.suppress(InvalidInputError):
        passing(parse_filter("".join(text), batch.schema), batch)


@pytest.mark.parametrize(
    "around",
    [
        "coalesce({}, x)",
        "coalesce(nullif(x, x), {})",
        "nvl2(nullif(x, x), 1, {})",
        "CASE WHEN x = 0 THEN {} ELSE 1 END",
        "CASE WHEN {} > 1 THEN x ELSE 1 END",
        "CASE WHEN x > 0 OR NOT {} > 1 THEN 1 ELSE 0 END",
    ],
)
def test_nested_choices_without_a_value(around: str) -> None:
    """T20: each level evaluated its operand twice, so that 14 levels took eight seconds."""
    text = "6 / x"
    for _ in range(14):
        text = around.format(text)
    expression = parse_expression(text, BATCH.schema)
    started = time.process_time()
    with pytest.raises(InvalidInputError, match="divide by zero"):
        evaluate(expression, BATCH)
    assert time.process_time() - started < 1


def test_choices_nested_too_deeply() -> None:
    """T20: a choice whose operand has no value recurses."""
    is_zero = parse_expression("x = 0", BATCH.schema)
    node = parse_expression("6 / x", BATCH.schema)
    for _ in range(2_000):
        node = Case(((is_zero, node),), Literal(pa.scalar(1)))
    with pytest.raises(InvalidInputError, match="nested too deeply"):
        evaluate(node, BATCH)
