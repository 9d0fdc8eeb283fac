"""Conditions that kernels evaluate on pages, compared with their evaluation on decoded values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.file import LanceFileWriter

import lance_core
from lance_core.expressions.evaluate import passing
from lance_core.expressions.tree import (
    And,
    Call,
    Cast,
    Column,
    Comparison,
    Expression,
    IsIn,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
)
from lance_core.file.column_readers import ColumnReader
from lance_core.file.page_ranges import PageRange
from lance_core.scan.run.filtering import page_conditions, row_filter
from lance_core.scan.run.filtering.page_conditions import (
    PageCondition,
    page_alternatives,
    page_condition,
)
from support.files.pages import Columns
from support.files.written import write_file
from support.runs.draws import draws
from support.runs.each_case import each_case

NUM_ROWS = 20_000
OPERATORS = ["=", "!=", "<", "<=", ">", ">="]
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float32(), pa.float64()]
TIMES = [pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns"), pa.timestamp("us"), pa.duration("ms")]
NUMBERS = [*INTEGERS, *FLOATS, *TIMES]
WORDS = ["", "a", "ab", "b", "bå", "word"]
SPECIAL = [0.0, -0.0, 1.5, -1.5, math.nan, -math.nan, math.inf, -math.inf, 1e-45, -1e-45]


def numbers(kind: pa.DataType) -> tuple[pa.Array, list[pa.Scalar]]:
    """Return values of a type, extremes among them, and constants to compare them with.

    There are so many values that no writer makes a dictionary of numbers, which are not searched on pages.
    """
    rng = np.random.default_rng(3)
    if kind in FLOATS:
        some = rng.normal(size=NUM_ROWS)
        chosen = rng.integers(0, NUM_ROWS, NUM_ROWS // 4)
        some[chosen] = np.array(SPECIAL)[rng.integers(0, len(SPECIAL), len(chosen))]
        most = float(np.finfo(kind.to_pandas_dtype()).max)
        constants = [pa.array([value]).cast(kind, safe=False)[0] for value in [*SPECIAL, 0.7, most, -most]]
        return pa.array(some).cast(kind, safe=False), constants
    if kind in TIMES:
        width = kind.bit_width
        some = rng.integers(0, 80_000, NUM_ROWS).astype(f"i{width // 8}")
        if kind == pa.date64():
            some *= 86_400_000
        values = pa.array(some).view(kind)
        return values, [values[0], values[7000]]
    limits = np.iinfo(kind.to_pandas_dtype())
    extremes = [int(limits.min), int(limits.min) + 1, 5, int(limits.max) - 1, int(limits.max)]
    narrow = rng.integers(0, min(limits.max, 50_000), NUM_ROWS).astype(limits.dtype)
    narrow[rng.integers(0, NUM_ROWS, 50)] = limits.max
    narrow[rng.integers(0, NUM_ROWS, 50)] = limits.min
    return pa.array(narrow, kind), [pa.scalar(value, kind) for value in [*extremes, 50]]


def written_table() -> pa.Table:
    rng = np.random.default_rng(4)
    columns: dict[str, pa.Array] = {}
    for kind in NUMBERS:
        values = numbers(kind)[0]
        columns[str(kind)] = values
        columns[f"{kind} nulls"] = pc.if_else(rng.random(NUM_ROWS) < 0.3, pa.scalar(None, kind), values)
    truth = rng.random(NUM_ROWS) < 0.4
    columns["truth"] = pa.array(truth)
    columns["truth nulls"] = pa.array(truth, mask=rng.random(NUM_ROWS) < 0.3)
    words = np.array(WORDS, object)[rng.integers(0, len(WORDS), NUM_ROWS)]
    columns["word"] = pa.array(words)
    columns["word nulls"] = pa.array(words, mask=rng.random(NUM_ROWS) < 0.3)
    columns["bytes"] = pa.array([word.encode() for word in words], pa.large_binary())
    return pa.table(columns)


TABLE = written_table()


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=["ours", "reference"])
def columns(
    request: pytest.FixtureRequest, version: str, tmp_path_factory: pytest.TempPathFactory
) -> Columns:
    """The columns of a file with several pages, by either library."""
    path = tmp_path_factory.mktemp("pages") / "a.lance"
    if request.param == "ours":
        write_file(path, TABLE.to_batches(max_chunksize=5000), TABLE.schema, version, page_bytes=20_000)
    else:
        with LanceFileWriter(str(path), TABLE.schema, version=version) as writer:
            for batch in TABLE.to_batches(max_chunksize=5000):
                writer.write_batch(batch)
    return Columns(path)


def opened(columns: Columns, name: str) -> ColumnReader:
    """Return a column that has been read before: then the dictionaries of 2.0 are known."""
    column = columns.open(name)
    column.read(0, NUM_ROWS)
    return column


def compared(columns: Columns, name: str, condition: Expression, start: int = 0, end: int = NUM_ROWS) -> None:
    """Evaluate a condition on the pages and on the values of rows `[start, end)`."""
    ranges = opened(columns, name).page_ranges(start, end)
    assert ranges is not None
    compared_on(ranges, name, condition, start, end)


def compared_on(
    ranges: Sequence[PageRange], name: str, condition: Expression, start: int = 0, end: int = NUM_ROWS
) -> None:
    """Evaluate a condition on pages, and on the values that they have."""
    on_pages = page_condition(condition)
    assert on_pages is not None
    found = on_pages.matches(ranges)
    assert found is not None, f"{condition} was not evaluated on pages"
    found.validate(full=True)
    values = TABLE[name].combine_chunks().slice(start, end - start)
    expected = passing(condition, pa.record_batch({name: values}))
    assert found.equals(expected), condition
    # The kernel counts, too.
    (one, *_) = ranges
    if on_pages.numbers is not None:
        piece = one.pages, one.reader, one.start, one.end
        matched = on_pages.numbers.match(piece)
        assert matched is not None
        assert matched[1] == expected.slice(0, one.end - one.start).true_count


def column(name: str) -> Column:
    return Column((name,), TABLE.schema.field(name).type)


@pytest.mark.parametrize("kind", NUMBERS, ids=str)
def test_numbers_are_compared_with_constants(columns: Columns, kind: pa.DataType) -> None:
    for name in (str(kind), f"{kind} nulls"):
        ranges = columns.open(name).page_ranges(0, NUM_ROWS)
        assert ranges is not None
        for constant in numbers(kind)[1]:
            for op in OPERATORS:
                for condition in (
                    Comparison(op, column(name), Literal(constant)),
                    Comparison(op, Literal(constant), column(name)),
                    Not(Comparison(op, column(name), Literal(constant))),
                ):
                    made = page_condition(condition)
                    assert made is not None
                    if made.numbers is None:  # no number, or every number, can meet it
                        assert _is_extreme(constant)
                    else:
                        compared_on(ranges, name, condition)


@each_case("kind", [*INTEGERS, *TIMES])
def test_lists_of_numbers_are_intervals(columns: Columns, kind: pa.DataType) -> None:
    """Numbers of a list that follow one another are one interval; null is in no list and in no other one."""
    values, constants = numbers(kind)
    listed = pa.array([*constants, values[1], values[2], values[1]], kind)
    for name in (str(kind), f"{kind} nulls"):
        for has_null in (False, True):
            compared(columns, name, IsIn(column(name), listed, has_null))
        compared(columns, name, Not(IsIn(column(name), listed, False)))
    not_in_null = page_condition(Not(IsIn(column(str(kind)), listed, True)))
    assert not_in_null is not None
    assert not_in_null.numbers is None, "it is never true"


def test_a_long_run_in_a_list_is_one_interval() -> None:
    made = page_condition(IsIn(column("int64"), pa.array([*range(7, 4000), -5]), False))
    assert made is not None
    assert isinstance(made.numbers, page_conditions._Intervals)
    assert [part[:2] for part in made.numbers.parts] == [(-5, -5), (7, 3999)]
    scattered = page_condition(IsIn(column("int64"), pa.array(range(0, 100, 2)), False))
    assert scattered is not None
    assert not isinstance(scattered.numbers, page_conditions._Intervals), "too many passes"


@each_case("kind", [*INTEGERS, *TIMES])
def test_scattered_numbers_of_a_list_are_looked_up(columns: Columns, kind: pa.DataType) -> None:
    values, constants = numbers(kind)
    every = np.unique(values.view(f"i{kind.bit_width // 8}"))
    near, far = (pa.array(some.copy()).view(kind) for some in (every[: 1 << 12 : 2], every[::11]))
    for name in (str(kind), f"{kind} nulls"):
        for listed in (near, far):
            isin = IsIn(column(name), listed, False)
            for condition in (isin, Not(isin), IsIn(column(name), listed, True)):
                compared(columns, name, condition)
                compared(columns, name, condition, 77, 12_345)
    first, second = (page_condition(IsIn(column(str(kind)), near[start:], False)) for start in (0, 2))
    assert first is not None
    assert second is not None
    assert first.joined(second) is None, "no kernel looks for numbers of two lists"
    both = page_condition(Or((first.expression, Comparison("=", column(str(kind)), Literal(constants[0])))))
    assert both is not None
    assert both.numbers is None


def remainder(operand: Expression, divisor: int, rest: int | None, op: str = "=") -> Comparison:
    kind = operand.type
    call = Call("%", (operand, Literal(pa.scalar(divisor, kind))), kind)
    return Comparison(op, call, Literal(pa.scalar(rest, kind)))


@each_case("kind", INTEGERS)
def test_remainders_are_found(columns: Columns, kind: pa.DataType) -> None:
    """Remainders have the signs of the numbers, the least number among them; divisors have any sign."""
    limits = np.iinfo(kind.to_pandas_dtype())
    divisors = [1, 2, 7, 100, limits.max, *([-7, -1] if limits.min else [])]
    for name in (str(kind), f"{kind} nulls"):
        for divisor in divisors:
            for rest in (0, 1, 6, limits.max, *([-1, -6, limits.min] if limits.min else [])):
                for condition in (
                    remainder(column(name), divisor, rest),
                    remainder(column(name), divisor, rest, "!="),
                    Not(remainder(column(name), divisor, rest)),
                ):
                    compared(columns, name, condition, 77, 12_345)
                    made = page_condition(condition)
                    assert made is not None
                    assert isinstance(made.numbers, page_conditions._WithRemainder)
    first = page_condition(remainder(column(str(kind)), 7, 1))
    assert first is not None
    assert first.joined(first) is None, "no kernel looks for two remainders"


def test_rows_with_a_remainder_are_those_of_the_reference(version: str, tmp_path: Path) -> None:
    names = [str(kind) for kind in INTEGERS]
    path = tmp_path / "t.lance"
    theirs = lance.write_dataset(TABLE.select(names), str(path), data_storage_version=version)
    ours = lance_core.dataset(path)
    for name in names:
        for divisor, rest in ((1, 0), (7, 3), (100, 5), (-7, -1)):
            for op in ("=", "<>"):
                condition = f"{name} % {divisor} {op} {rest}"
                assert ours.count_rows(condition) == theirs.count_rows(condition), condition


def test_remainders_of_wider_integers(columns: Columns) -> None:
    """A constant beside a column of narrow integers makes them wider; their remainders stay as they are."""
    for name, wide in (("int32", pa.int64()), ("uint32", pa.int64()), ("int8 nulls", pa.int16())):
        compared(columns, name, remainder(Cast(column(name), wide, try_cast=False), 100, 7))
    narrow = Cast(column("int8"), pa.int64(), try_cast=False)
    left = Cast(column("uint64"), pa.int64(), try_cast=False)
    others = [remainder(narrow, 1000, 7), remainder(narrow, 100, 500), remainder(left, 7, 1)]
    others += [remainder(column("int32"), divisor, 0) for divisor in (0, -(2**31))]
    others += [remainder(column("int32"), 7, 1, "<"), remainder(column("int32"), 7, None)]
    for condition in others:
        made = page_condition(condition)
        assert made is not None
        assert made.numbers is None


@each_case("kind", NUMBERS)
def test_alternatives_are_intervals(columns: Columns, kind: pa.DataType) -> None:
    first, second, *_ = numbers(kind)[1]
    for name in (str(kind), f"{kind} nulls"):
        some, others = (
            Comparison(op, column(name), Literal(each)) for op, each in (("=", first), ("<=", second))
        )
        compared(columns, name, Or((some, others)))
        compared(columns, name, Or((others, And((some, Comparison(">=", column(name), Literal(first)))))))


def _is_extreme(constant: pa.Scalar) -> bool:
    if constant.type in FLOATS:
        return not math.isfinite(constant.as_py())
    limits = np.iinfo(constant.type.to_pandas_dtype())
    return constant.as_py() in (limits.min, limits.max)


@settings(max_examples=draws(150), deadline=None)
@given(st.data())
def test_any_rows_are_compared(columns: Columns, data: st.DataObject) -> None:
    """Ranges of rows begin and end anywhere; two comparisons of a column are joined."""
    kind = data.draw(st.sampled_from(NUMBERS))
    name = data.draw(st.sampled_from([str(kind), f"{kind} nulls"]))
    start = data.draw(st.integers(0, NUM_ROWS - 1))
    end = data.draw(st.integers(start + 1, NUM_ROWS))
    made = []
    for _ in range(2):
        op, constant = data.draw(st.sampled_from(OPERATORS)), data.draw(st.sampled_from(numbers(kind)[1]))
        made.append(page_condition(Comparison(op, column(name), Literal(constant))))
    first, second = made
    assert first is not None
    assert second is not None
    joined = first.joined(second)
    if joined is not None:
        compared(columns, name, joined.expression, start, end)
    if first.numbers is not None:
        compared(columns, name, first.expression, start, end)


@pytest.mark.parametrize("name", ["word", "word nulls", "bytes"])
def test_conditions_on_dictionary_pages(columns: Columns, version: str, name: str) -> None:
    """A condition is evaluated once per item; null may meet it, too."""
    text = column(name)
    if version == "2.0" and name == "bytes":  # neither library makes dictionaries of binary values there
        made_here = page_condition(Comparison("=", text, Literal(pa.scalar(b"a", text.type))))
        ranges = opened(columns, name).page_ranges(0, NUM_ROWS)
        assert made_here is not None
        assert ranges is not None
        assert made_here.matches(ranges) is None
        return
    values = pa.array(WORDS).cast(text.type)
    made: list[Expression] = [Comparison(op, text, Literal(values[1])) for op in OPERATORS]
    made += [IsIn(text, values[:3], False), IsIn(text, values[:3], True), Not(IsIn(text, values[:2], False))]
    made += [IsNull(text), Not(IsNull(text)), Or((IsNull(text), made[0]))]
    if pa.types.is_string(text.type):
        made.append(Like(text, "%a%"))
    for condition in made:
        for start, end in ((0, NUM_ROWS), (77, 12_345)):
            compared(columns, name, condition, start, end)


@pytest.mark.parametrize("name", ["truth", "truth nulls"])
def test_truth_values_are_conditions(columns: Columns, name: str) -> None:
    truth = column(name)
    false = Literal(pa.scalar(False))
    made = [truth, Not(truth), Comparison("=", truth, false), IsNull(truth), Or((IsNull(truth), Not(truth)))]
    for condition in made:
        for start, end in ((0, NUM_ROWS), (77, 12_345)):
            compared(columns, name, condition, start, end)


def test_alternatives_on_several_columns() -> None:
    """Alternatives on one column are one condition, and those that may have no pages come first."""
    truth, number, word = column("truth"), column("int32"), column("word")
    few, many = (Comparison("<", number, Literal(pa.scalar(value, pa.int32()))) for value in (3, 5))
    text = Comparison("=", word, Literal(pa.scalar("ab")))
    made = page_alternatives(Or((few, truth, text, Comparison(">", number, many.right))))
    assert [each.expression for each in made] == [text, Or((few, Comparison(">", number, many.right))), truth]
    assert page_alternatives(Or((truth, Comparison("<", number, column("int32 nulls"))))) == ()
    assert page_alternatives(And((truth, text))) == ()


def test_a_condition_that_may_fail_is_not_for_all_truth_values() -> None:
    """T20: a row that another condition leaves out must not make a filter fail."""
    number = Cast(column("truth"), pa.int32(), try_cast=False)
    made = page_condition(Comparison("=", number, Literal(pa.scalar(1, pa.int32()))))
    assert made is not None
    assert not made.is_of_truth


def test_conditions_that_pages_cannot_answer(columns: Columns) -> None:
    """Conditions without a form for pages, or without a result there, are evaluated on decoded values."""
    one, two = column("int32"), column("int64")
    assert page_condition(Or((IsNull(one), IsNull(two)))) is None
    assert page_condition(Comparison("<", one, two)) is None
    null = page_condition(Comparison("<", one, Literal(pa.scalar(None, pa.int32()))))
    assert null is not None
    ranges = columns.open("int32").page_ranges(0, NUM_ROWS)
    assert ranges is not None
    assert null.matches(ranges) is None


def test_a_dictionary_as_long_as_its_rows_is_not_searched(columns: Columns) -> None:
    ranges = opened(columns, "word").page_ranges(0, 10)
    assert ranges is not None
    made = page_condition(Comparison("=", column("word"), Literal(pa.scalar("a"))))
    assert made is not None
    assert made.matches(ranges) is None


def test_damaged_pages_are_left_to_the_decoder(version: str, tmp_path: Path) -> None:
    """T19: the kernel gives no result, and the decoder then names the page. Any bytes are numbers in 2.0, but
    not indices of a dictionary.
    """
    path = str(tmp_path / "d")
    numbers = np.arange(100_000) % 1000
    values = pa.array(np.array(WORDS, object)[numbers % len(WORDS)]) if version == "2.0" else numbers
    condition = "x = 'word'" if version == "2.0" else "x = 5"
    dataset = lance_core.write_dataset(pa.table({"x": values}), path, data_storage_version=version)
    assert dataset.count_rows(condition)
    (file,) = (tmp_path / "d" / "data").glob("*.lance")
    data = bytearray(file.read_bytes())
    data[:4096] = b"\xff" * 4096
    file.write_bytes(data)
    fresh = lance_core.dataset(path, session=lance_core.Session())
    for _ in range(2):
        with pytest.raises(lance_core.CorruptFileError, match="page 0"):
            fresh.count_rows(condition)


@pytest.mark.parametrize("are_many", [True, False])
@pytest.mark.parametrize("deleted", [None, "id % 3 = 1"])
def test_scans_use_pages(
    version: str, deleted: str | None, are_many: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second filter on a column, whose statistics are known by then, does not decode it."""
    monkeypatch.setattr(row_filter, "_LEAST_ROWS", 1 if are_many else 1 << 62)
    names = {"n": "int32 nulls", "f": "double nulls", "w": "word", "b": "truth nulls"}
    rows = pa.table({"id": range(NUM_ROWS), **{name: TABLE[stored] for name, stored in names.items()}})
    reference = lance.write_dataset(rows, str(tmp_path / "d"), data_storage_version=version)
    if deleted is not None:
        reference.delete(deleted)
    dataset = lance_core.dataset(str(tmp_path / "d"))
    used: list[PageCondition] = []
    matches = page_conditions.PageCondition.matches

    def noted(self: PageCondition, ranges: object) -> pa.BooleanArray | None:
        used.append(self)
        return matches(self, ranges)  # type: ignore[arg-type]

    monkeypatch.setattr(page_conditions.PageCondition, "matches", noted)
    for condition in (
        "n > 20 and n <= 16000",
        "f > 1 and f < 2 and n < 5000 and w like '%a%'",
        "w = 'ab' and id > 5",
        "n > 20 and b",
        "b or n < 300",
        "n < 300 or f > 1.9 and f < 2 or b",
        "(n > 20 or b) and (not b or n = 7)",
        *(("n < 300 or b or w = 'word'", "(n > 20 or b) and (w = 'ab' or n = 7)") if are_many else ()),
        "not b and n < 5000 and f > 1 and f < 2",
        "n = 7",
        "n in (7, 8, 1000) or n > 15000",
        "n not in (7, 8, 1000)",
    ):
        for _ in range(2):
            used.clear()
            assert dataset.count_rows(condition) == reference.count_rows(condition)
            found = dataset.to_table(["id"], filter=condition)
            assert found.equals(reference.to_table(["id"], filter=condition))
        assert used, condition
