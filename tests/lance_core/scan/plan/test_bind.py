"""Filters that callers write, as conditions on the columns of a table."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from lance_core.errors import InvalidInputError
from lance_core.scan.plan import bind
from lance_core.scan.plan.bind import bind_filter
from lance_core.schema import Schema, schema_from_arrow

COLUMNS = pa.schema({"x": pa.int64(), "t": pa.timestamp("ns")})


@pytest.fixture
def schema() -> Schema:
    return schema_from_arrow(COLUMNS)


def test_a_filter_is_parsed_once_per_schema(schema: Schema) -> None:
    """Another schema gives the same text another meaning."""
    assert bind_filter(schema, "x > 1") is bind_filter(schema, "x > 1", repeatable=True)
    other = schema_from_arrow(pa.schema({"x": pa.float32()}))
    assert bind_filter(other, "x > 1") != bind_filter(schema, "x > 1")
    with pytest.raises(InvalidInputError, match="no column 't'"):
        bind_filter(other, "t IS NULL")


def test_the_time_of_the_call_is_not_kept(schema: Schema) -> None:
    first = bind_filter(schema, "t < now()")
    time.sleep(0.001)
    assert bind_filter(schema, "t < now()") != first
    with pytest.raises(InvalidInputError, match="now"):
        bind_filter(schema, "t < now()", repeatable=True)


def test_few_short_filters_are_kept(schema: Schema) -> None:
    """T33: callers choose the texts, so their number and their size are limited."""
    for number in range(200):
        bind_filter(schema, f"x > {number}")
    bind_filter(schema, f"x IN ({', '.join(map(str, range(2000)))})")
    kept = bind._filters[schema]
    assert 0 < len(kept) <= 64
    assert max(map(len, kept)) < 1024
