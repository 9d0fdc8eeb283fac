"""Conditions that DuckDB pushes into a dataset become our tree, prune pages, and pass the same rows."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

from lance_core.expressions.evaluate import passing
from lance_core.expressions.parsing.arrow import parse_arrow
from lance_core.expressions.tree import ArrowExpression
from support.searches import plain_sql

TABLE = plain_sql.TABLE.drop(["dict"]).combine_chunks()


class Listening(pads.Dataset):
    """A dataset that keeps the filters it is asked for, and answers with the rows that ours pass."""

    def __init__(self) -> None:
        self.pushed: list[pc.Expression] = []

    @property
    def schema(self) -> pa.Schema:
        return TABLE.schema

    def scanner(
        self, columns: Any = None, filter: pc.Expression | None = None, **options: Any
    ) -> pads.Scanner:
        table = TABLE
        if filter is not None:
            self.pushed.append(filter)
            expression = parse_arrow(filter, TABLE.schema)
            assert not isinstance(expression, ArrowExpression)
            table = table.filter(passing(expression, TABLE.to_batches()[0]))
        return pads.dataset(table).scanner(columns=columns)


@pytest.mark.parametrize(
    "condition",
    [
        "id in (1, 2)",
        "id not in (1, 2)",
        "x < 5",
        "x = 1.5",
        "f <= 1.5",
        "s in ('abc', '')",
        "st.a = 1",
        "d > date '2000-01-01'",
        "ts < timestamp '2020-01-01'",
        "tz > timestamptz '1970-01-01 00:00:00+00'",
        "dec = 1.5",
        "bin = 'abc'::blob",
        "id is null",
        "id = 1 or s = 'ABC'",
        "not (id = 1)",
        "id <> 2 and x is not null",
        "u8 > 200",
        "big = 9223372036854775807",
        '"a b" between 2 and 4',
    ],
)
def test_pushed_filters(condition: str) -> None:
    listening = Listening()
    with duckdb.connect() as connection:
        connection.register("listening", listening)
        connection.register("plain", TABLE)
        found, expected = (
            connection.execute(f'select "a b" from {name} where {condition} order by 1').fetchall()
            for name in ("listening", "plain")
        )
    assert found == expected
    assert listening.pushed
