"""Reads of Spark through `lance_flight`, against the same batches from memory and against Parquet files.

The source from memory shows the cost of Spark's Python data sources without any reading: its tasks map files
that hold the same batches as `lance_flight` yields. The Parquet files are written by Spark itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import flight_client
import spark_pipeline
from benchmarks import targets
from benchmarks.data import Dataset, write_if_missing
from benchmarks.flight_scan import Server
from benchmarks.measure import Measurement, interleave, wait_until_idle
from benchmarks.memory_source import SCHEMA_FILE, MemorySource
from benchmarks.targets import Ratio
from spark_pipeline.arrow_types import spark_schema, to_spark

OURS = "lance_flight"
MEMORY = "from memory"
PARQUET = "Parquet"

RANGE_ROWS = 1000
WARM_UPS = 5
"""Rounds before the measured ones. In the fifth round Java has compiled the code of the reads, which halves
their CPU time.
"""

LEAST_RUNS = 9
"""Least number of runs of the whole table against memory: the two are close, and single runs differ by a
factor of two.
"""

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "4g",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
}


def measure(dataset: Dataset, ours: Server, runs: int) -> Iterator[tuple[Measurement, list[Ratio]]]:
    """Yield the measurements of the whole table, of columns of it, and of few rows of it.

    Each other source is measured against ours alone, so that both run after the other equally often. In
    rounds of three, ours would nearly always run after Parquet, and would pay for the garbage and the
    compilation of Parquet.
    """
    remote = flight_client.connect(ours.uri).dataset(dataset.name)
    first = remote.count_rows() * 5 // 8
    a_range = f"id BETWEEN {first} AND {first + RANGE_ROWS - 1}"
    spark = spark_pipeline.session("benchmarks", "local[2]", **_SETTINGS)
    spark.dataSource.register(MemorySource)
    java = spark.sparkContext._gateway.proc.pid
    parquet = dataset.path.with_suffix(".parquet")
    write_if_missing(parquet, _write_parquet, spark, ours, dataset)

    def lance(columns: list[str] | None, condition: str | None) -> Callable[[], None]:
        return lambda: _drain(spark_pipeline.read(spark, ours.uri, dataset.name, columns, condition))

    def files(columns: list[str] | None, condition: str | None) -> Callable[[], None]:
        def read() -> None:
            frame = spark.read.parquet(str(parquet))
            frame = frame if condition is None else frame.filter(condition)
            _drain(frame if columns is None else frame.select(*columns))

        return read

    def measured(
        what: str,
        line: str,
        num_bytes: int,
        competitors: Mapping[str, Callable[[], None]],
        least_runs: int = 0,
    ) -> Measurement:
        # Compilers and garbage collectors of Java continue after a query; the next query must not wait for
        # them.
        return interleave(
            f"{dataset.name} Spark {what}",
            line,
            num_bytes,
            competitors,
            max(runs, least_runs),
            lambda: wait_until_idle(java, ours.process.pid),
            WARM_UPS,
        )

    with tempfile.TemporaryDirectory(dir=dataset.path.parent) as folder:
        num_bytes = _write_batches(remote, Path(folder))
        from_memory = spark.read.format(MemorySource.name()).option("folder", folder)
        both = {OURS: lance(None, None), MEMORY: lambda: _drain(from_memory.load())}
        whole = measured("*, memory", targets.SPARK_MEMORY, num_bytes, both, LEAST_RUNS)
        yield whole, [Ratio(targets.SPARK_MEMORY, whole.task, whole.ratio(OURS, MEMORY))]
    for name, columns, condition, line in (
        ("*, Parquet", None, None, targets.SPARK_PARQUET),
        ("2 columns", ["small", "value"], None, targets.SPARK_COLUMNS),
        ("range", None, a_range, targets.SPARK_SELECTIVE),
        ("range, 2 columns", ["id", "text"], a_range, targets.SPARK_SELECTIVE),
        ("=, 2 columns", ["id", "text"], "small = 77", targets.SPARK_SELECTIVE),
        ("=", None, "small = 77", targets.SPARK_SELECTIVE),
    ):
        competitors = {OURS: lance(columns, condition), PARQUET: files(columns, condition)}
        against = measured(name, line, num_bytes if columns is condition is None else 0, competitors)
        yield against, [Ratio(line, against.task, against.ratio(OURS, PARQUET))]
    spark.stop()


def _drain(frame: DataFrame) -> None:
    """Let Spark compute every row and column, and keep none of them."""
    frame.write.format("noop").mode("overwrite").save()


def _write_batches(remote: flight_client.RemoteDataset, folder: Path) -> int:
    """Write the batches of each endpoint as Spark receives them, and return their bytes."""
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


def _write_parquet(path: Path, spark: SparkSession, ours: Server, dataset: Dataset) -> None:
    spark_pipeline.read(spark, ours.uri, dataset.name).write.parquet(str(path))
