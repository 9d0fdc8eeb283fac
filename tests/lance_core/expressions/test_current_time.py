"""Functions of the current time, compared with the reference."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.expressions.parsing.sql import parse_expression, parse_filter

CONDITIONS = [
    "day <= current_date()",
    "CURRENT_DATE() < day",
    "day < current_date",
    "today() > day",
    "time < now()",
    "current_timestamp() < time",
    "time < current_timestamp",
    "id = 1 and now() is not null",
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Days and times long ago, far ahead, and null."""
    path = str(tmp_path_factory.mktemp("now") / "rows.lance")
    far = datetime.now() + timedelta(days=1000)
    table = pa.table(
        {
            "id": [1, 2, 3],
            "day": pa.array([date(2020, 1, 1), far.date(), None]),
            "time": pa.array([datetime(2020, 1, 1), far, None], pa.timestamp("us")),
        }
    )
    lance.write_dataset(table, path)
    return path


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_find_the_rows_of_the_reference(path: str, condition: str) -> None:
    theirs, ours = (library.dataset(path).to_table(filter=condition) for library in (lance, lance_core))
    assert ours["id"].to_pylist() == theirs["id"].to_pylist()


def test_the_values_are_those_of_now_in_utc(path: str) -> None:
    columns = {"id": "id", "day": "today()", "date": "current_date()", "now": "now()"}
    theirs = lance.dataset(path).to_table(columns=columns)
    before = datetime.now(UTC).replace(tzinfo=None)
    found = lance_core.dataset(path).to_table(columns=columns)
    after = datetime.now(UTC).replace(tzinfo=None)
    assert found.schema.types == theirs.schema.types
    for row in found.to_pylist():
        assert before <= row["now"].to_pydatetime(warn=False) + timedelta(microseconds=1)
        assert row["now"].to_pydatetime(warn=False) <= after
        assert before.date() <= row["day"] <= after.date()
        assert row["day"] == row["date"]


def test_an_expression_has_one_time() -> None:
    parsed = parse_filter("now() = current_timestamp() and today() = current_date", pa.schema([]))
    assert str(parsed) == str(parse_filter("true", pa.schema([])))


def test_a_column_may_have_the_name_of_a_function(tmp_path: Path) -> None:
    table = pa.table({"current_date": [date(2020, 1, 1)], "now": [1]})
    dataset = lance_core.write_dataset(table, tmp_path / "d")
    assert dataset.count_rows("current_date = date '2020-01-01' and now = 1") == 1
    assert dataset.count_rows("current_date < current_date()") == 1


@pytest.mark.parametrize("text", ["now()", "current_date", "today()", "current_timestamp"])
def test_texts_that_are_read_again_must_not_depend_on_the_time(text: str) -> None:
    with pytest.raises(lance_core.InvalidInputError, match="write the date or time instead"):
        parse_expression(text, pa.schema([]), repeatable=True)


@pytest.mark.parametrize("text", ["now(1)", "current_date(1)"])
def test_the_functions_take_no_arguments(path: str, text: str) -> None:
    for library in (lance, lance_core):
        with pytest.raises(ValueError, match=r"(?i)now|current_date"):
            library.dataset(path).to_table(filter=f"{text} is null")
