"""Reads through `lance_flight` give what is in the dataset."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

import spark_pipeline
from support.served import Root


def test_reads_are_equal(spark: SparkSession, uri: str, served: Root) -> None:
    frame = spark_pipeline.read(spark, uri, "trips")
    assert frame.rdd.getNumPartitions() == 3
    table = frame.toArrow().sort_by("id")
    assert table.num_rows == served.trips.num_rows
    assert table["driver"].equals(served.trips["driver"])
    assert table["city"].equals(served.trips["city"].cast(pa.string()))


def test_columns_and_filter(spark: SparkSession, uri: str, served: Root) -> None:
    frame = spark_pipeline.read(spark, uri, "trips", ["id", "pickup.lat"], "id < 20")
    assert frame.columns == ["id", "pickup.lat"]
    assert frame.count() == 18


def test_an_append_lands(spark: SparkSession, uri: str) -> None:
    rows = spark.range(10)
    for expected in (10, 20):
        rows.write.format("lance_flight").options(uri=uri, table="skeleton", create=True).mode(
            "append"
        ).save()
        assert spark_pipeline.read(spark, uri, "skeleton").count() == expected
