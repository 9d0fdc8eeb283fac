"""Times beside columns that cannot hold them compare by arithmetic: finer digits and far years are kept.

The reference cuts such a constant off to the unit of the column, or refuses it. Engines that push filters
trust the rows that come back, so that a changed constant would give them wrong results.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.substrait import serialize_expressions

import lance_core
from lance_core.errors import InvalidInputError
from lance_core.expressions import builders
from lance_core.expressions.evaluate import passing
from lance_core.expressions.parsing.sql import parse_filter
from lance_core.expressions.parsing.substrait import parse_substrait
from lance_core.expressions.tree import Column, Expression, Literal
from lance_core.statistics.collect import page_bounds
from lance_core.statistics.prune import decide_rows
from support.runs.draws import draws
from support.runs.each_case import each_case

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAY = 86_400
TIMES = {"s": pa.time32("s"), "ms": pa.time32("ms"), "us": pa.time64("us"), "ns": pa.time64("ns")}
MOMENTS = [*(pa.timestamp(unit) for unit in UNITS), pa.date32(), pa.date64()]
KINDS = {
    "local": MOMENTS,
    "zoned": [pa.timestamp(unit, "UTC") for unit in UNITS],
    "time": list(TIMES.values()),
    "duration": [pa.duration(unit) for unit in UNITS],
}
"""Types whose values compare with each other."""


def per_second(kind: pa.DataType) -> Fraction:
    """Return the steps of a type in a second."""
    if pa.types.is_date(kind):
        return Fraction(1, DAY) if pa.types.is_date32(kind) else Fraction(1000)
    return Fraction(UNITS[kind.unit])


def exact(counts: pa.Array) -> list[Fraction | None]:
    """Return the seconds of each value."""
    whole = counts.cast(pa.int32() if counts.type.bit_width == 32 else pa.int64())
    return [None if count is None else count / per_second(counts.type) for count in whole.to_pylist()]


def rows(values: pa.Array, expression: Expression) -> list[int]:
    """Return the rows of the column `c` that pass, by evaluation, and by statistics where these decide."""
    batch = pa.record_batch({"c": values})
    passed = np.flatnonzero(passing(expression, batch)).tolist()
    bounds = pa.Table.from_batches([page_bounds(values, rows_per_zone=1)])
    table = bounds.append_column("first_row", pa.array(range(len(values)), pa.int64()))
    kept, sure = decide_rows(expression, {("c",): table}, len(values))
    assert set(passed) <= {row for start, end in kept for row in range(start, end)}
    assert set(passed) >= {row for start, end in sure for row in range(start, end)}
    return passed


@dataclass(frozen=True)
class Given:
    """Values of a column, and constants with the seconds that they stand for."""

    values: pa.Array
    constants: Sequence[tuple[Literal | str, Fraction]]

    def known(self) -> list[tuple[int, Fraction]]:
        return [(row, value) for row, value in enumerate(exact(self.values)) if value is not None]


def array(counts: list[int | None], kind: pa.DataType) -> pa.Array:
    return pa.array(counts, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)


def clamped(count: Fraction, kind: pa.DataType) -> int:
    """Return a count, rounded down, within the range of a type."""
    most = 2 ** (kind.bit_width - 1) - 1
    return max(-most - 1, min(most, math.floor(count)))


@st.composite
def columns(draw: st.DrawFn, kind: pa.DataType) -> pa.Array:
    if pa.types.is_time(kind):
        counts = st.integers(0, int(DAY * per_second(kind)) - 1)
    else:
        most = 2 ** (kind.bit_width - 1) - 1
        # Near 1970, and near the bounds of the type: there a finer unit has no such value.
        counts = st.one_of(
            st.integers(-most, most),
            st.integers(-3, 3),
            st.sampled_from([-most - 1, most]),
            st.integers(-400 * 365, 400 * 365).map(lambda day: clamped(day * DAY * per_second(kind), kind)),
        )
    drawn = draw(st.lists(st.none() | counts, min_size=1, max_size=6))
    return array(drawn, kind)


@st.composite
def typed_cases(draw: st.DrawFn) -> Given:
    """Constants of all units beside columns of all units, as Substrait messages have them."""
    kinds = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    values = draw(columns(draw(st.sampled_from(kinds))))
    near = [value for value in exact(values) if value is not None] or [Fraction(0)]
    constants = []
    for _ in range(3):
        kind = draw(st.sampled_from(kinds))
        if draw(st.booleans()):
            scalar = draw(columns(kind).filter(lambda drawn: drawn.null_count < len(drawn))).drop_null()[0]
        else:
            step = draw(st.sampled_from([-1, 0, 1, 10, 500_000_000])) * Fraction(1, 10**9)
            number = (draw(st.sampled_from(near)) + step) * per_second(kind)
            scalar = array([clamped(number, kind)], kind)[0]
        (seconds,) = exact(pa.repeat(scalar, 1))
        assert seconds is not None
        constants.append((Literal(scalar), seconds))
    return Given(values, constants)


def column(values: pa.Array) -> Column:
    return Column(("c",), values.type)


@settings(deadline=None, max_examples=draws(60))
@given(typed_cases())
def test_constants_of_any_unit_beside_columns_of_any_unit(case: Given) -> None:
    """T22: against fractions of Python; `builders` is what SQL text and Substrait go through."""
    c, known = column(case.values), case.known()
    (first, number), (second, other) = case.constants[:2]
    assert isinstance(first, Literal)
    assert isinstance(second, Literal)
    for name, holds in OPERATORS.items():
        expected = [row for row, value in known if holds(value, number)]
        assert rows(case.values, builders.comparison(name, c, first)) == expected
        assert rows(case.values, builders.negation(builders.comparison(name, c, first))) == [
            row for row, _ in known if row not in expected
        ]
        assert rows(case.values, builders.comparison(name, first, c)) == [
            row for row, value in known if holds(number, value)
        ]
    listed = {number for _, number in case.constants}
    within = builders.is_in(c, [constant for constant, _ in case.constants if isinstance(constant, Literal)])
    expected = [row for row, value in known if value in listed]
    assert rows(case.values, within) == expected
    assert rows(case.values, builders.negation(within)) == [row for row, _ in known if row not in expected]
    assert rows(case.values, builders.between(c, first, second)) == [
        row for row, value in known if number <= value <= other
    ]
    assert rows(case.values, builders.distinct_from(first, c)) == [
        row for row, value in enumerate(exact(case.values)) if value != number
    ]


DIGITS = st.text("0123456789", min_size=1, max_size=12)


@st.composite
def written_cases(draw: st.DrawFn) -> Given:
    """Constants as SQL writes them, with up to twelve digits of a second."""
    name = draw(st.sampled_from(["local", "zoned", "time"]))
    values = draw(columns(draw(st.sampled_from(KINDS[name]))))
    constants = []
    for _ in range(3):
        fraction = draw(st.sampled_from(["", "0", "5", "000000001", "999999999"]) | DIGITS)
        if name == "time":
            second = draw(st.integers(0, DAY - 1))
            text = f"time '{time(second // 3600, second // 60 % 60, second % 60)}"
        else:
            near = [int(value // 1) for value in exact(values) if value is not None and abs(value) < 10**10]
            second = draw(st.sampled_from([*near, -1, 0, 1]) | st.integers(-(10**10), 10**10))
            text = f"timestamp '{datetime(1970, 1, 1) + timedelta(seconds=second)}"
        number = second + (Fraction(int(fraction), 10 ** len(fraction)) if fraction else 0)
        constants.append((f"{text}{'.' if fraction else ''}{fraction}'", Fraction(number)))
    return Given(values, constants)


@settings(deadline=None, max_examples=draws(25))
@given(written_cases())
def test_constants_of_any_digits(case: Given) -> None:
    """T22: all digits of a constant in SQL text count, beyond nanoseconds too."""
    known, schema = case.known(), pa.schema({"c": case.values.type})

    def found(condition: str) -> list[int]:
        return rows(case.values, parse_filter(condition, schema))

    (first, number), (second, other) = case.constants[:2]
    for name, holds in OPERATORS.items():
        expected = [row for row, value in known if holds(value, number)]
        rest = [row for row, _ in known if row not in expected]
        assert found(f"c {name} {first}") == expected
        assert found(f"{first} {name} c") == [row for row, value in known if holds(number, value)]
        assert found(f"NOT (c {name} {first})") == rest
        assert found(f"CASE WHEN c {name} {first} THEN true ELSE false END") == expected
        if not pa.types.is_date(case.values.type):  # a date takes no text with a time of day
            text = str(first).partition(" ")[2]
            assert found(f"NOT (c {name} {text})") == rest
    listed = {number for _, number in case.constants}
    expected = [row for row, value in known if value in listed]
    texts = ", ".join(str(text) for text, _ in case.constants)
    assert found(f"c IN ({texts})") == expected
    assert found(f"c NOT IN ({texts})") == [row for row, _ in known if row not in expected]
    assert found(f"c BETWEEN {first} AND {second}") == [
        row for row, value in known if number <= value <= other
    ]
    assert found(f"CASE c WHEN {first} THEN true ELSE false END") == [
        row for row, value in known if value == number
    ]
    assert found(f"c IS DISTINCT FROM {first}") == [
        row for row, value in enumerate(exact(case.values)) if value != number
    ]


@pytest.mark.parametrize("unit", ["ms", "us"])  # Arrow writes no constants of nanoseconds
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_finer_constants_in_substrait(unit: str, zone: str | None) -> None:
    """The bytes are Arrow's own, for a column of the constant's unit; the table's column has seconds."""
    constant = pa.scalar(3 * UNITS[unit] // 2, pa.timestamp(unit, zone))
    values = pa.array([0, 1, 2, None], pa.timestamp("s", zone))
    for condition, expected in (
        (pc.field("c") >= constant, [2]),
        (pc.field("c") < constant, [0, 1]),
        (pc.field("c") == constant, []),
        (pc.field("c") != constant, [0, 1, 2]),
        (~(pc.field("c") <= constant), [2]),
    ):
        data = bytes(serialize_expressions([condition], ["f"], pa.schema({"c": constant.type})))
        assert rows(values, parse_substrait(data, pa.schema({"c": values.type}))) == expected


@each_case(
    ("condition", "expected"),
    [
        ("c < timestamp '2300-01-01 00:00:00'", [0, 1]),
        ("c >= timestamp '2300-01-01 00:00:00'", []),
        ("c = timestamp '2300-01-01 00:00:00'", []),
        ("c > timestamp '1600-01-01 00:00:00'", [0, 1]),
        ("c IN (timestamp '2300-01-01 00:00:00', timestamp '1970-01-01 00:00:00')", [0]),
        ("c BETWEEN timestamp '1600-01-01' AND timestamp '2300-01-01'", [0, 1]),
        ("c < date '2300-01-01'", [0, 1]),
        ("c IS DISTINCT FROM timestamp '2300-01-01'", [0, 1, 2]),
        ("NOT (c < '2300-01-01')", []),
    ],
)
@each_case("zone", [None, "Europe/Berlin"])
def test_years_beyond_nanoseconds(zone: str | None, condition: str, expected: list[int]) -> None:
    """Nanoseconds end in the year 2262. The reference makes such a constant null, so that no row passes."""
    values = pa.array([0, 2**63 - 1, None], pa.timestamp("ns"))
    if zone:
        values = pa.array([-3600 * 10**9, 2**63 - 1, None], pa.timestamp("ns", zone))
    assert rows(values, parse_filter(condition, pa.schema({"c": values.type}))) == expected


def test_constants_beside_columns_of_another_zone() -> None:
    """A constant without an offset is local in the column's zone, a local column in the constant's."""
    berlin = pa.array([0, 1, 2], pa.timestamp("s", "Europe/Berlin"))
    schema = pa.schema({"c": berlin.type})
    assert rows(berlin, parse_filter("c > timestamp '1970-01-01 01:00:00.5'", schema)) == [1, 2]
    assert rows(berlin, parse_filter("c > timestamp '1970-01-01 01:00:01'", schema)) == [2]
    assert rows(berlin, parse_filter("NOT (c > '1970-01-01T00:00:00.5Z')", schema)) == [0]
    local = pa.array([3600, 3601], pa.timestamp("s"))
    instants = [Literal(pa.scalar(count, pa.timestamp("ms", "Europe/Berlin"))) for count in (500, 1000)]
    assert rows(local, builders.comparison(">", column(local), instants[0])) == [1]
    assert rows(local, builders.is_in(column(local), instants)) == [1]
    assert rows(local, builders.distinct_from(column(local), instants[0])) == [0, 1]


def test_dates_beside_times_of_a_day() -> None:
    """A date is its midnight, in any year that dates have."""
    days = pa.array([0, 1, 2**31 - 1], pa.date32())
    schema = pa.schema({"c": days.type})
    assert rows(days, parse_filter("c > timestamp '1970-01-01 12:00:00'", schema)) == [1, 2]
    assert rows(days, parse_filter("c = timestamp '1970-01-02 00:00:00'", schema)) == [1]
    assert rows(days, parse_filter("c = timestamp '1970-01-02 00:00:00.5'", schema)) == []
    assert days[1].as_py() == date(1970, 1, 2)


def test_updates_keep_the_digits_of_a_constant(tmp_path: Path) -> None:
    """A constant is cut off to the unit of the column, and not to microseconds first."""
    kinds = {"ns": pa.timestamp("ns"), "s": pa.timestamp("s"), "zoned": pa.timestamp("ns", "Europe/Berlin")}
    lance_core.write_dataset(pa.table({name: pa.nulls(1, kind) for name, kind in kinds.items()}), tmp_path)
    dataset = lance_core.dataset(tmp_path)
    dataset.update(dict.fromkeys(kinds, "timestamp '1969-12-31 23:59:58.123456789'"))
    found = dataset.to_table()
    counts = {name: found[name].cast(pa.int64())[0].as_py() for name in kinds}
    assert counts == {"ns": -1_876_543_211, "s": -2, "zoned": -3_601_876_543_211}
    with pytest.raises(InvalidInputError, match="2300"):
        dataset.update({"ns": "timestamp '2300-01-01 00:00:00.123456789'"})


def test_explicit_units_cut() -> None:
    """A cast that names a unit says so; one to a plain timestamp is a constant like `timestamp '...'`."""
    values = pa.array([0, 1, 2], pa.timestamp("s"))
    schema = pa.schema({"c": values.type})
    assert rows(values, parse_filter("c = timestamp(0) '1970-01-01 00:00:01.5'", schema)) == [1]
    assert rows(values, parse_filter("c = cast('1970-01-01 00:00:01.5' as timestamp(0))", schema)) == [1]
    assert rows(values, parse_filter("c = cast('1970-01-01 00:00:01.5' as timestamp)", schema)) == []
