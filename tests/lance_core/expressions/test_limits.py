"""Hostile expressions: all are refused in time, with an error that names the limit. T20"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core.errors import InvalidInputError
from lance_core.expressions.evaluate import evaluate, passing
from lance_core.expressions.parsing.complexity_limits import (
    MAX_DEPTH,
    MAX_LITERALS,
    MAX_NODES,
    MAX_TEXT,
    check_limits,
)
from lance_core.expressions.parsing.sql import parse_expression, parse_filter
from lance_core.expressions.tree import Case, Column, Comparison, Expression, Literal, Not
from support.runs.draws import draws
from support.searches import plain_sql

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


LONG = 1 << 15


@pytest.mark.parametrize(
    "part",
    ["a" * LONG, "a" * LONG + "b" + "a" * LONG],
    ids=["found everywhere", "differs in its middle"],
)
@pytest.mark.parametrize("length", [1 << 23, LONG - 1], ids=["long", "shorter than the part"])
def test_long_parts_of_uniform_texts_take_linear_time(length: int, part: str) -> None:
    """T20: a part was compared at each byte, also at those of a part that was found, and across texts."""
    batch = pa.record_batch({"s": pa.array(["a" * length] * ((1 << 23) // length))})
    expected = [part in text for text in batch["s"].to_pylist()]
    started = time.process_time()
    assert passing(parse_filter(f"s LIKE '%{part}%'", batch.schema), batch).to_pylist() == expected
    replaced = parse_filter(f"length(replace(s, '{part}', '')) < length(s)", batch.schema)
    assert passing(replaced, batch).to_pylist() == expected
    assert time.process_time() - started < 2


GROWING = [
    "repeat(s, 65536)",
    "lpad(s, 65536)",
    "rpad(s, 65536, 'é')",
    "replace(s, 'a', '{long}')",
    "regexp_replace(s, '.', '{long}', 'g')",
    "regexp_replace(s, '(.*)', '{references}')",
    "s || '{long}'",
    "concat(s, '{long}', s)",
    "concat_ws('{long}', s, s, s)",
    "CASE WHEN s > '5' THEN '{long}' ELSE s END",
    "coalesce(nullif(s, s), '{long}')",
    "concat(repeat(s, 10000), repeat(s, 10000), repeat(s, 10000), repeat(s, 10000), repeat(s, 10000))",
]


@contextlib.contextmanager
def most_bytes() -> Iterator[list[int]]:
    """Yield a list that has the most bytes that Arrow held in the block after its end."""
    usual, found = pa.default_memory_pool(), [0]
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    try:
        yield found
    finally:
        found[0] = pool.max_memory()
        pa.set_memory_pool(usual)


@pytest.mark.parametrize("text", GROWING)
def test_long_values_are_computed_in_parts(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """T20: the values of all rows have up to 400 MB, and are never there together."""
    monkeypatch.setattr("lance_core.expressions.evaluate.MOST_HELD_BYTES", 4 << 20)
    batch = pa.record_batch({"s": pa.array([f"{row % 10}aaaa56789" for row in range(600)])})
    text = text.format(long="z" * 70_000, references="\\1" * 60_000)
    with most_bytes() as found:
        assert passing(parse_filter(f"octet_length({text}) > 1000", batch.schema), batch).true_count > 200
    assert found[0] < 16 << 20


PARTS = [
    *plain_sql.FILTERS,
    *plain_sql.EXPRESSIONS,
    "repeat(s, 3) || replace(s, 'a', 'bcd')",
    "repeat(dict, 2)",
    "CASE WHEN x <> 0 THEN 10 / x ELSE 0 END",
]


@pytest.mark.parametrize("text", PARTS)
def test_parts_give_the_same_values(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """T20: the values do not depend on the parts in which they are computed."""
    (batch,) = plain_sql.TABLE.combine_chunks().to_batches()
    try:
        expression = parse_expression(text, batch.schema)
        whole = evaluate(expression, batch)
    except InvalidInputError:
        pytest.skip("has no value")
    monkeypatch.setattr("lance_core.expressions.evaluate.MOST_HELD_BYTES", whole.nbytes // 2)
    parts = evaluate(expression, batch)
    assert (str(parts.to_pylist()), parts.type) == (str(whole.to_pylist()), whole.type)


def test_what_is_too_long_for_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """T20: values that do not fit, and constants that are computed when an expression is bound."""
    batch = pa.record_batch({"s": pa.array(["abc"] * 100)})
    for text, words in [
        ("length(repeat(repeat(s, 60000), 60000)) > 0", "for one row have more than"),
        ("s = repeat(repeat('x', 60000), 60000)", "for one row have more than"),
        ("s = repeat('xx', 65000)", "computed from short ones"),
    ]:
        with pytest.raises(InvalidInputError, match=words):
            passing(parse_filter(text, batch.schema), batch)
    monkeypatch.setattr("lance_core.expressions.evaluate.MOST_HELD_BYTES", 1 << 20)
    monkeypatch.setattr("lance_core.expressions.evaluate.MOST_RESULT_BYTES", 4 << 20)
    with pytest.raises(InvalidInputError, match="rows have more than 4194304 bytes"):
        evaluate(parse_expression("repeat(s, 60000)", batch.schema), batch)


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
    batch = plain_sql.TABLE.to_batches()[0]
    with contextlib.suppress(InvalidInputError):
        found = passing(parse_filter(text, batch.schema), batch)
        assert len(found) == batch.num_rows


@settings(max_examples=draws(300), deadline=None)
@given(st.data())
def test_mutated_texts(data: st.DataObject) -> None:
    """T20: filters with characters taken away, put in or exchanged."""
    known = plain_sql.FILTERS + plain_sql.EXPRESSIONS
    text = list(data.draw(st.sampled_from(known)))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text)))
        text[place : place + data.draw(st.integers(0, 2))] = data.draw(st.text(max_size=2))
    batch = plain_sql.TABLE.to_batches()[0]
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
