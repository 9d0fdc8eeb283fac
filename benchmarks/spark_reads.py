"""Reads of Spark through `lance_flight`, against the same batches from memory and against Parquet files.

The source from memory is what Spark's Python data sources cost without any reading: its tasks map files that
hold the very batches which `lance_flight` yields. The Parquet files are those that Spark itself writes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import flight_client
import spark_pipeline
from benchmarks import targets
from benchmarks.data import Dataset
from benchmarks.flight_scan import Server
from benchmarks.measure import Measurement, interleave
from benchmarks.memory_source import SCHEMA_FILE, MemorySource
from benchmarks.targets import Ratio
from spark_pipeline.arrow_types import spark_schema, to_spark

OURS = "lance_flight"
MEMORY = "from memory"
PARQUET = "Parquet"

RANGE_ROWS = 1000
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "4g",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
}


def measure(dataset: Dataset, ours: Server, runs: int) -> Iterator[tuple[Measurement, list[Ratio]]]:
    """The whole table, columns of it, and few rows of it."""
    remote = flight_client.connect(ours.uri).dataset(dataset.name)
    first = remote.count_rows() * 5 // 8
    a_range = f"id BETWEEN {first} AND {first + RANGE_ROWS - 1}"
    spark = spark_pipeline.session("benchmarks", "local[2]", **_SETTINGS)
    spark.dataSource.register(MemorySource)
    parquet = dataset.path.with_suffix(".parquet")
    if not parquet.exists():
        _write_parquet(spark, ours, dataset, parquet)

    def lance(columns: list[str] | None, condition: str | None) -> Callable[[], None]:
        return lambda: _drain(spark_pipeline.read(spark, ours.uri, dataset.name, columns, condition))

    def files(columns: list[str] | None, condition: str | None) -> Callable[[], None]:
        def read() -> None:
            frame = spark.read.parquet(str(parquet))
            frame = frame if condition is None else frame.filter(condition)
            _drain(frame if columns is None else frame.select(*columns))

        return read

    with tempfile.TemporaryDirectory(dir=dataset.path.parent) as folder:
        num_bytes = _write_batches(remote, Path(folder))
        from_memory = spark.read.format(MemorySource.name()).option("folder", folder)
        task = f"{dataset.name} Spark"
        competitors = {
            OURS: lance(None, None),
            MEMORY: lambda: _drain(from_memory.load()),
            PARQUET: files(None, None),
        }
        measured = interleave(f"{task} *", targets.SPARK_MEMORY, num_bytes, competitors, runs)
        yield (
            measured,
            [
                Ratio(targets.SPARK_MEMORY, measured.task, measured.ratio(OURS, MEMORY)),
                Ratio(targets.SPARK_PARQUET, measured.task, measured.ratio(OURS, PARQUET)),
            ],
        )
    for name, columns, condition, line in (
        ("2 columns", ["small", "value"], None, targets.SPARK_COLUMNS),
        ("range", None, a_range, targets.SPARK_SELECTIVE),
        ("range, 2 columns", ["id", "text"], a_range, targets.SPARK_SELECTIVE),
        ("=, 2 columns", ["id", "text"], "small = 77", targets.SPARK_SELECTIVE),
        ("=", None, "small = 77", targets.SPARK_SELECTIVE),
    ):
        competitors = {OURS: lance(columns, condition), PARQUET: files(columns, condition)}
        measured = interleave(f"{task} {name}", line, 0, competitors, runs)
        yield measured, [Ratio(line, measured.task, measured.ratio(OURS, PARQUET))]
    spark.stop()


def _drain(frame: DataFrame) -> None:
    """Let Spark compute every row and column, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def _write_batches(remote: flight_client.RemoteDataset, folder: Path) -> int:
    """The batches of each endpoint as Spark gets them; their bytes."""
    schema = spark_schema(remote.schema)
    (folder / SCHEMA_FILE).write_text(schema.json())
    num_bytes = 0
    for number, endpoint in enumerate(remote.scanner().plan.endpoints):
        writer: pa.RecordBatchWriter | None = None
        for received in remote.read_endpoint(endpoint, number):
            batch = to_spark(received, schema)
            writer = writer or pa.ipc.new_stream(str(folder / f"{number:04}.arrows"), batch.schema)
            writer.write_batch(batch)
            num_bytes += batch.nbytes
        if writer is not None:
            writer.close()
    return num_bytes


def _write_parquet(spark: SparkSession, ours: Server, dataset: Dataset, path: Path) -> None:
    unfinished = path.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    spark_pipeline.read(spark, ours.uri, dataset.name).write.parquet(str(unfinished))
    unfinished.rename(path)
