"""Reads through `lance_flight` give what is in the dataset; the server skips what a query does not need."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions

import flight_client
import spark_pipeline
from support.servers.served import Root
from support.spark.settings import ARRAYS

FORMAT = "lance_flight"


def load(spark: SparkSession, uri: str, table: str, **options: object) -> DataFrame:
    return spark.read.format(FORMAT).options(uri=uri, table=table, **options).load()


@pytest.fixture(scope="module")
def numbers(client: flight_client.Client) -> str:
    """100,000 rows in order, four fragments of several pages, with statistics."""
    ids = np.arange(100_000)
    table = pa.table(
        {
            "id": ids,
            "x": np.where(ids % 1000 == 0, np.nan, ids / 7),
            "word": pa.array([f"w{i % 50:02}" for i in ids]),
            "place": pa.StructArray.from_arrays([pa.array(ids % 90), pa.array(ids / 3)], ["zone", "lat"]),
        }
    )
    client.write("numbers", table, "create", max_rows_per_file=25_000)
    return "numbers"


def test_values_of_every_type_are_equal(spark: SparkSession, client: flight_client.Client, uri: str) -> None:
    """T24: Spark reads the written values of every type, nulls, NaN and limits included."""
    table = pa.table({name: array.take([i % len(array) for i in range(6)]) for name, array in ARRAYS.items()})
    client.write("types", table, "create")
    frame = load(spark, uri, "types")
    read = frame.toArrow()
    assert frame.columns == table.column_names
    assert frame.limit(4).count() == 4, "Spark refuses times here unless its setting allows them"
    for name in table.column_names:
        given, got = table[name].to_pylist(), read[name].to_pylist()
        if name not in {"uint64", "timestamp_ns", "timestamp_zone"}:  # equal, and shown otherwise
            given, got = str(given), str(got)
        assert got == given, name


def test_partitions_are_the_endpoints(spark: SparkSession, uri: str, served: Root) -> None:
    frame = load(spark, uri, "trips")
    assert frame.rdd.getNumPartitions() == 3
    read = frame.toArrow().sort_by("id")
    assert read["driver"].to_pylist() == served.trips["driver"].to_pylist()
    assert read["stops"].to_pylist() == served.trips["stops"].to_pylist()
    assert read["vector"].to_pylist() == served.trips["vector"].to_pylist()


def test_aggregates_come_from_the_server(spark: SparkSession, uri: str, served: Root) -> None:
    frame = load(spark, uri, "trips", aggregates='{"trips": "count(*)"}', groupBy="driver")
    expected = Counter(served.trips["driver"].to_pylist())
    assert {row.driver: row.trips for row in frame.collect()} == expected
    most = frame.where("trips > 1").selectExpr("max(trips)").first()
    assert most is not None
    assert most[0] == max(expected.values())


def test_columns_filters_and_schemas(spark: SparkSession, uri: str, served: Root) -> None:
    frame = spark_pipeline.read(spark, uri, "trips", ["id", "pickup.lat"], "id < 20")
    assert frame.columns == ["id", "pickup.lat"]
    assert frame.count() == 18

    computed = spark_pipeline.read(
        spark, uri, "trips", {"double": "id * 2", "who": "upper(driver)"}, "id IN (4, 5)", batchSize=1
    )
    assert computed.collect() == [(8, "DRIVER 4"), (10, "DRIVER 5")]

    narrowed = spark.read.format(FORMAT).options(uri=uri, table="trips", filter="id = 5")
    narrowed = narrowed.schema("pickup struct<zone: string>, id int").load()
    assert [tuple(row) for row in narrowed.collect()] == [(("zone 5",), 5)]

    with pytest.raises(PySparkException, match=r"'fair' is not selected, expected one of .*fare"):
        spark.read.format(FORMAT).options(uri=uri, table="trips").schema("fair double").load().count()
    with pytest.raises(PySparkException, match="column 'id' is bigint and cannot be read as string"):
        spark.read.format(FORMAT).options(uri=uri, table="trips").schema("id string").load().count()


def test_what_is_loaded_stays_one_version(
    spark: SparkSession, client: flight_client.Client, uri: str
) -> None:
    """T30: commits between two queries of a frame make no difference to it."""
    client.write("grows", {"a": [1, 2]}, "create")
    client.create_tag("grows", "first")
    frame = load(spark, uri, "grows")
    client.write("grows", {"a": [3]})
    assert frame.count() == 2
    assert frame.filter("a > 0").count() == 2
    assert load(spark, uri, "grows").count() == 3
    for options in ({"version": 1}, {"versionAsOf": 1}, {"tag": "first"}):
        assert load(spark, uri, "grows", **options).count() == 2, options
    assert load(spark, uri, "grows@first").count() == 2
    client.create_branch("grows", "dev", 1)
    assert load(spark, uri, "grows", branch="dev").count() == 2


def test_errors_name_what_is_wrong(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    for options, message in [
        ({"uri": uri, "table": "no_such"}, "no_such"),
        ({"uri": uri}, "option table is missing"),
        (
            {"uri": uri, "table": "trips", "colums": "id"},
            "no option 'colums', did you mean columns",
        ),
        ({"uri": uri, "table": "trips", "version": "2", "tag": "a"}, "version and tag: expected one of them"),
        ({"uri": uri, "table": "trips", "filter": "idd = 5"}, "idd"),
        ({"uri": uri, "table": "trips", "columns": "id,nope"}, "nope"),
        ({"uri": uri, "table": "trips", "create": "true"}, "option create is for writes, not for reads"),
        ({"uri": uri, "table": "trips", "startingVersion": "1"}, "startingVersion is for streams"),
    ]:
        with pytest.raises(PySparkException, match=message):
            spark.read.format(FORMAT).options(**options).load().count()


def test_a_filter_option_prunes(client: flight_client.Client, numbers: str) -> None:
    """The plan of the scan that partitions come from: pages are left out."""
    statistics = client.dataset(numbers).scanner(["id"], "id BETWEEN 30000 AND 30010").statistics
    assert statistics["fragments_pruned"] == 3


CONDITIONS = [
    "id = 30000",
    "id > 99990 AND id <= 99995",
    "x > 14000",
    "x = double('NaN') AND id < 30000",
    "NOT (id < 99999)",
    "id IN (1, 50000, 99999)",
    "word LIKE 'w4%' AND id < 1000",
    "word LIKE '%7' AND word LIKE '%1%' AND id < 1000",
    "place.zone = 5 AND id < 500",
    "id <=> 77",
    "id < 10 OR id > 99995",
    "id % 1000 = 7 AND id >= 98000",
    "x IS NULL",
]


def test_pushed_conditions_give_the_same_rows(spark: SparkSession, uri: str, numbers: str) -> None:
    """T25: for every kind of condition the rows are those that Spark finds by itself."""
    everything = load(spark, uri, numbers)
    expected = everything.select(*[functions.count_if(functions.expr(text)) for text in CONDITIONS]).first()
    assert expected is not None
    for text, count in zip(CONDITIONS, expected, strict=True):
        assert load(spark, uri, numbers, pushDownFilters=True).filter(text).count() == count, text


def test_conditions_of_several_queries(spark: SparkSession, uri: str, numbers: str) -> None:
    """T25: by default a frame answers every query, whatever was asked of it before."""
    frame = load(spark, uri, numbers)
    low, high = frame.filter("id < 10"), frame.filter("id >= 99990")
    assert low.count() == 10
    assert high.count() == 10
    assert low.union(high).agg(functions.sum("id")).first() == (sum(range(10)) + sum(range(99_990, 100_000)),)
    assert frame.count() == 100_000


def test_pushed_conditions_reach_the_server(spark: SparkSession, uri: str, numbers: str) -> None:
    """The server's plan leaves out three of four fragments, each a partition.

    Spark 4.3 goes on to use this plan for whatever is asked of the frame. When that is over, the last lines
    fail, and `pushDownFilters` can be the default (docs/decisions/0018-spark-filters.md).
    """
    frame = load(spark, uri, numbers, pushDownFilters=True)
    found = frame.filter("id BETWEEN 30000 AND 30009 AND id % 2 = 0")
    assert found.rdd.getNumPartitions() == 1
    assert found.count() == 5
    assert frame.filter("id = 70000 AND word <> 'x'").count() == 1
    assert frame.count() == 1


def test_pushing_needs_the_setting_of_spark(spark: SparkSession, uri: str, numbers: str) -> None:
    """Without it everything works that does not ask for it, and what does is told which setting."""
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "false")
    try:
        assert load(spark, uri, numbers).filter("id = 5").count() == 1
        with pytest.raises(PySparkException, match=setting):
            load(spark, uri, numbers, pushDownFilters=True).count()
    finally:
        spark.conf.set(setting, "true")


def test_blobs_are_their_descriptors(
    spark: SparkSession, client: flight_client.Client, uri: str, served: Root, tmp_path: Path
) -> None:
    """In the data file, shared and own side files, and outside; rows that are appended have values."""
    (tmp_path / "outside").write_bytes(b"o" * 200)
    outside = lance.Blob.from_uri(f"file://{tmp_path}/outside", position=0, size=200)
    values = [b"inline", b"v" * 100_000, b"v" * (5 << 20), None, outside]
    table = pa.table({"id": range(5), "b": lance.blob_array(values)})
    path = str(served.path / "blobs.lance")
    lance.write_dataset(table, path, data_storage_version="2.2", allow_external_blob_outside_bases=True)

    frame = load(spark, uri, "blobs")
    read = frame.toArrow().sort_by("id")
    assert read.to_pylist() == lance.dataset(path).to_table().to_pylist()
    large = frame.where("b.size > 10").select("id", "b.kind").orderBy("id")
    assert [tuple(row) for row in large.collect()] == [(1, 1), (2, 2), (4, 3)]
    assert load(spark, uri, "blobs", columns="id", filter="b.kind = 3").collect() == [(4,)]

    first_form = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([pa.array([b"v" * 10], pa.large_binary())], schema=pa.schema([first_form]))
    client.write("blobs_2_1", rows, "create", data_storage_version="2.1")
    added = spark.createDataFrame([(bytearray(b"w" * 20),)], "b binary")
    added.write.format(FORMAT).options(uri=uri, table="blobs_2_1").mode("append").save()
    sizes = load(spark, uri, "blobs_2_1").selectExpr("CAST(b.size AS INT) AS size").orderBy("size")
    assert [row[0] for row in sizes.collect()] == [10, 20]


@pytest.mark.parametrize("version", [pytest.param("2.1", marks=pytest.mark.long), "2.2"])
def test_blobs_as_bytes(
    spark: SparkSession, client: flight_client.Client, uri: str, served: Root, version: str
) -> None:
    """Spark appends binary columns to blob columns, and reads them back as binary columns."""
    name = f"bytes_{version.replace('.', '_')}"
    schema = pa.schema(
        [("id", pa.int64()), pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})]
    )
    values = [b"inline", b"v" * 100_000, b"v" * (5 << 20), None, b""]
    rows = pa.table({"id": range(5), "b": values}, schema=schema)
    client.write(name, rows, "create", data_storage_version=version)
    added = spark.createDataFrame([(5, bytearray(b"w" * 20)), (6, None)], "id long, b binary")
    added.write.format(FORMAT).options(uri=uri, table=name).mode("append").save()

    frame = load(spark, uri, name, blobHandling="all_binary")

    assert frame.dtypes == [("id", "bigint"), ("b", "binary")]
    found = frame.toArrow().sort_by("id")
    assert found["b"].to_pylist() == [*values, b"w" * 20, None]
    theirs = lance.dataset(str(served.path / f"{name}.lance")).scanner(blob_handling="all_binary").to_table()
    assert theirs.sort_by("id")["b"].to_pylist() == found["b"].to_pylist()
    part = load(spark, uri, name, blobHandling="all_binary", columns="b", filter="b.size = 20")
    assert [bytes(row.b) for row in part.collect()] == [b"w" * 20]
    pushed = load(spark, uri, name, blobHandling="all_binary", pushDownFilters="true")
    assert [row.id for row in pushed.where("b = x'696e6c696e65'").select("id").collect()] == [0]
    requested = (
        spark.read.format(FORMAT).options(uri=uri, table=name, blobHandling="all_binary").schema("b binary")
    )
    assert requested.load().where("length(b) > 1000000").count() == 1
