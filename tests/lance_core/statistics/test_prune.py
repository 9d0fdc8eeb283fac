"""Pruning keeps every row for which a filter is true, and leaves out the pages that it should."""

from __future__ import annotations

import itertools
import math
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core.errors import InvalidInputError
from lance_core.expressions.casts import cast
from lance_core.expressions.evaluate import passing
from lance_core.expressions.parsing.sql import parse_filter
from lance_core.expressions.tree import (
    And,
    Cast,
    Column,
    Comparison,
    DistinctFrom,
    Expression,
    IsIn,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    StartsWith,
    walk,
)
from lance_core.statistics import intervals
from lance_core.statistics.collect import bounds_type, page_bounds
from lance_core.statistics.column_statistics import all_null, refined, statistics_schema
from lance_core.statistics.prune import decide_rows, kept_rows
from support.runs.draws import draws
from support.runs.each_case import each_case
from support.tables.arrays import Spec, make_array
from support.tables.types import ORDERED

TEXT = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
DICTIONARIES = (pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int64()))
CASTS = {
    pa.int8(): (pa.int32(), pa.uint8(), pa.float32()),
    pa.int64(): (pa.int32(), pa.float32(), pa.float64()),
    pa.uint64(): (pa.int64(), pa.float64()),
    pa.float16(): (pa.float32(), pa.float64()),
    pa.float32(): (pa.float64(), pa.int64()),
    pa.decimal128(20, 3): (pa.decimal128(25, 5), pa.decimal128(20, 1), pa.int64()),
    pa.date32(): (pa.date64(), pa.timestamp("s"), pa.timestamp("ns")),
    pa.date64(): (pa.date32(), pa.timestamp("us")),
    pa.timestamp("s"): (pa.timestamp("ns"), pa.timestamp("ms"), pa.date32()),
    pa.timestamp("us", "UTC"): (pa.timestamp("s", "UTC"), pa.timestamp("s")),
    pa.timestamp("ns"): (pa.timestamp("s"), pa.timestamp("us")),
    pa.string(): (pa.large_string(), pa.binary(), pa.int32()),
    pa.large_binary(): (pa.binary(), pa.string()),
    pa.bool_(): (pa.int8(),),
}
"""Casts that keep the order of values, that do not, and that fail."""
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")


def table_of(array: pa.Array, rows: int, *, bound_bytes: int = 64, gap: int = 0) -> pa.Table:
    """Statistics of pages of `rows`; of the first `gap` of them nothing is known."""
    bounds = page_bounds(array, rows, bound_bytes=bound_bytes)
    count = len(bounds)
    columns = [
        pa.array(np.zeros(count, np.int32)),
        pa.array(np.arange(count, dtype=np.int32)),
        pa.array(np.arange(count) * rows),
        *bounds.columns,
    ]
    return pa.Table.from_arrays(columns, schema=statistics_schema(bounds_type(array.type))).slice(gap)


def without(table: pa.Table, name: str) -> pa.Table:
    """With counts that nobody knows."""
    position = table.schema.get_field_index(name)
    return table.set_column(position, table.schema.field(name), pa.nulls(len(table), pa.int64()))


def kept(filter_: str | Expression, statistics: dict[str, pa.Table], num_rows: int) -> list[tuple[int, int]]:
    if isinstance(filter_, str):
        schema = pa.schema([(name, table.schema.field("min").type) for name, table in statistics.items()])
        filter_ = parse_filter(filter_, schema)
    return kept_rows(filter_, {(name,): table for name, table in statistics.items()}, num_rows)


def expand(ranges: list[tuple[int, int]], num_rows: int) -> np.ndarray:
    """Return the ranges as a flag per row, after checking that they are ascending and apart."""
    flags = np.zeros(num_rows, bool)
    edges = [edge for start, end in ranges for edge in (start, end)]
    assert edges == sorted(set(edges))
    assert not edges or (edges[0] >= 0 and edges[-1] <= num_rows)
    for start, end in ranges:
        flags[start:end] = True
    return flags


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


