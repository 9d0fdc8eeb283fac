"""Texts of one shape, which the parser reads once, mean the same as if it had read each of them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core.errors import InvalidInputError
from lance_core.expressions.parsing import sql
from lance_core.expressions.parsing.shapes import without_constants
from lance_core.expressions.parsing.sql import parse_filter
from lance_core.expressions.tree import columns, conjuncts, stored_only
from support.runs.draws import draws
from support.runs.each_case import each_case

SCHEMA = pa.schema(
    [
        ("n", pa.int32()),
        ("big", pa.int64()),
        ("s", pa.string()),
        ("t", pa.timestamp("us")),
        ("day", pa.date32()),
        ("x", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("flag", pa.bool_()),
        ("a1", pa.int8()),
        ("r", pa.struct([("c", pa.int16())])),
        ("l", pa.list_(pa.int32())),
    ]
)
SHARED = {
    "n = 7": "n = 0",
    "a1 = 7 AND s = 'it is 5'": "a1 = 0 AND s = '1'",
    "-7 < n OR NOT (x >= 2.5)": "-0 < n OR NOT (x >= 1)",
    "s IN ('a', 'b') AND n BETWEEN 1 AND 10": "s IN ('0', '1') AND n BETWEEN 2 AND 3",
    "s LIKE '%7' AND flag IS NOT TRUE": "s LIKE '0' AND flag IS NOT TRUE",
    "r.c = 300 AND n IN (5)": "r.c = 0 AND n IN (1)",
    "price = 1.25 AND 1 = 1": "price = 0 AND 1 = 2",
}
APART = [
    "n + 1 = 5",
    "x > 1e5",
    "x > .5 AND n = 3",
    "big = 12345678901234567890123 AND n = 0",
    "t > timestamp '2020-01-01'",
    "t > timestamp '2020-01-01T00:00:00Z'",
    "day = date '2020-01-01'",
    "CAST(n AS decimal(10, 2)) = 3",
    "t > timestamp '2020-01-01' - interval '3 days'",
    "s = x'00' OR n = 5",
    "s = 'a' 'b'",
    "l[0] = 3",
    "lower(s) = 'a'",
    "s LIKE 'a!%' ESCAPE '!'",
    "n = 5 AND CASE WHEN n = 1 THEN true ELSE false END",
]
NOT_CUT = [
    "`n` = 5",
    "s = 'it''s'",
    's = "a"',
    "n = 5 -- 6",
    "n = /* 7 */ 5",
    "s = 'a\\' OR n = 5",
    "flag",
    "s = 'a",
]
CONSTANTS = ["0", "1", "7", "-3", "127", "128", "2147483648", "999999999999999999", "9223372036854775808"]
CONSTANTS += [
    "2.5",
    "-0.0",
    "1.255",
    "'a'",
    "'7'",
    "'-'",
    "'%b_'",
    "'2020-01-01'",
    "NULL",
    "TRUE",
    "x'00'",
    "1e3",
]
NAMES = ["n", "big", "s", "t", "day", "x", "price", "flag", "a1", "A1", "r.c", "missing", "interval", "`n`"]


def meaning(text: str) -> object:
    """Return the expression of a text, or its error."""
    try:
        return parse_filter(text, SCHEMA)
    except InvalidInputError as error:
        return str(error)


@pytest.mark.parametrize(("text", "shape"), SHARED.items())
def test_texts_of_one_shape(text: str, shape: str) -> None:
    found = without_constants(text)
    assert found is not None
    assert found[0] == shape
    assert sql._tree_of_shape(shape, len(found[1])) is not None


@each_case("text", APART)
def test_texts_that_are_parsed_one_by_one(text: str) -> None:
    """sqlglot looks at the characters of these constants, or not all numbers are constants of the shape."""
    found = without_constants(text)
    assert found is None or sql._tree_of_shape(found[0], len(found[1])) is None


@pytest.mark.parametrize("text", NOT_CUT)
def test_texts_without_a_shape(text: str) -> None:
    assert without_constants(text) is None


@pytest.mark.parametrize("text", [*SHARED, *APART, *NOT_CUT])
def test_a_shape_means_the_same(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = meaning(text)
    monkeypatch.setattr(sql, "without_constants", lambda text: None)
    assert found == meaning(text)


constants = st.sampled_from(CONSTANTS)
names = st.sampled_from(NAMES)
operators = st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">=", "LIKE"])
terms = st.one_of(
    st.tuples(names, st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">=", "LIKE"]), constants).map(
        " ".join
    ),
    st.tuples(constants, st.sampled_from(["=", "<", ">="]), names).map(" ".join),
    st.tuples(names, st.sampled_from(["IN", "NOT IN"]), st.lists(constants, min_size=1, max_size=6)).map(
        lambda drawn: f"{drawn[0]} {drawn[1]} ({', '.join(drawn[2])})"
    ),
    st.tuples(names, constants, constants).map(lambda drawn: "{} BETWEEN {} AND {}".format(*drawn)),
    st.tuples(names, st.sampled_from(["IS NULL", "IS NOT NULL", "IS TRUE", "= n + 5", "-5 < 3"])).map(
        " ".join
    ),
)
conditions = st.recursive(
    terms,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR", "and"]), inner).map(" ".join),
        inner.map("NOT {}".format),
        inner.map("({})".format),
    ),
    max_leaves=4,
)


@settings(max_examples=draws(1500), deadline=None)
@given(conditions)
def test_drawn_conditions(text: str) -> None:
    """Conditions, and errors, are those of the parser that reads the whole text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sql, "without_constants", lambda text: None)
        expected = meaning(text)
    assert meaning(text) == expected


