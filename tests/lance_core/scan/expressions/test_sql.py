"""Filters in SQL: which rows pass, compared with the reference."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_core.errors import InvalidInputError
from lance_core.scan.expressions.evaluate import passing
from lance_core.scan.expressions.sql import parse_filter

NAN = float("nan")
TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3, None, -5], pa.int32()),
        "i8": pa.array([1, 127, -128, None, 7], pa.int8()),
        "x": pa.array([1.5, NAN, -0.0, None, 6.0], pa.float64()),
        "f": pa.array([1.5, NAN, -0.0, None, 7.0], pa.float32()),
        "Name": pa.array(["abc", "", "ABC", None, "b"]),
        "st": pa.array(
            [{"a": 1, "B": "x"}, {"a": None, "B": "y"}, None, {"a": 3, "B": None}, {"a": 4, "B": "z"}]
        ),
        "dict": pa.array(["abc", "", "ABC", None, "abc"]).dictionary_encode(),
    }
)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    path: Path = tmp_path_factory.mktemp("filters") / "table.lance"
    return lance.write_dataset(TABLE, path)


@pytest.mark.parametrize(
    "text",
    [
        "ID = 1",
        "name >= 'ABC' AND name < \"b\"",
        "`Name` IN ('abc', 'b')",
        "st.a IS NULL OR st.B = 'z'",
        "x > 1",
        "x <= 6",
        "x = f",
        "x < f",
        "x IN (0.0, 1.5)",
        "x NOT IN (-0.0)",
        "id NOT IN (1, NULL)",
        "id BETWEEN -5 AND 2",
        "NOT (i8 = 300)",
        "dict = 'abc'",
        "dict IS NULL",
        "id IS DISTINCT FROM 1",
        "Name LIKE 'a%'",
    ],
)
def test_rows_that_pass(reference: lance.LanceDataset, text: str) -> None:
    batch = TABLE.to_batches()[0]
    found = passing(parse_filter(text, TABLE.schema), batch)
    expected = reference.to_table(filter=text, columns=[], with_row_address=True)["_rowaddr"].to_pylist()
    assert [row for row, passes in enumerate(found.to_pylist()) if passes] == expected


@pytest.mark.parametrize(
    "text", ["i8 = 300", "id = '1'", "nam = 1", "id", "id =", "id IN (SELECT 1)", "`name` = 'abc'"]
)
def test_what_is_refused(reference: lance.LanceDataset, text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        reference.to_table(filter=text)
    with pytest.raises(InvalidInputError):
        parse_filter(text, TABLE.schema)


@pytest.mark.parametrize("operator", ["LIKE", "ILIKE"])
@pytest.mark.parametrize("pattern", ["'b%'", "'%b'", "'b!%' ESCAPE '!'"])
def test_not_like_is_the_negation_of_like(operator: str, pattern: str) -> None:
    schema = pa.schema([("a", pa.string())])
    assert parse_filter(f"a NOT {operator} {pattern}", schema) == parse_filter(
        f"NOT (a {operator} {pattern})", schema
    )
