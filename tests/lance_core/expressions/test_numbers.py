"""Numbers beside columns that cannot hold them compare by arithmetic, and are nowhere rounded or cut first.

The reference makes such a literal infinite, cuts it off or refuses it, and means another thing under NOT.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_core
from lance_core.errors import InvalidInputError
from lance_core.expressions.evaluate import passing
from lance_core.expressions.parsing.sql import parse_filter
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
INF = math.inf


def rows(values: pa.Array, condition: str) -> list[int]:
    """Return the rows of the column `c` that pass, by evaluation, and by statistics where these decide."""
    batch = pa.record_batch({"c": values})
    expression = parse_filter(condition, batch.schema)
    passed = np.flatnonzero(passing(expression, batch)).tolist()
    bounds = pa.Table.from_batches([page_bounds(values, rows_per_zone=1)])
    table = bounds.append_column("first_row", pa.array(range(len(values)), pa.int64()))
    kept, sure = decide_rows(expression, {("c",): table}, len(values))
    assert set(passed) <= {row for start, end in kept for row in range(start, end)}, condition
    assert set(passed) >= {row for start, end in sure for row in range(start, end)}, condition
    return passed


def above(value: float, number: Fraction) -> Fraction | float:
    """Return a value that compares with fractions: NaN is the greatest number."""
    return value if math.isinf(value) else INF if math.isnan(value) else Fraction(value)


FLOATS = [1.0, INF, -INF, math.nan, None, 65504.0, -65504.0, 0.5]


@pytest.mark.parametrize(
    "number", ["1e300", "-1e300", "70000", "-70000", "3.5e38", "65504.5", "1e400", "-1e400"]
)
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_numbers_beyond_floats(kind: pa.DataType, number: str) -> None:
    """T22: an infinite value is equal to no number, and beyond all of them."""
    values = pa.array(
        [value if value is None else np.dtype(kind.to_pandas_dtype()).type(value) for value in FLOATS], kind
    )
    exact = Fraction(Decimal(number))
    known = [(row, above(value, exact)) for row, value in enumerate(FLOATS) if value is not None]
    for name, holds in OPERATORS.items():
        expected = [row for row, value in known if holds(value, exact)]
        rest = [row for row, _ in known if row not in expected]
        assert rows(values, f"c {name} {number}") == expected
        assert rows(values, f"NOT (c {name} {number})") == rest
        assert rows(values, f"CASE WHEN c {name} {number} THEN true ELSE false END") == expected
        assert rows(values, f"c IS NOT NULL AND NOT (c IS NULL OR c {name} {number})") == rest
    low, high = (number, "1") if exact < 1 else ("1", number)
    between = [row for row, value in known if min(exact, 1) <= value <= max(exact, 1)]
    assert rows(values, f"c BETWEEN {low} AND {high}") == between
    equal = [row for row, value in known if value in (1, exact)]
    assert rows(values, f"c IN ({number}, 1)") == equal
    assert rows(values, f"NOT (c IN ({number}, 1))") == [row for row, _ in known if row not in equal]
    assert rows(values, f"c IN ({number})") == [row for row, value in known if value == exact]
    assert rows(values, f"c IS DISTINCT FROM {number}") == [
        row for row, value in enumerate(FLOATS) if value is None or above(value, exact) != exact
    ]


def test_a_number_within_the_range_of_floats_is_one_of_them() -> None:
    """`0.1` beside a 32-bit float is the float that is written so, with and without NOT."""
    values = pa.array([0.1, 0.2], pa.float32())
    assert rows(values, "c = 0.1") == [0]
    assert rows(values, "NOT (c = 0.1)") == rows(values, "c NOT IN (0.1, 1e300)") == [1]
    assert rows(values, "c IN (0.1, 1e300)") == [0]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("c > 9223372036854775806.5", [1]),
        ("c = 9007199254740993.0", [2]),
        ("c < 18446744073709551616", [0, 1, 2]),
        ("c >= -1e300", [0, 1, 2]),
        ("c IN (1.5, 9007199254740993.0)", [2]),
        ("c != 1.5", [0, 1, 2]),
    ],
)
def test_integers_compare_without_becoming_doubles(condition: str, expected: list[int]) -> None:
    """As in the reference, a bare comparison refuses such a number."""
    values = pa.array([1, 2**63 - 1, 2**53 + 1, None], pa.int64())
    assert rows(values, f"CASE WHEN {condition} THEN true ELSE false END") == expected
    assert rows(values, f"NOT (NOT ({condition}))") == expected
    with pytest.raises(InvalidInputError, match="does not fit column 'c'"):
        rows(values, condition)


@each_case("condition", ["c = 7", "c < 7.5", "7 >= c", "c IN (7, 8)", "c BETWEEN 6 AND 8"])
@each_case(
    "values",
    [
        pa.array(["007", "07", "7"]),
        pa.array(["007", "07", "7"]).dictionary_encode(),
        pa.array([b"007", b"07", b"7"]),
        pa.array([True, False, None]),
        pa.array([7, 8, None], pa.date32()),
        pa.array([7, 8, None], pa.timestamp("us")),
        pa.array([7, 8, None], pa.duration("us")),
    ],
)
def test_only_columns_of_numbers_take_numbers(values: pa.Array, condition: str) -> None:
    """The reference refuses them, too: `zip = 7` must not find, or delete, the rows with '007' and '07'."""
    with pytest.raises(InvalidInputError, match=r"does not fit column 'c'"):
        rows(values, condition)


DECIMALS = st.one_of(
    st.tuples(st.just(pa.decimal128), st.integers(1, 38), st.integers(-6, 12)),
    st.tuples(st.just(pa.decimal256), st.integers(1, 76), st.integers(-6, 12)),
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.Array, list[Decimal | None], list[str]]:
    make, precision, scale = draw(DECIMALS)
    scale = min(scale, precision)
    most = 10**precision - 1
    stored = draw(st.lists(st.one_of(st.none(), st.integers(-most, most), st.integers(-20, 20)), max_size=8))
    clamped = [None if number is None else max(-most, min(most, number)) for number in stored]
    values = [None if number is None else exact(number, -scale) for number in clamped]
    near = [
        str(value + exact(step, -scale - 1))
        for value in values
        if value is not None
        for step in (-5, 0, 3, 10)
    ]
    plain = [f"{Decimal(text):f}" for text in near]
    others = st.one_of(
        st.decimals(allow_nan=False, allow_infinity=False, places=3).map(lambda number: f"{number:f}"),
        st.integers(-(10**30), 10**30).map(str),
        st.sampled_from(["1e300", "-1e300", "1e-300", "0", "0.0"]),
    )
    numbers = draw(
        st.lists(st.one_of(others, st.sampled_from(plain)) if plain else others, min_size=2, max_size=3)
    )
    # Arrow does not convert numbers of many digits to a negative scale.
    digits = pa.array([None if number is None else Decimal(number) for number in clamped], make(precision, 0))
    return digits.view(make(precision, scale)), values, numbers


def exact(digits: int, exponent: int) -> Decimal:
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), exponent))


@settings(deadline=None, max_examples=draws(60))
@given(cases())
def test_decimals_compare_with_any_number(case: tuple[pa.Array, list[Decimal | None], list[str]]) -> None:
    """Decimals of any scale, negative ones too, and numbers of any digits, against exact fractions."""
    values, given_values, numbers = case
    known = [(row, Fraction(value)) for row, value in enumerate(given_values) if value is not None]
    first, second = (Fraction(Decimal(number)) for number in numbers[:2])
    for name, holds in OPERATORS.items():
        expected = [row for row, value in known if holds(value, first)]
        assert rows(values, f"c {name} {numbers[0]}") == expected
        assert rows(values, f"NOT (c {name} {numbers[0]})") == [
            row for row, _ in known if row not in expected
        ]
        assert rows(values, f"{numbers[0]} {name} c") == [row for row, value in known if holds(first, value)]
    listed = {Fraction(Decimal(number)) for number in numbers}
    expected = [row for row, value in known if value in listed]
    assert rows(values, f"c IN ({', '.join(numbers)})") == expected
    assert rows(values, f"c NOT IN ({', '.join(numbers)})") == [
        row for row, _ in known if row not in expected
    ]
    between = [row for row, value in known if first <= value <= second]
    assert rows(values, f"c BETWEEN {numbers[0]} AND {numbers[1]}") == between
    assert rows(values, "c = c AND c <= c") == [row for row, _ in known]


def test_decimals_of_a_negative_scale(tmp_path: Path) -> None:
    """Decimals of a negative scale are compared, cast, calculated with and updated; arithmetic gives
    decimals of scale 0.
    """
    kind = pa.decimal128(5, -2)
    values = [Decimal("1200"), Decimal("99900"), Decimal("-500"), None]
    lance_core.write_dataset(pa.table({"c": pa.array(values, kind), "x": range(4)}), tmp_path)
    dataset = lance_core.dataset(tmp_path)
    found = dataset.to_table(
        columns={
            "plus": "c + 1",
            "times": "c * 2",
            "double": "CAST(c AS double)",
            "cents": "CAST(c AS decimal(10, 2))",
            "text": "CAST(c AS string)",
            "same": "CAST(c AS decimal(7, 0)) = c",
            "either": "coalesce(c, 7)",
        }
    )
    assert found["plus"].to_pylist() == [1201, 99901, -499, None]
    assert found["times"].to_pylist() == [2400, 199800, -1000, None]
    assert found["double"].to_pylist() == [1200.0, 99900.0, -500.0, None]
    assert found["cents"].to_pylist() == [1200, 99900, -500, None]
    assert found["text"].to_pylist() == ["1200", "99900", "-500", None]
    assert found["same"].to_pylist() == [True, True, True, None]
    assert found["either"].to_pylist() == [1200, 99900, -500, 7]
    for update, expected in (
        ("1249", 1200),
        ("CAST(1250 AS double)", 1300),
        ("'-1250'", -1300),
        ("x + 60", 100),
    ):
        dataset.update({"c": update}, where="x = 0")
        assert dataset.to_table(filter="x = 0")["c"].to_pylist() == [expected], update
    with pytest.raises(InvalidInputError, match="10000000"):
        dataset.update({"c": "10000000"})


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.decimal128(5, 2), "1.555", Decimal("1.56")),
        (pa.decimal128(5, 2), "999.994", Decimal("999.99")),
        (pa.decimal128(5, 2), "999.995", None),
        (pa.decimal128(5, 2), "1e300", None),
        (
            pa.decimal128(38, 2),
            "123456789012345678901234567890.12",
            Decimal("123456789012345678901234567890.12"),
        ),
        (pa.int8(), "300", None),
        (pa.float32(), "1e300", INF),
        (pa.float16(), "70000", INF),
    ],
)
def test_updates_keep_a_number_or_refuse_it(
    tmp_path: Path, kind: pa.DataType, value: str, expected: object
) -> None:
    """A float that is too large becomes infinite, as in the reference and by IEEE 754."""
    lance_core.write_dataset(pa.table({"c": pa.nulls(1, kind)}), tmp_path)
    dataset = lance_core.dataset(tmp_path)
    if expected is None:
        with pytest.raises(InvalidInputError, match="'c'"):
            dataset.update({"c": value})
    else:
        dataset.update({"c": value})
        assert dataset.to_table()["c"].to_pylist() == [expected]


def test_arrow_expressions_compare_in_doubles(tmp_path: Path) -> None:
    """An expression of Arrow keeps Arrow's meaning, which makes doubles of both sides."""
    lance_core.write_dataset(pa.table({"c": pa.array([1.0, INF], pa.float32())}), tmp_path)
    dataset = lance_core.dataset(tmp_path)
    assert dataset.to_table(filter=pc.field("c") > 1e300)["c"].to_pylist() == [INF]
    assert dataset.to_table(filter=pc.field("c") == 1e300).num_rows == 0


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_rounding_is_that_of_the_reference(kind: pa.DataType, tmp_path: Path) -> None:
    """The floats beside a half are no halves, which are rounded away from zero."""
    dtype = np.dtype(kind.to_pandas_dtype())
    halves = np.append(np.arange(-5, 6) / 2, [2.0**22 - 0.5, 2.0**51 + 0.5, 2.0**52 - 1]).astype(dtype)
    near = [np.nextafter(halves, dtype.type(side)) for side in (-INF, INF)]
    special = np.array([-0.0, INF, -INF, math.nan, 1e30, -1e30], dtype)
    some = np.concatenate([halves, *near, special, np.random.default_rng(7).normal(size=500).astype(dtype)])
    table = pa.table({"c": pa.array(some, mask=np.arange(len(some)) % 9 == 4)}).slice(3)
    theirs = lance.write_dataset(table, str(tmp_path / "d")).to_table({"r": "round(c)"})["r"].to_pylist()
    ours = lance_core.dataset(tmp_path / "d").to_table({"r": "round(c)"})["r"].to_pylist()
    assert list(map(repr, ours)) == list(map(repr, theirs)), "-0.0 is not 0.0"


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint64(), pa.decimal128(5, 2), pa.float32()])
def test_infinite_numbers_are_beyond_all_others(kind: pa.DataType) -> None:
    """Beside integers and decimals, an infinite number ended in an `AssertionError`."""
    values = pa.array([Decimal(3), None, Decimal(0)] if pa.types.is_decimal(kind) else [3, None, 0], kind)
    for op, holds in OPERATORS.items():
        for text, number in (("inf", INF), ("-inf", -INF), ("NaN", INF)):
            expected = [0, 2] if holds(0.0, number) else []
            assert rows(values, f"c {op} CAST('{text}' AS DOUBLE)") == expected, (op, text)
    assert rows(values, "c IN (CAST('inf' AS DOUBLE), 3)") == [0]
    assert rows(values, "c BETWEEN 1 AND CAST('inf' AS DOUBLE)") == [0]
