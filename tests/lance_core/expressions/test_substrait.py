"""Filters as Substrait messages of Arrow, and as Arrow expressions."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.substrait import serialize_expressions

from lance_core.errors import InvalidInputError
from lance_core.expressions.evaluate import passing
from lance_core.expressions.parsing.arrow import parse_arrow
from lance_core.expressions.parsing.sql import parse_filter
from lance_core.expressions.parsing.substrait import parse_substrait
from lance_core.expressions.tree import ArrowExpression, Expression, IsIn, Not, columns
from lance_core.proto import substrait_pb2 as messages
from support.runs.draws import draws
from support.runs.each_case import each_case

NAN = math.nan
SCHEMA = pa.schema(
    [
        ("a", pa.int32()),
        ("s", pa.string()),
        ("x", pa.float64()),
        ("st", pa.struct([("skipped", pa.struct([("b", pa.int8())])), ("b", pa.int64())])),
        ("ts", pa.timestamp("us")),
        ("d", pa.date32()),
        ("dec", pa.decimal128(10, 2)),
        ("b", pa.bool_()),
        ("bin", pa.binary()),
        ("tz", pa.timestamp("us", "UTC")),
        ("t", pa.time64("us")),
        ("u", pa.uint32()),
        ("ls", pa.large_string()),
        ("a b", pa.int64()),
    ]
)
ROWS = [
    [1, "x", 1.0, {"b": 1}, dt.datetime(2021, 1, 1), dt.date(2019, 1, 1), Decimal("1.50"), True, b"x"],
    [2, "abc", 2.0, {"b": None}, dt.datetime(2019, 1, 1), dt.date(2020, 1, 1), Decimal("-2.00"), False, b"y"],
    [3, "a", NAN, None, None, None, None, None, None],
    [-4, "", -0.0, {"b": 2}, None, None, None, None, None],
    [None] * 9,
]
MORE = [
    [dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.time(1, 2), 2**32 - 1, "x", 1],
    *[[None] * 5] * 4,
]
TABLE = pa.table(
    [
        pa.array(column, field.type)
        for field, column in zip(
            SCHEMA, zip(*(row + more for row, more in zip(ROWS, MORE, strict=True)), strict=True), strict=True
        )
    ],
    schema=SCHEMA,
)
BATCH = TABLE.to_batches()[0]
F = pc.field


def rows(expression: Expression) -> list[int]:
    return [row for row, passes in enumerate(passing(expression, BATCH).to_pylist()) if passes]


def rows_by_arrow(expression: pc.Expression) -> list[int]:
    numbered = TABLE.append_column("number", pa.array(range(TABLE.num_rows)))
    return numbered.filter(expression)["number"].to_pylist()


def in_substrait(expression: pc.Expression) -> Expression:
    return parse_substrait(bytes(serialize_expressions([expression], ["filter"], SCHEMA)), SCHEMA)


SAME_AS_ARROW = [
    F("a") == 1,
    (F("a") > 1) & (F("s") != "x"),
    (F("a") > 2) | (F("a") < 0) | (F("s") == "abc"),
    ~F("b"),
    ~((F("a") > 1) & F("b")),
    F("a").isin([1, 2, 70_000]),
    F("s").isin(["a", "x"]),
    F("a").is_null(),
    F("a").is_valid(),
    F("st", "b") == 1,
    F("st").is_null(),
    F("ts") > dt.datetime(2020, 1, 1),
    F("d") < dt.date(2020, 1, 1),
    F("dec") == Decimal("-2.00"),
    F("dec") < Decimal("1.49"),
    F("bin") == b"x",
    F("tz") == pa.scalar(0, pa.timestamp("us", "UTC")),
    F("t") == dt.time(1, 2),
    F("u") > pa.scalar(3, pa.uint32()),
    F("ls") == "x",
    F("a b") == 1,
    F("x") < 1.5,
    F("x") == 0.0,
    F("x") != 1.0,
    F("x").is_nan(),
    pc.starts_with(F("s"), "a"),
    pc.ends_with(F("s"), "c"),
    pc.match_substring(F("s"), "b"),
    F("a") + 1 > 2,
    (F("a") - 1) * 2 <= 2,
    pc.coalesce(F("a"), 7) == 7,
    pc.if_else(F("a").is_valid(), F("a").isin([1]), pa.scalar(None, pa.bool_())),
    ~pc.if_else(F("a").is_valid(), F("a").isin([1]), pa.scalar(None, pa.bool_())),
    pc.if_else(F("a") > 1, F("s") == "abc", F("b")),
    pc.scalar(True),
]


@each_case("expression", SAME_AS_ARROW)
def test_both_ways_give_the_rows_of_arrow(expression: pc.Expression) -> None:
    assert rows(in_substrait(expression)) == rows_by_arrow(expression)
    assert rows(parse_arrow(expression, SCHEMA)) == rows_by_arrow(expression)


@each_case(
    "expression",
    [
        F("x") > 1.5,
        F("x") >= NAN,
        F("x") == NAN,
        ~(F("x") > 1.5),
        F("x").isin([0.0, NAN]),
        ~F("a").isin([1]),
        F("a").isin(pa.array([1, None], pa.int32())),
        F("a").isin([1]).is_null(),
        F("a").cast(pa.int64()) > 1,
        F("x").is_null(nan_is_null=True),
        pc.utf8_lower(F("s")) == "a",
        pc.match_like(F("s"), "a%"),
        pc.list_value_length(pc.scalar([1])) == 1,
    ],
)
def test_arrows_own_semantics_are_kept(expression: pc.Expression) -> None:
    parsed = parse_arrow(expression, SCHEMA)
    assert isinstance(parsed, ArrowExpression)
    assert rows(parsed) == rows_by_arrow(expression)


def test_nan_in_substrait_is_a_number() -> None:
    assert rows(in_substrait(F("x") > 1.5)) == [1, 2]
    assert rows(in_substrait(F("x") == NAN)) == [2]
    assert rows(in_substrait(F("x").isin([0.0, NAN]))) == [2, 3]


def test_shared_meanings_become_the_tree() -> None:
    guarded = pc.if_else(F("a").is_valid(), F("a").isin([1, 2]), pa.scalar(None, pa.bool_()))
    assert isinstance(parse_arrow(guarded, SCHEMA), IsIn)
    assert isinstance(parse_arrow(~guarded, SCHEMA), Not)
    assert columns(parse_arrow(F("st", "b") == 1, SCHEMA)) == (("st", "b"),)


def test_columns_of_an_arrow_expression() -> None:
    expression = (F("x") > 1.5) & (F("a b") == 1) & (pc.utf8_upper(F("s")) == "a ls st")
    assert set(columns(parse_arrow(expression, SCHEMA))) == {("x",), ("a b",), ("s",)}


@pytest.mark.parametrize("expression", [F("nope") == 1, F("a") + 1, F("s") == 1, pc.field(0) == 1], ids=str)
def test_unfit_arrow_expressions_are_refused(expression: pc.Expression) -> None:
    with pytest.raises(InvalidInputError):
        parse_arrow(expression, SCHEMA)


def test_columns_are_found_by_name() -> None:
    """The message counts the fields of its own schema, which need not be that of the table."""
    part = pa.schema([SCHEMA.field("st"), SCHEMA.field("s")])
    data = bytes(serialize_expressions([F("st", "b") == 2], ["filter"], part))
    assert rows(parse_substrait(data, SCHEMA)) == [3]
    with pytest.raises(InvalidInputError, match="'st'"):
        parse_substrait(data, pa.schema([SCHEMA.field("s")]))


def test_overflow_is_an_error_where_the_message_says_so() -> None:
    with pytest.raises(InvalidInputError, match="overflow"):
        rows(in_substrait(F("a") * pa.scalar(2**31 - 1, pa.int32()) > pa.scalar(0, pa.int32())))


def nested(levels: int) -> bytes:
    """`NOT NOT ... true`, of so many levels."""
    data = messages.Expression(literal=messages.Literal(boolean=True)).SerializeToString()
    for _ in range(levels):
        argument = messages.FunctionArgument(value=data)
        call = messages.ScalarFunction(function_reference=1, arguments=[argument])
        data = messages.Expression(scalar_function=call).SerializeToString()
    return message(data, "not:bool")


def message(expression: bytes, function: str) -> bytes:
    declared = messages.SimpleExtensionDeclaration.ExtensionFunction(function_anchor=1, name=function)
    return messages.ExtendedExpression(
        extensions=[messages.SimpleExtensionDeclaration(extension_function=declared)],
        referred_expr=[messages.ExpressionReference(expression=expression)],
    ).SerializeToString()


def test_long_chains_of_conditions() -> None:
    """Protobuf alone refuses a hundred nested messages, which are some thirty conditions."""
    chain = false = messages.Expression(literal=messages.Literal(boolean=False)).SerializeToString()
    for _ in range(1_000):
        arguments = [messages.FunctionArgument(value=part) for part in (chain, false)]
        call = messages.ScalarFunction(function_reference=1, arguments=arguments)
        chain = messages.Expression(scalar_function=call).SerializeToString()
    assert rows(parse_substrait(message(chain, "or"), SCHEMA)) == []


def test_deep_arrow_expressions_stay_arrows() -> None:
    """T20: Arrow's time to write an expression as Substrait doubles with each level."""
    expression = F("a") == 1
    for value in range(2, 40):
        expression = expression | (F("a") == value)
    assert rows(parse_arrow(expression, SCHEMA)) == [0, 1, 2]


