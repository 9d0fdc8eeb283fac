"""Generated predicates on generated rows pass the rows that the reference passes, and DuckDB."""

from __future__ import annotations

import datetime as dt
import math
import re
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_core.expressions.evaluate import passing
from lance_core.expressions.parsing.sql import parse_filter
from support.runs.draws import draws

NAN, INF = math.nan, math.inf
ROWS = 12
INTEGERS = {
    "i8": pa.int8(),
    "i16": pa.int16(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "u8": pa.uint8(),
    "u16": pa.uint16(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
}
FLOATS = {"f16": pa.float16(), "f32": pa.float32(), "f64": pa.float64()}
TEXTS = {"s": pa.string(), "ls": pa.large_string(), "dict": pa.dictionary(pa.int8(), pa.string())}
MOMENTS = {"ts": pa.timestamp("us"), "ms": pa.timestamp("ms"), "tz": pa.timestamp("us", "Europe/Berlin")}
OTHERS = {
    "b": pa.bool_(),
    "bin": pa.binary(),
    "fsb": pa.binary(2),
    "d": pa.date32(),
    "dec": pa.decimal128(12, 2),
}
TYPES = {**INTEGERS, **FLOATS, **TEXTS, **MOMENTS, **OTHERS}
EPOCH = dt.datetime(1970, 1, 1)
FEW_TEXTS = ["", "a", "ab", "abc", "B", "a%b", "a_b", "é", "zz", "it's", 'say "a"']
FEW_FLOATS = [0.0, -0.0, 1.5, -1.5, 2.0, NAN, INF, -INF, 65504.0]
FEW_MOMENTS = [
    EPOCH + dt.timedelta(milliseconds=step) for step in (-86_400_001, -1, 0, 1, 1_000, 951_782_400_123)
]


def bounds(data_type: pa.DataType) -> tuple[int, int]:
    bits = data_type.bit_width
    return (
        (0, 2**bits - 1)
        if pa.types.is_unsigned_integer(data_type)
        else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )


def plain_values(name: str) -> st.SearchStrategy[Any]:
    data_type = TYPES[name]
    if name in INTEGERS:
        low, high = bounds(data_type)
        return st.sampled_from([low, high, max(low, -1), 0, 1, 2, 3]) | st.integers(low, high)
    if name in FLOATS:
        return st.sampled_from(FEW_FLOATS)
    if name in TEXTS:
        return st.sampled_from(FEW_TEXTS)
    if name in MOMENTS:
        return st.sampled_from(FEW_MOMENTS)
    return {
        "b": st.booleans(),
        "bin": st.sampled_from([b"", b"a", b"\x00\xff", b"ab"]),
        "fsb": st.sampled_from([b"ab", b"\x00\xff"]),
        "d": st.sampled_from([dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2020, 2, 29)]),
        "dec": st.sampled_from([Decimal("0.00"), Decimal("1.50"), Decimal("-2.00"), Decimal("3.00")]),
    }[name]


def column(name: str) -> st.SearchStrategy[pa.Array]:
    def build(values: list[Any]) -> pa.Array:
        data_type = TYPES[name]
        if name == "f16":
            return pa.array([None if value is None else np.float16(value) for value in values], data_type)
        if name == "dict":
            return pa.array(values, pa.string()).dictionary_encode().cast(data_type)
        if name == "tz":
            return pa.array([value and value.replace(tzinfo=dt.UTC) for value in values], data_type)
        return pa.array(values, data_type)

    return st.lists(st.none() | plain_values(name), min_size=ROWS, max_size=ROWS).map(build)


TABLES = st.fixed_dictionaries({name: column(name) for name in TYPES}).map(pa.table)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def literal(name: str) -> st.SearchStrategy[str]:
    """Return a constant that fits the column."""
    if name in INTEGERS:
        # The reference reads the least integer of 64 bits as a float.
        return plain_values(name).filter(lambda value: value > -(2**63)).map(str)
    if name in FLOATS:
        finite = [value for value in FEW_FLOATS if math.isfinite(value)]
        sql_type = "double" if name == "f64" else "float"
        specials = [f"cast('{value}' as {sql_type})" for value in ("NaN", "inf", "-inf")]
        return st.sampled_from([repr(value) for value in finite]) | st.sampled_from(specials)
    if name in TEXTS:
        return st.sampled_from(FEW_TEXTS).map(quoted)
    if name in MOMENTS:
        return st.sampled_from(FEW_MOMENTS).map(lambda value: f"timestamp '{value.isoformat(sep=' ')}'")
    if name == "b":
        return st.sampled_from(["true", "false"])
    if name in ("bin", "fsb"):
        return plain_values(name).map(lambda value: f"x'{value.hex()}'")
    if name == "d":
        return plain_values(name).map(lambda value: f"date '{value}'")
    return st.sampled_from(["0", "1", "-2", "3", "cast(1.5 as decimal(12, 2))"])


OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


@st.composite
def comparisons(draw: st.DrawFn, names: list[str]) -> str:
    name = draw(st.sampled_from(names))
    kind = draw(st.integers(0, 6))
    if kind == 0:
        return f"{name} is {draw(st.sampled_from(['null', 'not null']))}"
    if kind == 1:
        values = draw(st.lists(literal(name), min_size=1, max_size=4))
        return f"{name} {draw(st.sampled_from(['in', 'not in']))} ({', '.join(values)})"
    if kind == 2:
        word = draw(st.sampled_from(["between", "not between"]))
        return f"{name} {word} {draw(literal(name))} and {draw(literal(name))}"
    if kind == 3 and name in TEXTS:
        pattern = draw(st.sampled_from(["a%", "%b", "%a%", "_", "a_b", "a\\%b", "", "%", "A%", "%é%"]))
        word = draw(st.sampled_from(["like", "not like", "ilike"]))
        return f"{name} {word} '{pattern}'"
    if kind == 4:
        word = draw(st.sampled_from(["is distinct from", "is not distinct from"]))
        # In brackets: the reference's grammar takes an AND behind it for a part of the right side.
        return f"({name} {word} {draw(literal(name))})"
    if kind == 5 and name == "b":
        return f"b is {draw(st.sampled_from(['true', 'false', 'not true', 'not false']))}"
    return f"{name} {draw(OPERATORS)} {draw(literal(name))}"


def predicates(names: list[str]) -> st.SearchStrategy[str]:
    return st.recursive(
        comparisons(names),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
                lambda parts: "({} {} {})".format(*parts)
            ),
            inner.map(lambda condition: f"not ({condition})"),
        ),
        max_leaves=5,
    )


