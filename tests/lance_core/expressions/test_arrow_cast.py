"""`arrow_cast` gives the type that its text names, with the values of the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError
from lance_core.expressions.parsing.arrow_type_names import arrow_type
from support.runs.each_case import each_case

DAYS = pa.array([0, 19_000], pa.date32())
TABLE = pa.table({"a": [1, 2], "s": ["7", "3"], "f": [1.5, 2.0], "d": DAYS})
SAME = {
    "Boolean": "a",
    "Int8": "a s f",
    "UInt64": "a f",
    "Float16": "a f",
    "Float64": "a",
    "Utf8": "a f",
    "LargeUtf8": "a s",
    "Binary": "s",
    "Date32": "a",
    "Time64(Nanosecond)": "a",
    "Timestamp(Second, None)": "a",
    'Timestamp(Microsecond, Some("+01:00"))': "a",
    'Timestamp(Second, Some("America/New_York"))': "d",
    "Timestamp(ns)": "a d",
    "Duration(Second)": "a",
    "Decimal128(5, 2)": "a f",
    "List(Int64)": "",
    "FixedSizeList(2, Float32)": "",
    "List(FixedSizeList(2, LargeUtf8))": "",
    "Dictionary(Int32, Utf8)": "s",
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    path = str(tmp_path_factory.mktemp("arrow_cast") / "d")
    return [lance_core.write_dataset(TABLE, path), lance.dataset(path)]


@pytest.mark.parametrize("name", SAME)
def test_types_and_values_are_those_of_the_reference(name: str, pair: list[Any]) -> None:
    for operand in ["NULL", *SAME[name].split()]:
        value = f"arrow_cast({operand}, '{name}')"
        ours, theirs = (each.to_table(columns={"a": "a", "x": value}) for each in pair)
        assert ours["x"].type == theirs["x"].type
        assert ours["x"].to_pylist() == theirs["x"].to_pylist()


def test_a_condition_may_have_it(pair: list[Any]) -> None:
    assert [each.count_rows("arrow_cast(f, 'Int8') = arrow_cast(a, 'Int8')") for each in pair] == [2, 2]


def test_a_column_of_nulls_is_added_and_merged_into(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(TABLE, tmp_path / "d")
    dataset.add_columns({"v": "arrow_cast(NULL, 'FixedSizeList(2, Float32)')"})
    vector = pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))
    dataset.merge_insert("a").when_matched_update_all().execute(pa.table({"a": [2], "v": vector}))
    found = lance.dataset(str(tmp_path / "d")).to_table(["a", "v"]).sort_by("a")
    assert found["v"].to_pylist() == [None, [1.0, 2.0]]
    assert found["v"].type == pa.list_(pa.float32(), 2)


@each_case(
    "name",
    [
        "",
        "int8",
        "Foo",
        "Int8(",
        "Int8)",
        "List()",
        "List",
        "Second",
        "3",
        "None",
        "Timestamp",
        "Timestamp(Int8)",
        "Timestamp(Second, Some(UTC))",
        "Time32(Nanosecond)",
        "Decimal128(99, 2)",
        "Decimal128(5)",
        "FixedSizeList(Int8, 2)",
        "Dictionary(Utf8, Utf8)",
        "Int8; Int8",
        "List(" * 500 + "Int8" + ")" * 500,
    ],
)
def test_other_names_are_refused(name: str) -> None:
    """T20: no name exhausts the stack or ends in another error."""
    with pytest.raises(InvalidInputError, match="arrow_cast"):
        arrow_type(name)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("arrow_cast(a)", "takes 2 arguments"),
        ("arrow_cast(a, s)", "text in quotes"),
        ("arrow_cast(a, 3)", "text in quotes"),
        ("arrow_cast(300, 'Int8')", "cannot become int8"),
        ("arrow_cast(a, 'List(Int8)')", "cannot become list"),
    ],
)
def test_other_arguments_are_refused(value: str, text: str, pair: list[Any]) -> None:
    with pytest.raises(InvalidInputError, match=text):
        pair[0].to_table(columns={"x": value})
