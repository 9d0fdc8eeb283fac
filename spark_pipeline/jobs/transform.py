"""Transform: SQL over datasets into another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from spark_pipeline.data_source import read
from spark_pipeline.jobs.ingest import laid_out
from spark_pipeline.jobs.outcome import Outcome
from spark_pipeline.jobs.rows import WriteMode, write_rows
from spark_pipeline.jobs.server import Server
from spark_pipeline.jobs.source import Source


def transform(
    spark: SparkSession,
    server: Server,
    dataset: str,
    sql: str,
    inputs: Mapping[str, str | Source],
    *,
    mode: WriteMode = "create",
    sort_by: Sequence[str] = (),
    partitions: int | None = None,
    partition_rows: int | None = None,
    vectors: Mapping[str, int] | None = None,
    max_rows_per_file: int | None = None,
    data_storage_version: str | None = None,
    enable_stable_row_ids: bool | None = None,
    transaction_id: str | None = None,
) -> Outcome:
    """Write the result of a query as one version of a dataset.

    Args:
        spark: a session.
        server: where the datasets are.
        dataset: the one that is written, perhaps with a branch.
        sql: a query in Spark's SQL.
        inputs: what it reads, by the name of the view: datasets, perhaps at a version, or other sources. Each
            dataset is read at one version. Views of the session that have these names are replaced.
        mode, sort_by, partitions, partition_rows, vectors, max_rows_per_file, data_storage_version,
            enable_stable_row_ids, transaction_id: see `ingest`.

    Raises:
        LanceError: what a server reported.
        PySparkException: the query makes no sense.
    """
    try:
        for name, given in inputs.items():
            if isinstance(given, Source):
                frame = given.frame(spark, server)
            else:
                frame = read(spark, server.uris, given, **server.read_options)
            frame.createOrReplaceTempView(name)
        return write_rows(
            server,
            dataset,
            laid_out(spark.sql(sql), sort_by, partitions, partition_rows),
            mode,
            transaction_id=transaction_id,
            vectors=vectors,
            max_rows_per_file=max_rows_per_file,
            data_storage_version=data_storage_version,
            enable_stable_row_ids=enable_stable_row_ids,
        )
    finally:
        for name in inputs:
            spark.catalog.dropTempView(name)
