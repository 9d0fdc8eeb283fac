"""Comparisons of functions of a column become comparisons of the column, with the same results."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lance_core
from lance_core.errors import InvalidInputError
from lance_core.expressions import builders
from lance_core.expressions.evaluate import evaluate
from lance_core.expressions.functions import call
from lance_core.expressions.tree import Call, Cast, Column, Comparison, Expression, IsIn, Literal, walk
from support.runs.draws import draws
from support.runs.each_case import each_case

OPERATORS = ["=", "!=", "<", "<=", ">", ">="]
ROUNDINGS = ["floor", "ceil", "round", "trunc"]
UNITS = ["microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"]
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
TEXTS = [
    "0",
    "7",
    "77",
    "-1",
    "255",
    "+7",
    "007",
    "-0",
    "",
    "-",
    " 7",
    "7 ",
    "1_0",
    "7.0",
    "x",
    "\u0667",
    "--7",
    "128",
]
TEXTS += ["9223372036854775807", "-9223372036854775808", "18446744073709551615", "9" * 40, "1e3"]


def computed(expression: Expression, values: pa.Array) -> pa.Array:
    return evaluate(expression, pa.record_batch({"c": values}))


def compared(left: Expression, constant: pa.Scalar, values: pa.Array, *, is_rewritten: bool = True) -> None:
    """Compare the results of a comparison and of the form that the builder gives it, nulls included."""
    for op in OPERATORS:
        made = builders.comparison(op, left, Literal(constant))
        expected = computed(Comparison(op, left, Literal(constant)), values)
        assert computed(made, values).equals(expected), (op, left, constant)
        if is_rewritten:
            assert not any(isinstance(node, Call | Cast) for node in walk(made)), made


def column(values: pa.Array) -> Column:
    return Column(("c",), values.type)


def with_null(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays([pa.array(values).cast(kind), pa.nulls(1, kind)])


def beside(values: np.ndarray) -> np.ndarray:
    """Return numbers and their neighbours."""
    sides = [np.nextafter(values, values.dtype.type(side)) for side in (-math.inf, math.inf)]
    return np.concatenate([values, *sides])


@each_case("name", ROUNDINGS)
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_rounded_numbers(kind: pa.DataType, name: str) -> None:
    dtype = np.dtype(kind.to_pandas_dtype())
    most = 2.0 ** (np.finfo(dtype).nmant - 1)
    values = beside(np.concatenate([np.arange(-8, 9) / 2, [most, most - 0.5, -most, 2 * most]]).astype(dtype))
    special = np.array([-0.0, math.nan, math.inf, -math.inf, 1e30], dtype)
    array = with_null(np.concatenate([values, special]), kind)
    for constant in (-2.0, -1.0, -0.5, -0.0, 0.0, 0.3, 1.0, 2.0, 2.5, most - 1, 1 - most):
        compared(call(name, [column(array)]), pa.scalar(constant, kind), array)
    for constant in (most, -most, 2 * most, math.inf, -math.inf, math.nan):
        compared(call(name, [column(array)]), pa.scalar(constant, kind), array, is_rewritten=False)
    if name in ("round", "trunc"):
        digits = [builders.literal(count) for count in (0, 1, None)]
        for count in digits:
            rounded = call(name, [column(array), count])
            compared(rounded, pa.scalar(1.0, kind), array, is_rewritten=count is digits[0])


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_numbers_without_their_signs(kind: pa.DataType) -> None:
    """Zero has two signs, NaN is the greatest whatever its sign is, and no size is negative."""
    sizes = np.array([0.0, 1.5, 2.0, math.inf], kind.to_pandas_dtype())
    array = with_null(np.concatenate([beside(sizes), beside(-sizes), [math.nan, -math.nan]]), kind)
    for constant in (0.0, -0.0, 1.5, -1.5, 2.0, -2.0, math.inf, -math.inf):
        compared(call("abs", [column(array)]), pa.scalar(constant, kind), array)
    compared(call("abs", [column(array)]), pa.scalar(math.nan, kind), array, is_rewritten=False)
    integers = pa.array([-(2**31), 5, -5], pa.int32())
    with pytest.raises(InvalidInputError, match="overflow"):
        computed(builders.comparison("<", call("abs", [column(integers)]), builders.literal(9)), integers)


@settings(max_examples=draws(200), deadline=None)
@given(st.sampled_from(ROUNDINGS), st.integers(-(2**51), 2**51) | st.integers(-9, 9), st.data())
@example("ceil", 2**51 - 1, None)
@example("round", 1 - 2**51, None)
def test_numbers_near_any_integer(name: str, integer: int, data: st.DataObject | None) -> None:
    near = beside(beside(integer + np.array([-1.5, -1, -0.5, 0, 0.5, 1, 1.5])))
    array = with_null(near, pa.float64())
    shift = 0.0 if data is None else data.draw(st.sampled_from([0.0, 0.25, 0.5]))
    constant = pa.scalar(float(integer) + shift)
    compared(call(name, [column(array)]), constant, array, is_rewritten=abs(constant.as_py()) < 2.0**51)


@each_case("unit", UNITS)
@pytest.mark.parametrize("ticks", ["s", "ms", "us", "ns"])
def test_truncated_times(ticks: str, unit: str) -> None:
    kind = pa.timestamp(ticks)
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[ticks]
    days = ["1969-12-29", "1969-12-31", "1970-01-01", "2023-12-31", "2024-01-01", "2024-02-29", "2024-03-01"]
    days += ["1900-03-01", "1700-01-01", "2024-04-01", "2200-07-02"]
    starts = np.array(days, "datetime64[s]").astype(np.int64) * per_second
    steps = np.array([0, 1, -1, 59, 3600, 86_399]) * per_second
    near = (starts[:, None] + np.append(steps, [1, -1])).ravel()
    array = with_null(near, kind)
    truncated = call("date_trunc", [builders.literal(unit), column(array)])
    for constant in near:
        compared(truncated, pa.scalar(int(constant), pa.int64()).cast(kind), array)


def test_truncated_times_that_are_not_rewritten() -> None:
    """Days of local time have several lengths. A step that ends after the last time has no edge."""
    zoned = pa.array([0, 10**15, None]).cast(pa.timestamp("us", "Europe/Berlin"))
    truncated = call("date_trunc", [builders.literal("day"), column(zoned)])
    compared(truncated, zoned[0], zoned, is_rewritten=False)
    last = pa.array([2**63 - 1, 0]).cast(pa.timestamp("ns"))
    truncated = call("date_trunc", [builders.literal("day"), column(last)])
    assert isinstance(builders.comparison("=", truncated, Literal(last[0])), Comparison)


@each_case("kind", INTEGERS)
def test_texts_of_integers(kind: pa.DataType) -> None:
    """Only the usual spelling of an integer is the text of one."""
    limits = np.iinfo(kind.to_pandas_dtype())
    chosen = [0, 7, 10, 77, 127, int(limits.min), int(limits.max), None]
    array = pa.array(chosen, kind)
    for text_type in (pa.string(), pa.large_string()):
        text = builders.cast(column(array), text_type)
        for constant in TEXTS:
            for op in ("=", "!="):
                made = builders.comparison(op, text, builders.literal(constant))
                expected = computed(Comparison(op, text, Literal(pa.scalar(constant, text_type))), array)
                assert computed(made, array).equals(expected), (op, constant)
                assert not any(isinstance(node, Cast) for node in walk(made))
        ordered = builders.comparison("<", text, builders.literal("7"))
        assert ordered == Comparison("<", text, Literal(pa.scalar("7", text_type))), (
            "texts have another order"
        )
        for has_null in (False, True):
            constants: list[Any] = [*TEXTS, *([None] if has_null else [])]
            made = builders.is_in(text, [builders.literal(each, pa.string()) for each in constants])
            assert isinstance(made, IsIn)
            assert made.operand == column(array)
            expected = computed(IsIn(text, pa.array(TEXTS, text_type), has_null), array)
            assert computed(made, array).equals(expected)


def test_rows_are_those_of_the_reference(tmp_path: Path) -> None:
    """The filters are pruned by statistics, too."""
    rng = np.random.default_rng(5)
    table = pa.table(
        {
            "i": pa.array(rng.integers(-20, 20, 5000), mask=rng.random(5000) < 0.1),
            "f": pa.array(np.round(rng.normal(size=5000) * 4) / 2, mask=rng.random(5000) < 0.1),
            "t": pa.array(np.sort(rng.integers(-(10**9), 10**9, 5000))).cast(pa.timestamp("s")),
        }
    )
    theirs = lance.write_dataset(table, str(tmp_path / "d"))
    ours = lance_core.dataset(tmp_path / "d")
    for condition in (
        *(f"cast(i as string) {op} '{text}'" for op in ("=", "<>", "<") for text in ("7", "-7", "07", "99")),
        "cast(i as string) in ('7', '+7', '-12', '')",
        "cast(i as string) not in ('7', '+7', '-12', '')",
        *(
            f"{name}(f) {op} {number}"
            for name in ("round", "abs")
            for op in OPERATORS
            for number in (-1, 0, 2, 1.5)
        ),
        *(
            f"date_trunc('{unit}', t) {op} timestamp '{day}'"
            for op in OPERATORS
            for unit in ("day", "week", "quarter")
            for day in ("1964-01-01 00:00:00", "1990-01-01 00:00:00", "1990-05-03 12:00:00")
        ),
        "not (round(f) = 2 or cast(i as string) = '3')",
    ):
        for _ in range(2):
            found = ours.to_table(["f", "i"], filter=condition)
            assert found.equals(theirs.to_table(["f", "i"], filter=condition)), condition
