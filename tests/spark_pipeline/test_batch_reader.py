"""The reader as Spark's planner and tasks call it, without Spark running."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark
from pyspark.sql.types import DecimalType, LongType, StructField, StructType

import flight_client
from flight_client import UnavailableError
from spark_pipeline.batch_read import BatchReader, PushingReader
from spark_pipeline.data_source import LanceFlightDataSource
from support.servers.served import Root, StartServer


def reader_of(**options: str) -> BatchReader:
    """Return the reader after pickling source and reader, as Spark does."""
    source = LanceFlightDataSource({"table": "trips", **options})
    schema = source.schema()
    return pickle.loads(pickle.dumps(source)).reader(schema)


def rows_of(reader: BatchReader) -> pa.Table:
    """Return the rows that the tasks read."""
    partitions = reader.partitions()
    reader, partitions = pickle.loads(pickle.dumps((reader, partitions)))
    return pa.Table.from_batches(batch for partition in partitions for batch in reader.read(partition))


def test_partitions_are_spread_over_servers(served: Root, serve: StartServer) -> None:
    """T44: each begins with another server; when one is gone, the others serve its part."""
    servers = [serve(served.path) for _ in range(2)]
    reader = reader_of(uri=",".join(server.uri for server in servers), columns="id")
    before = [asked(server.uri) for server in servers]
    assert rows_of(reader)["id"].equals(served.trips["id"])
    after = [asked(server.uri) for server in servers]
    assert all(now > then for now, then in zip(after, before, strict=True)), (before, after)

    partitions = reader.partitions()
    servers[0].kill()
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    assert pa.Table.from_batches(batches)["id"].equals(served.trips["id"])
    servers[1].kill()
    with pytest.raises(UnavailableError):
        next(reader.read(partitions[0]))


def asked(uri: str) -> int:
    """Return how often the caches of a server were asked: the number grows with the reads of the server."""
    with flight_client.connect(uri) as client:
        caches = client.health()["caches"]
    return sum(
        value for cache in caches.values() for name, value in cache.items() if name in {"hits", "misses"}
    )


def test_pushed_conditions_do_not_add_up(uri: str, served: Root) -> None:
    """T25: each query has its own, and those of the option; what is not taken is handed back."""
    reader = reader_of(uri=uri, filter="id < 2500", pushDownFilters="true")
    assert isinstance(reader, PushingReader)
    unknown = spark.EqualTo(("city",), "Lund")  # a dictionary
    for value in (2000, 2001):
        conditions = [spark.EqualTo(("id",), value), unknown]
        assert list(reader.pushFilters(conditions)) == [unknown]
        assert rows_of(reader)["id"].to_pylist() == [value]
    assert list(reader.pushFilters([])) == []
    assert rows_of(reader).num_rows == sum(number < 2500 for number in served.trips["id"].to_pylist())


def test_without_the_option_nothing_is_pushed(uri: str) -> None:
    """Spark refuses every query of a class with the method, unless its setting is on."""
    reader = reader_of(uri=uri)
    assert type(reader).pushFilters is spark.DataSourceReader.pushFilters


def test_the_server_sorts_and_limits(uri: str, served: Root) -> None:
    """Conditions of a query are for the rows that the limit leaves, so none is pushed."""
    reader = reader_of(uri=uri, columns="id", orderBy="id desc", limit="3", pushDownFilters="true")
    assert isinstance(reader, PushingReader)
    condition = spark.LessThan(("id",), 5)
    assert list(reader.pushFilters([condition])) == [condition]
    assert len(reader.partitions()) == 1
    assert rows_of(reader)["id"].to_pylist() == sorted(served.trips["id"].to_pylist())[:-4:-1]
    with pytest.raises(flight_client.InvalidInputError, match="option orderBy: expected names"):
        reader_of(uri=uri, orderBy="id,,x")


def test_the_server_aggregates(uri: str, served: Root) -> None:
    """One partition has a row per group. Spark may ask for a part of the columns, and for wider types."""
    options = {"aggregates": '{"trips": "count(*)", "last": "max(id)"}', "filter": "id >= 100"}
    grouped = reader_of(uri=uri, groupBy='{"part": "id % 7"}', **options)
    assert len(grouped.partitions()) == 1
    ids = [number for number in served.trips["id"].to_pylist() if number >= 100]
    expected = {
        part: (len(of_part), max(of_part))
        for part in range(7)
        if (of_part := [i for i in ids if i % 7 == part])
    }
    rows = rows_of(grouped).to_pylist()
    assert {row["part"]: (row["trips"], row["last"]) for row in rows} == expected
    assert rows_of(reader_of(uri=uri, **options)).to_pylist() == [{"trips": len(ids), "last": max(ids)}]

    source = LanceFlightDataSource({"table": "trips", "uri": uri, **options})
    part = source.reader(StructType([StructField("last", DecimalType(20, 0))]))
    assert rows_of(part).to_pylist() == [{"last": max(ids)}]
    with pytest.raises(flight_client.InvalidInputError, match="'id' is neither a group nor an aggregate"):
        source.reader(StructType([StructField("id", LongType())]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groupBy": "id"}, "option groupBy is for aggregates"),
        ({"aggregates": "count(*)"}, "option aggregates: expected a JSON object"),
        ({"aggregates": "{}"}, "option aggregates: expected a JSON object"),
        ({"aggregates": '{"n": 1}'}, "option aggregates: expected a JSON object"),
        (
            {"aggregates": '{"n": "count(*)"}', "orderBy": "n"},
            "option orderBy cannot be used with aggregates",
        ),
        ({"aggregates": '{"n": "median(id)"}'}, "median"),
    ],
)
def test_aggregates_that_are_none_are_refused(uri: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(flight_client.LanceError, match=message):
        reader_of(uri=uri, **options)


def test_computed_columns_keep_their_conditions(uri: str) -> None:
    reader = reader_of(uri=uri, columns='{"id": "id + 1"}', pushDownFilters="true")
    assert isinstance(reader, PushingReader)
    condition = spark.EqualTo(("id",), 1)
    assert list(reader.pushFilters([condition])) == [condition]
    assert rows_of(reader)["id"][0].as_py() == 1
