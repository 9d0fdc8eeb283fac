"""Rows of a dataset by fragment: one Spark partition for each, with the addresses of the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructType

from flight_client import RemoteDataset
from spark_pipeline.arrow_types import spark_schema, to_spark
from spark_pipeline.jobs.server import Server

ROW_ADDRESS = "_rowaddr"
"""Row address: id of the fragment << 32 | position in the fragment, deleted rows counted."""


def fragment_rows(
    spark: SparkSession,
    server: Server,
    dataset: RemoteDataset,
    fragments: Sequence[int],
    columns: Sequence[str],
) -> DataFrame:
    """Return the live rows of some fragments, in order. Partition n has the rows of fragment n of the list.

    Args:
        spark: session of Spark.
        server: server from which executors read.
        dataset: dataset at one version.
        fragments: ids of fragments.
        columns: names of columns; the column `ROW_ADDRESS` follows them.

    Raises:
        UnsupportedFeatureError: Spark has no counterpart of a column's type.
    """
    name, version, branch = dataset.name, dataset.version, dataset.branch
    schema = StructType(spark_schema(pa.schema([dataset.schema.field(column) for column in columns])).fields)
    schema.add(ROW_ADDRESS, LongType())
    numbers, names = list(fragments), list(columns)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                with server.client(number) as client:
                    opened = client.dataset(name, version, branch=branch)
                    scan = opened.scanner(
                        names,
                        fragments=[numbers[number]],
                        with_row_address=True,
                        verify_checksums=True,  # the rows are written again
                    )
                    for rows in scan.to_batches():
                        yield to_spark(rows, schema)

    parts = spark.range(0, len(numbers), 1, numPartitions=max(1, len(numbers)))
    return parts.mapInArrow(read, schema)
