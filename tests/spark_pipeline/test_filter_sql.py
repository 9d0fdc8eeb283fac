"""Conditions of Spark as SQL of the server; the answers are compared in test_batch_read.py."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark
from pyspark.sql.types import LongType

from spark_pipeline.arrow_types import spark_schema
from spark_pipeline.filter_sql import to_sql
from support.runs.each_case import each_case

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.uint8()),
        ("half", pa.float16()),
        ("x", pa.float64()),
        ("a `b`.c", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("tokyo", pa.timestamp("us", "Asia/Tokyo")),
        ("second", pa.timestamp("s")),
        ("raw", pa.binary()),
        ("place", pa.struct([("lat", pa.float32())])),
        ("city", pa.dictionary(pa.int8(), pa.string())),
    ]
)
MOMENT = dt.datetime(2024, 1, 2, 3, 4, 5, 6, dt.timezone(dt.timedelta(hours=1)))


@each_case(
    ("condition", "sql"),
    [
        (spark.EqualTo(("id",), -5), "`id` = -5"),
        (spark.Not(spark.EqualNullSafe(("id",), 5)), "NOT (`id` <=> 5)"),
        (spark.In(("id",), (1, 2)), "`id` IN (1, 2)"),
        (spark.IsNull(("city",)), "`city` IS NULL"),
        (spark.IsNotNull(("place", "lat")), "`place`.`lat` IS NOT NULL"),
        (spark.GreaterThan(("place", "lat"), 0.5), "`place`.`lat` > 0.5"),
        (spark.LessThan(("x",), float("nan")), "`x` < CAST('nan' AS double)"),
        (spark.StringStartsWith(("a `b`.c",), "it's"), "starts_with(`a ``b``.c`, 'it''s')"),
        (spark.GreaterThanOrEqual(("price",), Decimal("1E+1")), "`price` >= CAST('10' AS decimal(10, 2))"),
        (spark.LessThanOrEqual(("day",), dt.date(7, 1, 2)), "`day` <= date '0007-01-02'"),
        (spark.EqualTo(("at",), MOMENT), "`at` = timestamp '2024-01-02 02:04:05.000006'"),
        (spark.EqualTo(("raw",), bytearray(b"\x01\xff")), "`raw` = x'01ff'"),
    ],
)
def test_pushed(condition: spark.Filter, sql: str) -> None:
    assert to_sql(condition, COLUMNS, spark_schema(COLUMNS)) == sql


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("small",), 5),
        (("half",), 0.5),
        (("tokyo",), MOMENT),
        (("second",), MOMENT),
        (("city",), "Lund"),
        (("place",), {"lat": 1.0}),
        (("a `b`.c",), "nul\0"),
        (("other",), 1),
    ],
)
def test_handed_back(path: tuple[str, ...], value: Any) -> None:
    """Spark evaluates conditions for which Lance and Spark might differ."""
    condition = spark.EqualTo(path, value)
    assert to_sql(condition, COLUMNS, spark_schema(COLUMNS)) is None
    assert to_sql(spark.Not(condition), COLUMNS, spark_schema(COLUMNS)) is None


def test_a_column_read_as_another_type_is_handed_back() -> None:
    schema = spark_schema(COLUMNS)
    schema["day"].dataType = LongType()
    assert to_sql(spark.EqualTo(("day",), 1), COLUMNS, schema) is None
    assert to_sql(spark.In(("id",), tuple(range(20_000))), COLUMNS, schema) is None