class Trees:
    """Random conditions on the columns of a batch, with constants from their values and between them."""

    def __init__(self, batch: pa.RecordBatch, rng: random.Random) -> None:
        self.batch = batch
        self.rng = rng

    def tree(self, depth: int) -> Expression:
        kind = self.rng.choice(("and", "or", "not") if depth else ("leaf",)) if depth else "leaf"
        if kind == "leaf" or self.rng.random() < 0.2:
            return self.leaf()
        if kind == "not":
            return Not(self.tree(depth - 1))
        parts = tuple(self.tree(depth - 1) for _ in range(self.rng.choice((2, 3))))
        return And(parts) if kind == "and" else Or(parts)

    def leaf(self) -> Expression:
        name = self.rng.choice(self.batch.schema.names)
        column = Column((name,), self.batch.schema.field(name).type)
        choices = ["compare", "compare", "compare", "distinct", "in", "null", "columns"]
        if column.type in TEXT:
            choices += ["prefix", "prefix"]
        if pa.types.is_boolean(column.type):
            choices += ["bare"]
        if column.type in CASTS:
            choices += ["cast", "cast"]
        match self.rng.choice(choices):
            case "compare":
                return self.swapped(column, self.constant(name))
            case "distinct":
                return DistinctFrom(column, self.constant(name))
            case "in":
                rows = [self.rng.randrange(len(self.batch)) for _ in range(self.rng.randrange(5))]
                values = _decoded(self.batch[name].take(pa.array(rows, pa.int64()))).drop_null()
                return IsIn(column, values, self.rng.random() < 0.2)
            case "null":
                return IsNull(self.rng.choice((column, self.swapped(column, self.constant(name)))))
            case "columns":
                return self.swapped(column, column)
            case "bare":
                return column
            case "cast":
                target = self.rng.choice(CASTS[column.type])
                try:
                    value = cast(self.constant(name).value, target)
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                    value = (
                        pa.scalar(0).cast(target) if pa.types.is_integer(target) else pa.scalar(None, target)
                    )
                return self.swapped(Cast(column, target, self.rng.random() < 0.5), Literal(value))
        prefix = self.constant(name).value.as_py() or ("" if "string" in str(column.type) else b"")
        return StartsWith(column, prefix[: self.rng.randrange(5)])

    def swapped(self, left: Expression, right: Expression) -> Expression:
        operator = self.rng.choice(COMPARISONS)
        return Comparison(operator, *self.rng.choice(((left, right), (right, left))))

    def constant(self, name: str) -> Literal:
        column = _decoded(self.batch[name])
        value = column[self.rng.randrange(len(column))]
        if pa.types.is_floating(column.type) and self.rng.random() < 0.2:
            special = self.rng.choice((math.nan, math.inf, -math.inf, 0.0, -0.0))
            value = pa.scalar(np.float16(special) if column.type == pa.float16() else special, column.type)
        return Literal(value)