def test_depth_is_limited() -> None:
    """T20: deep messages are refused, and do not exhaust the stack."""
    assert rows(parse_substrait(nested(100), SCHEMA)) == [0, 1, 2, 3, 4]
    for levels in (300, 5_000):
        with pytest.raises(InvalidInputError, match=r"levels|deeply"):
            parse_substrait(nested(levels), SCHEMA)


def test_functions_are_known_by_name() -> None:
    """T20: an allow-list of functions."""
    call = messages.ScalarFunction(function_reference=1)
    data = messages.Expression(scalar_function=call).SerializeToString()
    for name in ("sleep", "read_file", "equal", "and", ""):
        with pytest.raises(InvalidInputError):
            parse_substrait(message(data, name), SCHEMA)


@settings(max_examples=draws(300), deadline=None)
@given(st.data())
def test_damaged_messages_are_refused(data: st.DataObject) -> None:
    """T20: any bytes give a filter, or an error that says what is wrong."""
    expression = data.draw(st.sampled_from(SAME_AS_ARROW))
    given_bytes = bytearray(serialize_expressions([expression], ["filter"], SCHEMA))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(given_bytes) - 1))
        given_bytes[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, 20))
    with contextlib.suppress(InvalidInputError):
        passing(parse_substrait(bytes(given_bytes[: len(given_bytes) - cut]), SCHEMA), BATCH)