def rows(table: pa.Table, text: str) -> list[int]:
    batch = table.combine_chunks().to_batches()[0]
    return [
        row
        for row, passes in enumerate(passing(parse_filter(text, table.schema), batch).to_pylist())
        if passes
    ]


def agree_with_the_reference(table: pa.Table, texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        reference = lance.write_dataset(table, folder + "/table.lance", data_storage_version="2.1")
        for text in texts:
            found = reference.to_table(filter=text, columns=[], with_row_address=True)["_rowaddr"].to_pylist()
            left_open = rows_left_open(table, text)
            passed = rows(table, text)
            assert [row for row in passed if row not in left_open] == [
                row for row in found if row not in left_open
            ], text


IN_LIST = re.compile(r"(\w+) (?:not )?in \(((?:[^()']|'(?:[^']|\'\')*'|\([^()]*\))*)\)")


def rows_left_open(table: pa.Table, text: str) -> set[int]:
    """Rows for which the reference may decide otherwise: it folds lists of a column that exclude each other.

    `x IN (1) AND x NOT IN (1)` is false to it, and with that decided, where x is null and the answer unknown.
    NOT turns any of the lists around, so that it does not matter here how they are asked for.
    """
    lists: dict[str, list[set[str]]] = {}
    for name, values in IN_LIST.findall(text):
        lists.setdefault(name, []).append(set(values.split(", ")))
    return {
        row
        for name, values in lists.items()
        if len(values) > 2 or (len(values) == 2 and may_exclude(*values))
        for row in np.flatnonzero(table[name].is_null().to_numpy()).tolist()
    }


def may_exclude(left: set[str], right: set[str]) -> bool:
    return left <= right or right <= left or not left & right


@pytest.mark.parametrize(
    ("text", "differ"),
    [
        ("not (x in (1) and x not in (1))", True),
        ("not (x in (1) and x in (2))", True),
        ("x not in (1) or x not in (2)", True),
        ("not (x in (1, 2) and x not in (2, 3))", False),
        ("not (x in (1, 2) and x in (2, 3))", False),
        ("not (x in (1) and y not in (1))", False),
    ],
)
def test_the_reference_decides_lists_that_exclude_each_other(text: str, differ: bool, tmp_path: Path) -> None:
    """docs/filters.md, "Where the reference differs": null is in no list and outside of none."""
    table = pa.table({"x": pa.array([None, 1, 2, 3]), "y": pa.array([1, 1, 2, 3])})
    reference = lance.write_dataset(table, str(tmp_path / "t"))
    found = reference.to_table(filter=text, columns=[], with_row_address=True)["_rowaddr"].to_pylist()
    assert found == ([0] if differ else []) + rows(table, text)
    assert rows_left_open(table, text) == ({0} if differ else set())


FEWER = settings(max_examples=draws(40), deadline=None, suppress_health_check=list(HealthCheck))


@FEWER
@given(TABLES, st.lists(predicates(list(TYPES)), min_size=8, max_size=8))
def test_predicates_agree_with_the_reference(table: pa.Table, texts: list[str]) -> None:
    agree_with_the_reference(table, texts)


@pytest.mark.long("draws 1,500 tables")
@settings(max_examples=draws(1_500), deadline=None, suppress_health_check=list(HealthCheck))
@given(TABLES, st.lists(predicates(list(TYPES)), min_size=10, max_size=10))
def test_many_predicates_agree_with_the_reference(table: pa.Table, texts: list[str]) -> None:
    agree_with_the_reference(table, texts)


# What both dialects mean alike: no division, no double quotes, types that DuckDB compares as we do.
SHARED = [
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
    "f32",
    "f64",
    "s",
    "ls",
    "ts",
    "b",
    "d",
    "dec",
]


@FEWER
@given(TABLES, st.lists(predicates(SHARED), min_size=8, max_size=8))
def test_predicates_agree_with_duckdb(table: pa.Table, texts: list[str]) -> None:
    numbered = table.select(SHARED).append_column("row_number", pa.array(range(ROWS)))
    with duckdb.connect() as connection:
        connection.register("numbered", numbered)
        for text in texts:
            in_duckdb = text.replace("\\", "!").replace("like 'a!%b'", "like 'a!%b' escape '!'")
            query = f"select row_number from numbered where {in_duckdb} order by 1"
            expected = [row for (row,) in connection.execute(query).fetchall()]
            assert rows(table, text) == expected, text


@FEWER
@given(TABLES, predicates(list(TYPES)), st.integers(0, ROWS), st.integers(0, ROWS))
def test_slices_pass_their_part_of_the_rows(table: pa.Table, text: str, first: int, count: int) -> None:
    """Validity of a slice begins in the middle of a byte."""
    part = [row - first for row in rows(table, text) if first <= row < first + count]
    batch = table.combine_chunks().to_batches()[0].slice(first, count)
    found = passing(parse_filter(text, table.schema), batch)
    assert [row for row, passes in enumerate(found.to_pylist()) if passes] == part


@FEWER
@given(TABLES, predicates(list(TYPES)))
def test_not_and_is_true_split_the_rows(table: pa.Table, text: str) -> None:
    """Every row passes a condition, its negation, or neither because it is null."""
    yes, no = rows(table, text), rows(table, f"not ({text})")
    unknown = rows(table, f"({text}) is null")
    assert sorted(yes + no + unknown) == list(range(ROWS))
    assert rows(table, f"({text}) is true") == yes