@settings(max_examples=draws(800), deadline=None)
@given(
    st.lists(st.tuples(names, operators, st.sampled_from(["{}", "({})"])), min_size=1, max_size=3),
    st.lists(st.lists(constants, min_size=3, max_size=3), min_size=2, max_size=4),
)
def test_what_a_shape_means_with_other_constants(
    terms: list[tuple[str, str, str]], asked: list[list[str]]
) -> None:
    """Texts of a shape that was read before mean what they mean to the parser, whatever came first."""
    for given_here in asked:
        parts = [
            around.format(f"{name} {op} {constant}")
            for (name, op, around), constant in zip(terms, given_here, strict=False)
        ]
        text = " AND ".join(parts)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sql, "without_constants", lambda text: None)
            expected = meaning(text)
        assert meaning(text) == expected


PLAIN = st.sampled_from(
    ["0", "7", "127", "128", "255", "256", "2147483648", "9223372036854775808", "1" + "0" * 20]
)


@settings(deadline=None, max_examples=draws(60))
@given(
    st.sampled_from(["n", "big", "a1", "u", "s", "wide", "word", "x", "r.c", "flag"]),
    st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
    st.one_of(PLAIN, st.sampled_from(["'7'", "'it''s'", "''"])),
    st.sampled_from(["{}", "NOT ({})", "({}) AND n = 1"]),
)
def test_a_constant_of_the_type_of_the_column_is_read_like_any_other_constant(
    column: str, op: str, constant: str, around: str
) -> None:
    """A constant in parentheses takes the way of all operands."""
    schema = pa.schema(
        [
            *SCHEMA,
            ("u", pa.uint8()),
            ("wide", pa.large_string()),
            ("word", pa.dictionary(pa.int8(), pa.string())),
        ]
    )

    def read(text: str) -> object:
        try:
            return parse_filter(around.format(text), schema)
        except InvalidInputError as error:
            return str(error)

    assert read(f"{column} {op} {constant}") == read(f"{column} {op} ({constant})")


def test_columns_of_texts_of_one_shape() -> None:
    """The second text of a shape is not parsed, and its columns are those of the first one."""
    for number in (1, 2):
        condition = parse_filter(f"big >= {number} AND r.c < {number} AND big < 3", SCHEMA)
        assert columns(condition) == (("big",), ("r", "c"))
        assert [columns(part) for part in conjuncts(condition)] == [(("big",),), (("r", "c"),), (("big",),)]
        assert stored_only(condition) == frozenset()