def test_case_in_sql_and_substrait_agree() -> None:
    in_sql = parse_filter("CASE WHEN a > 1 THEN s = 'abc' ELSE b END", SCHEMA)
    assert rows(in_sql) == rows(in_substrait(pc.if_else(F("a") > 1, F("s") == "abc", F("b"))))


LEAVES = st.one_of(
    st.builds(
        lambda op, name, value: getattr(F(name), op)(value),
        st.sampled_from(["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"]),
        st.just("a"),
        st.sampled_from([1, 2, -4, 0, None]).map(lambda value: pa.scalar(value, pa.int32())),
    ),
    st.builds(
        lambda op, value: getattr(F("x"), op)(value),
        st.sampled_from(["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"]),
        st.sampled_from([1.0, 0.0, -0.0, NAN, math.inf]).map(pa.scalar),
    ),
    st.sampled_from([F("b"), F("a").is_null(), F("x").is_valid(), F("s") == "a", F("x") < F("a")]),
    st.lists(st.sampled_from([1, 2, -4]), min_size=1).map(lambda values: F("a").isin(values)),
    st.lists(st.sampled_from([0.0, NAN, 1.0]), min_size=1).map(lambda values: F("x").isin(values)),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
        inner.map(lambda condition: ~condition),
        inner.map(lambda condition: condition.is_null()),
        inner.map(lambda condition: pc.if_else(condition, F("b"), F("a") == 1)),
    ),
    max_leaves=4,
)


@settings(max_examples=draws(300), deadline=None)
@given(CONDITIONS)
def test_generated_arrow_expressions_pass_the_rows_of_arrow(expression: pc.Expression) -> None:
    assert rows(parse_arrow(expression, SCHEMA)) == rows_by_arrow(expression)