@pytest.mark.parametrize("data_type", [*ORDERED, *DICTIONARIES], ids=str)
@settings(max_examples=draws(20), deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_no_row_that_passes_is_dropped(data_type: pa.DataType, seed: int) -> None:
    """T22: random trees on two columns with pages of different lengths, nulls, NaN, cut bounds."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    num_rows = rng.randrange(1, 90)
    field = pa.field("x", data_type)
    distributions = ["random", "small", "sorted", "constant", "runs", "few", "extremes"]
    if data_type in TEXT:
        distributions += ["empty", "words", "long", "mixed"]
    arrays, statistics = [], {}
    for name in "ab":
        nulls = rng.choice(("none", "sparse", "half", "runs", "all", "all_but_one"))
        array = make_array(field, num_rows, Spec(rng.choice(distributions), nulls), numbers)
        table = table_of(
            array, rng.randrange(1, 30), bound_bytes=rng.choice((4, 64)), gap=rng.choice((0, 0, 1))
        )
        for count in ("null_count", "nan_count"):
            if rng.random() < 0.2:
                table = without(table, count)
        arrays.append(array)
        if rng.random() < 0.9:
            statistics[(name,)] = table
    batch = pa.RecordBatch.from_arrays(arrays, ["a", "b"])
    for _ in range(8):
        tree = Trees(batch, rng).tree(rng.randrange(4))
        flags, certain = (expand(ranges, num_rows) for ranges in decide_rows(tree, statistics, num_rows))
        assert not (certain & ~flags).any()
        try:
            passed = np.asarray(passing(tree, batch))
        except InvalidInputError:
            assert any(isinstance(node, Cast) for node in walk(tree)), tree
            continue
        assert not (passed & ~flags).any(), tree
        assert not (certain & ~passed).any(), tree


PAGES = pa.array([None, None, None, 10, 11, 19, 20, None, 29, 30, 31, 39])
"""Pages of three: nulls only, 10 to 19, 20 to 29 with a null, 30 to 39."""


@each_case(
    ("filter_", "pages"),
    [
        ("a = 15", [1]),
        ("a = 19", [1]),
        ("a = 25", [2]),
        ("a = 5", []),
        ("a != 15", [1, 2, 3]),
        ("a < 20", [1]),
        ("a <= 20", [1, 2]),
        ("a > 29", [3]),
        ("a >= 29", [2, 3]),
        ("29 < a", [3]),
        ("a BETWEEN 18 AND 21", [1, 2]),
        ("a NOT BETWEEN 12 AND 35", [1, 3]),
        ("a IN (5, 12, 37)", [1, 3]),
        ("a IN (5)", []),
        ("a NOT IN (12)", [1, 2, 3]),
        ("a IS NULL", [0, 2]),
        ("a IS NOT NULL", [1, 2, 3]),
        ("NOT (a > 29)", [1, 2]),
        ("a < 12 OR a > 35", [1, 3]),
        ("a > 12 AND a < 18", [1]),
        ("NOT (a < 20 OR a > 29)", [2]),
        ("a > 15 AND a IS NULL", [2]),
        ("a = NULL", []),
        ("true", [0, 1, 2, 3]),
        ("false", []),
        ("a > 100", []),
    ],
)
@each_case(
    "data_type",
    [
        pa.int8(),
        pa.uint64(),
        pa.float16(),
        pa.float64(),
        pa.decimal128(9, 2),
        pa.decimal256(50, 0),
        pa.int64(),
    ],
)
def test_pages_that_are_left(filter_: str, pages: list[int], data_type: pa.DataType) -> None:
    array = pa.array([None if value is None else np.float16(value) for value in PAGES.to_pylist()])
    array = array if data_type == pa.float16() else pa.array(PAGES.to_pylist(), data_type)
    found = expand(kept(filter_, {"a": table_of(array, 3)}, 12), 12)
    assert np.flatnonzero(found[::3]).tolist() == pages
    assert (found[::3] == found[1::3]).all()
    assert (found[::3] == found[2::3]).all()


WORDS = ["apple", "apricot", "avocado", "banana", "blueberry", "cherry", "x" * 80, "x" * 90, "y\U0010ffff"]


@each_case(
    ("filter_", "pages"),
    [
        ("a LIKE 'ap%'", [0]),
        ("a LIKE 'b%'", [1]),
        ("a LIKE 'c%'", [1]),
        ("a LIKE 'd%'", []),
        ("a LIKE 'av_c%'", [0]),
        ("a LIKE '%z'", [0, 1, 2]),
        ("a LIKE 'banana'", [1]),
        ("a NOT LIKE 'b%'", [0, 1, 2]),
        ("a > 'x'", [2]),
        ("a = '" + "x" * 80 + "'", [2]),
        ("a < 'apple'", []),
        ("a IN ('avocado', 'cherry')", [0, 1]),
        ("a IN ('b', 'zz')", []),
    ],
)
@each_case("data_type", [pa.string(), pa.large_string()])
def test_pages_of_text_that_are_left(filter_: str, pages: list[int], data_type: pa.DataType) -> None:
    table = table_of(pa.array(WORDS, data_type), 3)
    found = expand(kept(filter_, {"a": table}, 9), 9)
    assert np.flatnonzero(found[::3]).tolist() == pages


@each_case("data_type", [data_type for data_type in ORDERED if data_type != pa.bool_()])
@each_case("operator", COMPARISONS)
def test_every_type_is_pruned(data_type: pa.DataType, operator: str) -> None:
    """Half of the pages go, or one of them for equality."""
    field = pa.field("x", data_type, nullable=False)
    array = make_array(field, 200, Spec("sorted"), np.random.default_rng(1))
    array = array.take(pa.array(_order(array)))
    tree = Comparison(operator, Column(("a",), data_type), Literal(array[100]))
    found = expand(kept(tree, {"a": table_of(array, 10)}, 200), 200)
    dropped = 20 - np.count_nonzero(found[::10])
    if operator == "!=":
        assert dropped == 0
    elif operator == "=":
        assert dropped >= 10
    else:
        assert dropped >= 5


def _order(array: pa.Array) -> list[int]:
    """Positions in ascending order, by the bytes or integers of the values."""
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    values = array.to_pylist()
    return sorted(
        range(len(values)),
        key=lambda row: values[row].encode() if isinstance(values[row], str) else values[row],
    )


def test_nan_is_above_all_numbers() -> None:
    """The rules of the reference: pages with NaN pass `>`, `>=`, `!=`, NOT IN and a NaN literal."""
    nan = math.nan
    table = table_of(pa.array([1.0, 2.0, nan, 3.0, nan, nan, None, None]), 2)
    for filter_, pages in (
        ("a > 100", [1, 2]),
        ("a >= 100", [1, 2]),
        ("a < 0", []),
        ("a <= 100", [0, 1]),
        ("a != 3", [0, 1, 2]),
        ("a = 3", [1]),
        ("a NOT IN (1, 2, 3)", [0, 1, 2]),
        ("NOT (a < 100)", [1, 2]),
    ):
        assert np.flatnonzero(expand(kept(filter_, {"a": table}, 8), 8)[::2]).tolist() == pages, filter_
    for operator, pages in (("=", [1, 2]), ("<", [0, 1]), (">=", [1, 2]), (">", []), ("!=", [0, 1])):
        tree = Comparison(operator, Column(("a",), pa.float64()), Literal(pa.scalar(nan)))
        assert np.flatnonzero(expand(kept(tree, {"a": table}, 8), 8)[::2]).tolist() == pages, operator


def test_unknown_nan_counts_keep_pages() -> None:
    """0.1 files do not count NaN: of a page without bounds nothing is known but its nulls."""
    table = without(table_of(pa.array([1.0, 2.0]), 2), "nan_count")
    for filter_, is_kept in (
        ("a > 5", True),
        ("a >= 5", True),
        ("a != 5", True),
        ("a NOT IN (1, 2)", True),
        ("a < 1", False),
        ("a = 5", False),
        ("a IN (5, 6)", False),
    ):
        assert kept(filter_, {"a": table}, 2) == ([(0, 2)] if is_kept else []), filter_


def test_zeros_of_both_signs_are_one() -> None:
    table = table_of(pa.array([0.0, -0.0]), 1)
    for literal in (0.0, -0.0):
        for operator in ("=", "<=", ">="):
            tree = Comparison(operator, Column(("a",), pa.float64()), Literal(pa.scalar(literal)))
            assert kept(tree, {"a": table}, 2) == [(0, 2)]
        tree = IsIn(Column(("a",), pa.float64()), pa.array([literal]), False)
        assert kept(tree, {"a": table}, 2) == [(0, 2)]


def test_pages_of_different_columns_are_combined() -> None:
    rising, wide = pa.array(range(100)), pa.array([row // 50 for row in range(100)])
    statistics = {"a": table_of(rising, 7), "b": table_of(wide, 25)}
    assert kept("a > 55 AND b = 1", statistics, 100) == [(56, 100)]
    assert kept("a < 20 AND b = 1", statistics, 100) == []
    assert kept("a < 10 OR b = 1", statistics, 100) == [(0, 14), (50, 100)]
    assert kept("a <= b", statistics, 100) == [(0, 7)]
    assert kept("a < b", statistics, 100) == []


def test_rows_that_surely_pass() -> None:
    statistics = {("a",): table_of(pa.array([1, 2, 3, 4, None, 6]), 2)}
    schema = pa.schema([("a", pa.int64())])
    for filter_, found in (
        ("a > 2", ([(2, 6)], [(2, 4)])),
        ("a IS NOT NULL", ([(0, 6)], [(0, 4)])),
        ("a >= 1 AND a < 4", ([(0, 4)], [(0, 2)])),
        ("NOT (a > 2)", ([(0, 2)], [(0, 2)])),
        ("true", ([(0, 6)], [(0, 6)])),
    ):
        assert decide_rows(parse_filter(filter_, schema), statistics, 6) == found, filter_


@pytest.mark.parametrize("data_type", [pa.int8(), pa.uint64(), pa.int64()])
@pytest.mark.parametrize("operator", COMPARISONS)
def test_constants_of_integers_take_a_shorter_way(data_type: pa.DataType, operator: str) -> None:
    """T23: pages with nulls, with nulls only, with one value, without a bound, and with extreme bounds."""
    limits = np.iinfo(data_type.to_pandas_dtype())
    low, high = int(limits.min), int(limits.max)
    pages = [[low, high], [3, 3], [3, None], [None, None], [4, 9], [low, low], [high, high], [2, 3], [3, 4]]
    table = table_of(pa.array([value for page in pages for value in page], data_type), 2)
    for name in ("min", "max"):
        without = table.set_column(table.schema.get_field_index(name), name, pa.nulls(len(table), data_type))
        values = intervals.column_values(pa.concat_tables([table, without]), data_type)
        for number in (low, 2, 3, 4, high, None):
            constant = pa.scalar(number, data_type)
            found = intervals.compare_constant(operator, values, constant)
            expected = intervals.compare(operator, values, intervals.literal_values(constant))
            for flags, other in zip(found, expected, strict=True):
                assert np.broadcast_to(flags, 18).tolist() == np.broadcast_to(other, 18).tolist(), number


def test_what_is_not_known_is_kept() -> None:
    """Columns without statistics, bounds of another type, rows that no page covers, other functions."""
    table = table_of(pa.array(range(10)), 5)
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    assert kept_rows(parse_filter("b > 5", schema), {("a",): table}, 10) == [(0, 10)]
    assert kept_rows(parse_filter("a > 7 AND b > 5", schema), {("a",): table}, 10) == [(5, 10)]
    assert kept_rows(parse_filter("a > 7", schema), {("a",): table.slice(0, 1)}, 10) == [(5, 10)]
    assert kept_rows(parse_filter("a < 0", schema), {("a",): table.slice(1)}, 10) == [(0, 5)]
    other = Comparison(">", Column(("a",), pa.int32()), Literal(pa.scalar(100, pa.int32())))
    assert kept_rows(other, {("a",): table}, 10) == [(0, 10)]
    unknown = Like(Column(("a",), pa.string()), "abc%", ignore_case=True)
    assert kept_rows(unknown, {("a",): table_of(pa.array(["x", "y"]), 1)}, 2) == [(0, 2)]
    assert kept_rows(parse_filter("a > 7", schema), {}, 0) == []


@each_case("name", ["min", "max"])
@each_case(
    "values",
    [
        pa.array([-(2**63), 0, 2**63 - 1]),
        pa.array([-np.inf, 0.0, np.inf]),
        pa.array([False, False, True]),
        pa.array([-(2**31), 0, 2**31 - 1], pa.date32()),
    ],
)
def test_pages_without_a_bound_are_kept(values: pa.Array, name: str) -> None:
    """Also for the extreme values of a type, and beside pages with bounds."""
    known = table_of(values, 1)
    position = known.schema.get_field_index(name)
    bounds = known[name].combine_chunks()
    cut = known.set_column(position, known.field(name), pa.array([None, *bounds[1:]], values.type))
    for op, constant in itertools.product(COMPARISONS, values):
        condition = Comparison(op, Column(("a",), values.type), Literal(constant))
        kept, sure = decide_rows(condition, {("a",): cut}, 3)
        exact, _ = decide_rows(condition, {("a",): known}, 3)
        assert expand(exact, 3)[0] <= expand(kept, 3)[0]
        assert (expand(kept, 3)[1:] == expand(exact, 3)[1:]).all()
        assert expand(sure, 3)[0] <= expand(exact, 3)[0]


@pytest.mark.parametrize(
    ("pattern", "escape", "text"),
    [
        ("abc!", "!", "abc!"),
        ("a!%c%", "!", "a%cd"),
        ("a\\%c%", None, "a%cd"),
        ("abc\\", None, "abc\\"),
        ("%", "%", "%"),
    ],
)
def test_patterns_with_escapes(pattern: str, escape: str | None, text: str) -> None:
    """The text before the first wildcard is the one that the evaluation looks for."""
    tree = Like(Column(("a",), pa.string()), pattern, escape)
    array = pa.array([text])
    assert passing(tree, pa.RecordBatch.from_arrays([array], ["a"])).to_pylist() == [True]
    assert kept_rows(tree, {("a",): table_of(array, 1)}, 1) == [(0, 1)]


def test_columns_with_dictionaries_are_pruned() -> None:
    """By the values that occur, not by all of the dictionary; a long one tells nothing but nulls."""
    words = pa.array(["b", "a", None, "c", "b"])
    rows = pa.array([0, 0, 1, 4, 3, 0, 3, 2, None, None, 2, None] * 4, pa.int8())
    array = pa.DictionaryArray.from_arrays(rows, words)
    schema = pa.schema([("a", array.type)])
    table = table_of(array, 4)
    assert table.slice(0, 3).select(["null_count", "min", "max"]).to_pylist() == [
        {"null_count": 0, "min": "a", "max": "b"},
        {"null_count": 1, "min": "b", "max": "c"},
        {"null_count": 4, "min": None, "max": None},
    ]
    assert kept_rows(parse_filter("a = 'c'", schema), {("a",): table}, 12) == [(4, 8)]
    assert kept_rows(parse_filter("a IS NULL", schema), {("a",): table}, 12) == [(4, 12)]
    long = table_of(array.slice(0, 12), 4)
    assert long["null_count"].to_pylist() == [0, 1, 4]
    assert kept_rows(parse_filter("a = 'c'", schema), {("a",): long}, 12) == [(0, 8)]


def test_casts_are_followed() -> None:
    schema = pa.schema([("a", pa.int32()), ("t", pa.timestamp("us"))])
    statistics = {"a": table_of(pa.array(range(100), pa.int32()), 10)}
    tree = parse_filter("CAST(a AS BIGINT) > 85", schema)
    assert kept_rows(tree, {("a",): statistics["a"]}, 100) == [(80, 100)]


def test_a_column_that_no_file_holds_is_null() -> None:
    schema = pa.schema([("a", pa.int64())])
    statistics = {("a",): all_null(pa.int64(), 10)}
    assert kept_rows(parse_filter("a > 7 OR a <= 7", schema), statistics, 10) == []
    assert kept_rows(parse_filter("a IS NULL", schema), statistics, 10) == [(0, 10)]


@settings(max_examples=draws(200), deadline=None)
@given(st.data())
def test_finer_statistics_refine_coarse_ones(data: st.DataObject) -> None:
    """Every row is told of once, and nothing is said that does not hold."""
    num_rows = data.draw(st.integers(1, 60))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 20)))
    array = make_array(pa.field("x", pa.int64()), num_rows, Spec("random", "half"), rng)
    coarse = table_of(array, data.draw(st.integers(1, 60)))
    fine = table_of(array, data.draw(st.integers(1, 20)))
    some = data.draw(st.lists(st.sampled_from(range(len(fine))), unique=True).map(sorted))
    table = refined(coarse, fine.take(pa.array(some, pa.int64())), num_rows)
    rows = table.to_pylist()
    edges = [0]
    for row in rows:
        assert row["first_row"] == edges[-1]
        edges.append(row["first_row"] + row["rows"])
        part = array.slice(row["first_row"], row["rows"])
        assert row["null_count"] in (None, part.null_count)
        values = part.drop_null().to_pylist()
        assert all(row["min"] is None or row["min"] <= value <= row["max"] for value in values)
    assert edges[-1] == num_rows
    starts = {row["first_row"]: row for row in rows}
    for row in fine.take(pa.array(some, pa.int64())).to_pylist():
        assert starts[row["first_row"]] == row


def test_long_lists_and_many_pages_are_quick() -> None:
    """No loop over pages or values in Python."""
    import time

    table = table_of(pa.array(np.arange(400_000)), 10)
    tree = IsIn(Column(("a",), pa.int64()), pa.array(range(0, 100_000, 1)), False)
    begin = time.process_time()
    assert kept(tree, {"a": table}, 400_000) == [(0, 100_000)]
    assert time.process_time() - begin < 1.0


def test_decimals_compare_by_value() -> None:
    values = pa.array([Decimal("-1.50"), Decimal("2.25"), Decimal("10.00")], pa.decimal128(9, 2))
    table = table_of(values, 1)
    tree: Any = IsIn(Column(("a",), values.type), pa.array([Decimal("2.25")], values.type), False)
    assert kept(tree, {"a": table}, 3) == [(1, 2)]
