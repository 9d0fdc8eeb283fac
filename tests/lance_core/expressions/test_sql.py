"""Filters and expressions in SQL, each through the reference too."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.expressions.evaluate import evaluate, passing
from lance_core.expressions.functions import FUNCTIONS, REFERENCE_ONLY
from lance_core.expressions.nullability import is_nullable
from lance_core.expressions.parsing.sql import parse_expression, parse_filter, parse_type
from lance_core.expressions.tree import Column, Comparison, IsIn, Literal, Not, StartsWith
from support.runs.each_case import each_case
from support.searches import plain_sql, typed_sql

TABLES = {"plain": plain_sql.TABLE, "typed": typed_sql.TABLE}


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, lance.LanceDataset]:
    folder: Path = tmp_path_factory.mktemp("expressions")
    return {
        name: lance.write_dataset(table, folder / f"{name}.lance", data_storage_version="2.2")
        for name, table in TABLES.items()
    }


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("when > 5", "column 1", "; write `when` in backticks for the column"),
        ("x > when", "column 5", "; write `when` in backticks for the column"),
        ("x > 5 and\nfrom = 1", "line 2, column 1", ""),
        ("x > 5 5", "column 7", ""),
        ("(x", "column 2", ""),
    ],
)
def test_syntax_errors_tell_the_place_and_columns_with_names_of_keywords(
    text: str, place: str, hint: str
) -> None:
    schema = pa.schema({"x": pa.int64(), "when": pa.int64()})
    with pytest.raises(InvalidInputError, match=re.escape(f"{place}){hint}") + "$"):
        parse_filter(text, schema)
    parse_filter("`when` > 5", schema)


def both(plain: list[str], typed: list[str]) -> Callable[[Callable[..., None]], Any]:
    return each_case(
        ("table", "text"), [*(("plain", text) for text in plain), *(("typed", text) for text in typed)]
    )


def batch_of(table: str) -> pa.RecordBatch:
    return TABLES[table].combine_chunks().to_batches()[0]


def rows(table: str, text: str) -> list[int]:
    found = passing(parse_filter(text, TABLES[table].schema), batch_of(table))
    assert found.null_count == 0
    return [row for row, passes in enumerate(found.to_pylist()) if passes]


def dates(texts: str) -> list[date]:
    return [date.fromisoformat(text) for text in texts.split()]


def values(text: str, table: str = "plain") -> list[Any]:
    return evaluate(parse_expression(text, TABLES[table].schema), batch_of(table)).to_pylist()


@both(plain_sql.FILTERS, typed_sql.FILTERS)
def test_filters_pass_the_rows_of_the_reference(
    references: dict[str, lance.LanceDataset], table: str, text: str
) -> None:
    found = references[table].to_table(filter=text, columns=[], with_row_address=True)
    assert rows(table, text) == found["_rowaddr"].to_pylist()


@both(plain_sql.EXPRESSIONS, typed_sql.EXPRESSIONS)
def test_expressions_have_the_values_of_the_reference(
    references: dict[str, lance.LanceDataset], table: str, text: str
) -> None:
    expected = references[table].to_table(columns={"r": text})
    expression = parse_expression(text, TABLES[table].schema)
    found = evaluate(expression, batch_of(table))
    assert found.type == expression.type == expected.schema.field("r").type
    assert is_nullable(expression, TABLES[table].schema) == expected.schema.field("r").nullable
    # As text, in which NaN equals itself and -0.0 differs from 0.0.
    assert str(found) == str(expected["r"].combine_chunks())


@both(plain_sql.REFUSED, typed_sql.REFUSED)
def test_what_the_reference_refuses(references: dict[str, lance.LanceDataset], table: str, text: str) -> None:
    """T20: an expression without meaning is refused, with an error of ours."""
    with pytest.raises((ValueError, OSError, BaseException), match=r"."):
        references[table].to_table(filter=text)
    with pytest.raises(InvalidInputError):
        rows(table, text)


@each_case(
    ("text", "expected"),
    [
        ("case when id > 1 then 'a' else 'b' end", ["b", "a", "a", "b", "b"]),
        ("case id when 1 then 'one' when 2 then 'two' end", ["one", "two", None, None, None]),
        ("case when id > 1 then 1 when id = 1 then 2.5 end", [2.5, 1.0, 1.0, None, None]),
        ("case when s = 'abc' then 1 else 10 / (i8 - 1) end", [1, 0, 0, None, 1]),
        ("i8 <> 1 and 10 / (i8 - 1) >= 0", [False, True, True, None, True]),
        ("ceil(x)", [2.0, None, -0.0, None, float("inf")]),
        ("floor(id)", [1.0, 2.0, 3.0, None, -5.0]),
        ("substr(s, 2)", ["bc", "", "BC", None, "%b_c"]),
        ("substring(s, 0, 3)", ["ab", "", "AB", None, "a%"]),
        ("substring(s from 2 for 1)", ["b", "", "B", None, "%"]),
        ("trim(both 'a' from s)", ["bc", "", "ABC", None, "%b_c"]),
        ("trim(leading 'a' from s)", ["bc", "", "ABC", None, "%b_c"]),
        ("position('b' in s)", [2, 0, 0, None, 3]),
        ("extract(year from d)", [2020, 1970, 1969, None, 2021]),
        ("extract(dow from d)", [3, 4, 3, None, 3]),
        ("len(l)", [2, 0, 2, None, 1]),
        ("d + interval '1 day'", [*dates("2020-01-02 1970-01-02 1969-01-02"), None, date(2021, 2, 4)]),
        ("d - interval '2 months'", [*dates("2019-11-01 1969-11-01 1968-11-01"), None, date(2020, 12, 3)]),
        ("date '2020-01-31' + interval '1 month'", [date(2020, 2, 29)] * 5),
        ("timestamp '2020-03-31 10:00:00' - interval '1 month 1 hour'", [datetime(2020, 2, 29, 9)] * 5),
        ("date '2020-01-31' + interval 90 minute", [datetime(2020, 1, 31, 1, 30)] * 5),
        ("s like 'a!%b%' escape '!'", [False, False, False, None, True]),
        ("starts_with(bin, x'61')", [True, False, False, None, False]),
        ("cast(id as varchar) || '!'", ["1!", "2!", "3!", None, "-5!"]),
        ("big = -9223372036854775808", [False, False, True, None, False]),
        ("id is distinct from 1 and b", [False, False, True, None, False]),
        ("null = null", [None] * 5),
        ("null is distinct from null or id = 1", [True, False, False, None, False]),
        ("+id", [1, 2, 3, None, -5]),
        ("id <=> 1", [True, False, False, False, False]),
        ("cast('2020-01-01 10:00' as timestamp) > ts", [True, True, True, None, True]),
        ("cast('01:02:03' as time) = time '01:02:03'", [True] * 5),
    ],
)  # fmt: skip
def test_what_the_reference_does_not_take(text: str, expected: list[Any]) -> None:
    found = values(text)
    assert [None if value != value else value for value in found] == expected


@pytest.mark.parametrize("text", ["bb = 1", "ID = 1 AND iD = 2"])
def test_names_without_case_have_to_be_unambiguous(text: str) -> None:
    """The reference takes the first of several matching columns, which may be the wrong one."""
    schema = pa.schema([("Bb", pa.int64()), ("bB", pa.int64()), ("id", pa.int64())])
    if text.startswith("bb"):
        with pytest.raises(InvalidInputError, match="'bb' is ambiguous: Bb, bB"):
            parse_filter(text, schema)
    else:
        parse_filter(text, schema)


def test_zeros_of_two_columns_are_equal(references: dict[str, lance.LanceDataset]) -> None:
    """The reference orders -0.0 below 0.0 between columns, but not between a column and a constant."""
    batch = pa.record_batch({"x": pa.array([-0.0, 0.0]), "y": pa.array([0.0, -0.0])})
    assert passing(parse_filter("x = y", batch.schema), batch).to_pylist() == [True, True]
    assert passing(parse_filter("x < y", batch.schema), batch).to_pylist() == [False, False]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_constants_take_the_unit_of_a_column_with_a_zone(tmp_path: Path, unit: str, zone: str) -> None:
    """A literal has microseconds or fewer digits; what is finer in the column still counts."""
    table = pa.table({"t": pa.array([0, -1, 5, 1000, 1500, 10**6, 10**9], pa.timestamp(unit, zone))})
    dataset = lance.write_dataset(table, tmp_path / "zoned.lance")
    zero, micro = (f"timestamp '1970-01-01 00:00:00{end}+00:00'" for end in ("", ".000001"))
    for text in (
        f"t = {zero}",
        f"t < {zero}",
        f"{zero} < t",
        f"t NOT IN ({zero})",
        f"t BETWEEN {zero} AND {micro}",
        f"t IS DISTINCT FROM {zero}",
        # The reference cuts digits off that the column lacks, see test_times.py.
        *([f"t IN ({zero}, {micro})"] if unit in ("us", "ns") else []),
        *(["t = timestamp(3) '1970-01-01 00:00:00.001'"] if unit != "s" else []),
    ):
        expected = dataset.to_table(filter=text)["t"].combine_chunks()
        batch = table.to_batches()[0]
        found = batch.filter(passing(parse_filter(text, table.schema), batch))["t"]
        assert found.equals(expected), text


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_digits_finer_than_an_explicit_unit_are_cut_off_its_text(tmp_path: Path, unit: str) -> None:
    """Before 1970, too, where cutting them off the number would give a later time, and beyond nanoseconds.

    A constant without a unit keeps its digits, see test_times.py, where the reference cuts them off.
    """
    text = pa.array(["1970-01-01", "1969-12-31 23:59:59.999999", "1969-12-31", "2200-01-01 00:00:00.5"])
    options = pc.CastOptions(pa.timestamp(unit), allow_time_truncate=True)
    table = pa.table({"t": pc.cast(text.cast(pa.timestamp("us")), options=options)})
    dataset = lance.write_dataset(table, tmp_path / "early.lance")
    for condition in (
        "t >= timestamp '1969-12-31 23:59:59.00000000'",
        "t > cast('1969-12-31 23:59:59.5' as timestamp(0))",
        "t IN (cast('1969-12-31 23:59:59.9999999+00:00' as timestamp(0)))",
        # The next two are finer than seconds, which the reference cuts off once more.
        *(["t >= cast('1969-12-31 23:59:59.9999999' as timestamp(3))"] if unit != "s" else []),
        *(["t = cast('1969-12-31 23:59:59.9999999999' as timestamp(6))"] if unit in ("us", "ns") else []),
    ):
        expected = dataset.to_table(filter=condition)["t"].combine_chunks()
        batch = table.to_batches()[0]
        found = batch.filter(passing(parse_filter(condition, table.schema), batch))["t"]
        assert found.equals(expected), condition
    beyond = parse_expression("timestamp '2500-01-01 00:00:00.0000001'", table.schema)
    assert isinstance(beyond, Literal)
    assert beyond.value == pa.scalar(datetime(2500, 1, 1), pa.timestamp("us"))


@pytest.mark.parametrize("operator", ["=", "<", ">="])
@pytest.mark.parametrize("day", ["date '1970-01-01'", "d", "cast('1970-01-01' as date)"])
def test_days_beside_a_zone_begin_in_utc(tmp_path: Path, operator: str, day: str) -> None:
    """Unlike a timestamp without an offset, which is local."""
    times = pa.array([0, -3600, 5], pa.timestamp("s", "Europe/Berlin"))
    table = pa.table({"t": times, "d": pa.array([0, 0, 1], pa.date32())})
    text = f"t {operator} {day}"
    expected = lance.write_dataset(table, tmp_path / "days.lance").to_table(filter=text)
    batch = table.to_batches()[0]
    found = batch.filter(passing(parse_filter(text, table.schema), batch))
    assert found["t"].equals(expected["t"].combine_chunks())


@pytest.mark.parametrize(("scale", "digits"), [(2, 12), (10, 15), (0, 15), (-3, 9)])
def test_decimals_become_the_nearest_doubles(scale: int, digits: int) -> None:
    """-601.81 is -601.81, and not the double beside it."""
    chosen = random.Random(scale)
    numbers = [Decimal(chosen.randint(-(10**digits), 10**digits)).scaleb(-scale) for _ in range(2000)]
    table = pa.table({"d": pa.array([*numbers, None], pa.decimal128(38, scale))})
    found = evaluate(parse_expression("cast(d as double)", table.schema), table.to_batches()[0])
    assert found.to_pylist() == [*map(float, numbers), None]
    constant = parse_expression("cast(cast('-601.81' as decimal(10, 2)) as double)", table.schema)
    assert constant == Literal(pa.scalar(-601.81))


@pytest.mark.parametrize("function", ["round", "ceil"])
def test_decimals_of_all_digits_are_rounded(function: str) -> None:
    """A decimal that loses one fractional digit has room for one more digit before the point."""
    table = pa.table({"d": pa.array([Decimal("99999999.99"), None], pa.decimal128(10, 2))})
    found = evaluate(parse_expression(f"{function}(d)", table.schema), table.to_batches()[0])
    assert found.equals(pa.array([100_000_000, None], pa.decimal128(10, 0)))


def test_shapes_that_pruning_relies_on() -> None:
    """Constants are folded and on the right, types are those of the column."""
    schema = plain_sql.TABLE.schema
    column = Column(("i8",), pa.int8())
    assert parse_filter("2 + 3 < i8", schema) == Comparison(">", column, Literal(pa.scalar(5, pa.int8())))
    assert parse_filter("NOT (i8 = 5)", schema) == Not(
        Comparison("=", column, Literal(pa.scalar(5, pa.int8())))
    )
    assert parse_filter("s LIKE 'ab%'", schema) == StartsWith(Column(("s",), pa.string()), "ab")
    assert parse_filter("i8 IN (1, NULL, 2)", schema) == IsIn(column, pa.array([1, 2], pa.int8()), True)
    moment = parse_filter("ts > timestamp '2020-01-01' + interval '1 day'", schema)
    assert moment == Comparison(
        ">", Column(("ts",), pa.timestamp("us")), Literal(pa.scalar(datetime(2020, 1, 2), pa.timestamp("us")))
    )


@each_case(
    ("text", "words"),
    [
        ("nmae = 'x'", ["'nmae'", "'Name'"]),
        ("st.b = 1", ["'st'", "'b'", "'B'"]),
        ("s.x = 1", ["'s'", "string", "'x'"]),
        ("i8 = 300", ["300", "'i8'", "int8"]),
        ("ts > '2020-01-01'", ["'2020-01-01'", "'ts'", "timestamp '...'"]),
        ("id = 1 AND AND b", ["'AND'", "line 1, column 12"]),
        ("id =\n 1 x", ["'x'", "line 2"]),
        ("id =", ["'='", "end"]),
        ("lowr(s) = 'a'", ["'lowr'", "lower"]),
        ("lower(s, s) = 'a'", ["lower", "1 arguments", "2"]),
        ("lower(id) = 'a'", ["lower", "text", "'id'", "int32"]),
        ("id in (select 1)", ["SELECT"]),
        ("sum(id) = 1", ["'sum'"]),
        ("s = 'it''s", ["quote"]),
        ("regexp_like(s, '(a')", ["(a", "regular expression"]),
        ("cast(id as json) = 1", ["JSON", "decimal(precision, scale)"]),
        ("cast(l as int) = 1", ["'l'", "int32"]),
        ("l = 1", ["'l'"]),
        ("s || st = 'a'", ["'st'"]),
        ("d + interval 'soon' > d", ["'soon'", "interval"]),
        ("id / 0 = 1", ["divide by zero"]),
        ("1 / 0 = id", ["divide by zero"]),
        ("cast(s as int) = 1", ["'a%b_c'", "int32"]),
        ("x'zz' = bin", ["digits"]),
        ("array_has_any(l, s)", ["'s'", "constant list"]),
        ("date_part('moon', d) = 1", ["'moon'", "year"]),
        ("id = '" + "a" * 1000 + "'", ["...", "'id'"]),
        ("id = " + "1" * 5000, ["'id'", "int32"]),
    ],
)
def test_errors_name_what_is_wrong(text: str, words: list[str]) -> None:
    with pytest.raises(InvalidInputError) as raised:
        rows("plain", text)
    assert all(word in str(raised.value) for word in words), str(raised.value)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bigint", pa.int64()),
        ("INT UNSIGNED", pa.uint32()),
        ("decimal(10, 2)", pa.decimal128(10, 2)),
        ("timestamp(3)", pa.timestamp("ms")),
        ("string", pa.string()),
    ],
)
def test_types_as_in_a_cast(text: str, expected: pa.DataType) -> None:
    assert parse_type(text) == expected


@each_case(
    "text", ["", "int;int", "array<int>", "int) + (1", "`int`", "int -- x", "int\0", "x", "int" + " " * 99]
)
def test_what_is_no_type(text: str) -> None:
    """T20"""
    with pytest.raises(InvalidInputError, match="type"):
        parse_type(text)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.RecordBatch, lance.LanceDataset]:
    """Columns of types that are seldom together, here and in the reference."""
    moments = [0, 1_000_000_001, None, 86_400 * 365_000_000]
    table = pa.table(
        {
            "i": pa.array([1, 2, None, -4]),
            "u64": pa.array([1, 2, None, 2**63 + 5], pa.uint64()),
            "h": pa.array([1.25, -2.5, None, 3.7], pa.float16()),
            "f": pa.array([1.25, -2.5, None, 3.7], pa.float32()),
            "d": pa.array([1.25, -2.5, None, 3.7]),
            "dec": pa.array([Decimal("1.25"), Decimal("-2.50"), None, Decimal("3.75")], pa.decimal128(10, 2)),
            "s": pa.array(["a", "b", None, "c"]),
            "b": pa.array([True, False, None, True]),
            "day": pa.array([0, 1, None, 365], pa.date32()),
            "day64": pa.array([0, 86_400_000, None, 86_400_000 * 365], pa.date64()),
            **{unit: pa.array(moments, pa.timestamp(unit)) for unit in ("us", "ns")},
            "sec": pa.array([0, 1000, None, 86_400 * 365], pa.timestamp("s")),
            "ms": pa.array([0, 1001, None, 86_400_000 * 365], pa.timestamp("ms")),
            "zoned": pa.array(moments, pa.timestamp("us", "UTC")),
        }
    )
    dataset = lance.write_dataset(table, tmp_path_factory.mktemp("mixed") / "mixed.lance")
    return table.to_batches()[0], dataset


# fmt: off
MIXED_VALUES = [
    "round(h)", "round(h, 1)", "trunc(h)", "trunc(h, 1)", "abs(h)", "sqrt(h)", "exp(h)", "ln(h)", "sin(h)",
    "signum(h)", "degrees(h)", "power(h, 2)", "isnan(h)", "log(h)", "log(2, h)", "log(h, f)", "log(2, f)",
    "log(i, h)", "atan2(f, f)", "atan2(h, i)", "atan2(i, 1)", "atan2(d, f)", "atan2(dec, f)", "nanvl(h, h)",
    "nanvl(f, h)", "nanvl(i, i)", "nanvl(h, 1)", "nanvl(h, 1.5)", "nanvl(f, d)", "greatest(h, u64)",
    "greatest(h, f)", "coalesce(h, i)", "coalesce(h, 1)", "coalesce(h, 1.5)", "nullif(h, i)", "h + u64",
    "u64 + dec", "dec / u64", "coalesce(u64, dec)", "greatest(u64, i)", "u64 - i", "coalesce(u64, f)",
    "coalesce(sec, ns)", "greatest(ms, us)", "sec - ms", "us - ns", "coalesce(day, us)", "least(ms, day)",
    "greatest(day64, sec)", "nullif(day, us)", "nullif(us, day)", "day - sec", "us - day64", "zoned - day",
    "day - day64", "coalesce(us, date_trunc('day', null))", "coalesce(date_trunc('day', null), ns)",
    "round(d, null)", "round(f, null)", "round(i, null)", "trunc(d, null)", "coalesce(least(null, null), i)",
    "coalesce(greatest(null, null), s)", "coalesce(-null, i)",
]
MIXED_FILTERS = [
    "least(null, null) is null", "greatest(null, null, null) is null", "nullif(null, null) is null",
    "date_trunc('day', null) is null", "to_unixtime(null) is null", "from_unixtime(null) is null",
    "round(1.5, null) is null", "-null is null", "null = null is null", "i = 1 is null", "i = 1 is not null",
    "b = true is null", "b = b is null", "b <> true is not true", "not b = b is null", "not i is null",
    "d > 1 is true", "d > 1 is not true", "s = 'a' is null", "i is null = b", "i + 1 is null",
    "i = i is distinct from null", "i = 1 is distinct from true", "i is not distinct from 1",
    "i is not null and d > 1 is not null", "d between 1 and 2 is null", "i in (1, 2) is null",
    "s like 'a' is null", "b is true = true",
]
# fmt: on


def test_values_have_the_types_of_the_reference(mixed: tuple[pa.RecordBatch, lance.LanceDataset]) -> None:
    batch, dataset = mixed
    for text in MIXED_VALUES:
        expected = dataset.to_table(columns={"x": text})["x"].combine_chunks()
        found = evaluate(parse_expression(text, batch.schema), batch)
        assert found.type == expected.type, text
        if pa.types.is_floating(found.type):
            wide = [values.cast(pa.float64()).to_numpy(zero_copy_only=False) for values in (found, expected)]
            np.testing.assert_allclose(*wide, rtol=1e-6, err_msg=text)
        else:
            assert found.equals(expected), text


def test_nulls_without_a_type_and_comparisons_before_is(
    mixed: tuple[pa.RecordBatch, lance.LanceDataset],
) -> None:
    """`b = true IS NULL` asks whether the comparison is unknown; it was read as `b = (true IS NULL)`."""
    batch, dataset = mixed
    for text in MIXED_FILTERS:
        expected = dataset.to_table(columns=[], filter=text, with_row_id=True)["_rowid"].to_pylist()
        found = passing(parse_filter(text, batch.schema), batch).to_pylist()
        assert [row for row, passes in enumerate(found) if passes] == expected, text


@pytest.mark.parametrize("text", ["log(100) = 2", "log(2, 8) = 3", "log(2, null) IS NULL"])
def test_logarithms_of_constants(text: str) -> None:
    batch = plain_sql.TABLE.to_batches()[0]
    assert passing(parse_filter(text, batch.schema), batch).to_pylist() == [True] * batch.num_rows


def test_what_dictionaries_hold_for_no_row_has_no_value_to_fail() -> None:
    """Casts are those of the dictionary where that is shorter."""
    words = pa.DictionaryArray.from_arrays(pa.array([0, None, 2], pa.int8()), pa.array(["1", "x", "-7"]))
    batch = pa.record_batch({"w": words})
    condition = parse_filter("cast(w AS int) > 0", batch.schema)
    assert passing(condition, batch).to_pylist() == [True, False, False]
    with pytest.raises(InvalidInputError, match="'x'"):
        passing(condition, pa.record_batch({"w": words.fill_null("x")}))


FAR = ["to_timestamp_seconds(99999999999999)", "cast(2000000000 AS date)"]


@pytest.mark.parametrize("far", FAR)
def test_times_for_which_python_has_no_value(far: str) -> None:
    """T20: in messages and in lists they ended in an OverflowError."""
    times = pa.array([[99999999999999], [0], None], pa.list_(pa.timestamp("s")))
    batch = pa.record_batch({"l": times})
    with pytest.raises(InvalidInputError, match=r"length takes text, not literal .* [0-9]+"):
        parse_filter(f"length({far})", batch.schema)
    condition = parse_filter(f"array_has_any(l, [{far}])", batch.schema)
    expected = "seconds" in far
    assert passing(condition, batch).to_pylist() == [expected, False, False]


def test_an_error_says_how_a_time_of_day_is_written() -> None:
    schema = pa.schema([("opens", pa.time64("us"))])
    with pytest.raises(
        InvalidInputError, match=r"'12:00:00' does not fit column 'opens' .*; write time '\.\.\.'"
    ):
        parse_filter("opens > '12:00:00'", schema)


@pytest.mark.parametrize(
    ("text", "name"),
    [("order id = 3", "order id"), ("select = 3", "select"), ("x > 1 AND\n order id = 2", "order id")],
)
def test_an_error_says_which_column_needs_backticks(text: str, name: str) -> None:
    schema = pa.schema([(column, pa.int64()) for column in ("order id", "select", "x")])
    with pytest.raises(InvalidInputError, match=re.escape(f"write `{name}` in backticks")):
        parse_filter(text, schema)
    with pytest.raises(InvalidInputError) as caught:
        parse_filter(f"`{name}` = = 1", schema)
    assert "backticks" not in str(caught.value)


@pytest.mark.parametrize("text", ["array_has(['a', 1], 1)", "array_has([timestamp '2020-01-01'], 9e300)"])
def test_lists_of_what_does_not_go_together_are_refused(text: str) -> None:
    """T20: lists with items of incompatible types ended in errors of Arrow."""
    with pytest.raises(InvalidInputError):
        parse_filter(text, plain_sql.TABLE.schema)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d = h", [True, True, None, False]),
        ("h > d", [False, False, None, True]),
        ("d = d", [True, True, None, True]),
        ("d IS DISTINCT FROM h", [False, False, True, True]),
    ],
)
def test_dictionaries_of_half_floats_are_compared(text: str, expected: list[bool | None]) -> None:
    words = pa.array(np.array([1.5, np.nan, 2], np.float16))
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int8()), words)
    halves = pa.array(np.array([1.5, np.nan, 2, 2.5], np.float16))
    batch = pa.record_batch({"d": encoded, "h": halves})
    assert evaluate(parse_expression(text, batch.schema), batch).to_pylist() == expected


@each_case("name", sorted(REFERENCE_ONLY))
def test_functions_of_the_reference_are_refused_by_name(name: str) -> None:
    assert name not in FUNCTIONS
    with pytest.raises(UnsupportedFeatureError, match=f"function '{name}' of the reference is not supported"):
        parse_expression(f"{name}(a)", pa.schema({"a": pa.string()}))


_UUIDS = pa.array([bytes([byte] * 16) if byte else None for byte in (1, 0, 2, 3, 2)], pa.uuid())


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize(
    "condition",
    [
        "{0} = {1}",
        "{1} = {0}",
        "{} != {}",
        "{} > {}",
        "{} <= {}",
        "{} IN ({}, 0x01010101010101010101010101010101)",
        "{} IS DISTINCT FROM {}",
        "{} = arrow_cast({}, 'FixedSizeBinary(16)')",
        "{0} = {0}",
        "{0} IS NULL",
    ],
)
def test_uuids_are_compared_by_their_bytes(tmp_path: Path, condition: str, is_indexed: bool) -> None:
    below = pa.StructArray.from_arrays([_UUIDS], ["u"])
    dataset = lance_core.write_dataset(pa.table({"u": _UUIDS, "s": below}), tmp_path / "table")
    if is_indexed:
        dataset.create_scalar_index("u", "BTREE")
    theirs = lance.dataset(str(tmp_path / "table"))
    for column in ("u", "s.u"):
        text = condition.format(column, "0x" + "02" * 16)
        for _ in range(2):  # the second time with statistics
            assert dataset.to_table(filter=text) == theirs.to_table(filter=text)
        assert dataset.count_rows(text) == theirs.count_rows(text)
    with pytest.raises(InvalidInputError, match="does not fit column 'u'"):
        dataset.count_rows("u = 0x02")
