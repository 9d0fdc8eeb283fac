"""Writes through `lance_flight` are one version, or none."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import flight_client
import spark_pipeline
from spark_pipeline.batch_write import BatchWriter, Staged
from spark_pipeline.data_source_options import Options
from support.servers.served import Root


@pytest.fixture
def table() -> str:
    return f"written/{uuid.uuid4().hex}"


def save(frame: DataFrame, uri: str, table: str, mode: str = "append", **options: object) -> None:
    frame.write.format("lance_flight").options(uri=uri, table=table, **options).mode(mode).save()


def staged_files(served: Root, table: str) -> list[str]:
    return [path.name for path in (served.path / f"{table}.lance" / "_staging").glob("*")]


def test_a_write_is_one_version(
    spark: SparkSession, client: flight_client.Client, uri: str, table: str
) -> None:
    rows = spark.range(0, 1000, 1, numPartitions=4)
    save(rows, uri, table, create=True, maxRowsPerFile=100)
    save(rows, uri, table)
    there = client.dataset(table)
    assert there.version == 2
    assert there.to_table()["id"].to_pylist() == [*range(1000), *range(1000)]  # in the order of the frame
    assert client.describe(table)["fragments"] == 4 * 3 + 4

    save(spark.sql("SELECT 'x' AS word"), uri, table, "overwrite")
    assert client.dataset(table).to_table().to_pylist() == [{"word": "x"}]
    save(spark.sql("SELECT 'x' AS word").limit(0), uri, table)
    assert client.dataset(table).version == 3
    save(rows.limit(0), uri, table, "overwrite")
    assert client.dataset(table).to_table().to_pydict() == {"id": []}


def failing(frame: DataFrame, attempts: int, until: Callable[[], bool] = lambda: True) -> DataFrame:
    """Return the rows, whose second partition fails after the last row, this often, and not before
    `until`.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 1 and context.attemptNumber() < attempts:
            while not until():
                time.sleep(0.05)
            raise RuntimeError("injected")

    return frame.mapInArrow(run, frame.schema)


def test_a_task_that_fails_is_run_again(
    spark: SparkSession, client: flight_client.Client, uri: str, served: Root, table: str
) -> None:
    """T44: rows of attempts that failed, before they had staged them or after, are not in the version."""
    rows = spark.range(0, 1000, 1, numPartitions=3)
    save(failing(rows, 2), uri, table, create=True)
    assert client.dataset(table).to_table()["id"].to_pylist() == list(range(1000))
    assert staged_files(served, table) == []

    class FailsLate(BatchWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
            staged = super().write(iterator)
            context = TaskContext.get()
            if context.partitionId() == 1 and context.attemptNumber() < 2:
                raise RuntimeError("injected")
            return staged

    class Source(spark_pipeline.LanceFlightDataSource):
        @classmethod
        def name(cls) -> str:
            return "fails_late"

        def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
            return FailsLate(Options.parse(self.options), schema, overwrite)

    spark.dataSource.register(Source)
    rows.write.format("fails_late").options(uri=uri, table=table).mode("append").save()
    assert client.dataset(table).version == 2
    assert client.dataset(table).to_table()["id"].to_pylist() == [*range(1000), *range(1000)]
    assert len([name for name in staged_files(served, table) if name.endswith(".staged")]) == 2


def test_a_job_that_fails_writes_nothing(
    spark: SparkSession, client: flight_client.Client, uri: str, served: Root, table: str
) -> None:
    """T44: the staged rows of a failed job are removed.

    (Rows of a task that was killed before it could report them are removed when they expire: here the
    others have staged before one task fails for good.)
    """
    rows = spark.range(0, 1000, 1, numPartitions=3)
    save(rows, uri, table, create=True)
    staging = served.path / f"{table}.lance" / "_staging"
    with pytest.raises(PySparkException, match="injected"):
        save(failing(rows, 4, lambda: len([*staging.glob("*.staged")]) == 2), uri, table)
    assert client.dataset(table).version == 1
    assert staged_files(served, table) == []


def test_sql(spark: SparkSession, client: flight_client.Client, uri: str, table: str) -> None:
    """A view reads and writes; it stays the version at which it was made."""
    client.write(table, {"id": [1, 2], "word": ["a", "b"]}, "create")
    view = f"CREATE OR REPLACE TEMPORARY VIEW words USING lance_flight OPTIONS (uri '{uri}', table '{table}')"
    spark.sql(view)
    spark.sql("INSERT INTO words (word, id) SELECT upper(word), id + 2 FROM words")
    assert client.dataset(table).to_table()["word"].to_pylist() == ["a", "b", "A", "B"]
    assert spark.sql("SELECT max(id) FROM words WHERE word < 'z'").collect() == [(2,)]
    spark.sql(view)
    assert spark.sql("SELECT max(id) FROM words").collect() == [(4,)]
    spark.sql("INSERT OVERWRITE words VALUES (9L, 'z')")
    assert client.dataset(table).to_table().to_pylist() == [{"id": 9, "word": "z"}]
    for mode in ("error", "ignore"):
        with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            save(spark.range(1), uri, table, mode)
