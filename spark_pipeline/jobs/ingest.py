"""Ingest: rows of files, databases or any source of Spark into a dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from flight_client import InvalidInputError
from spark_pipeline.jobs.columns import ordering, parse_order, selected
from spark_pipeline.jobs.outcome import Outcome
from spark_pipeline.jobs.rows import WriteMode, write_rows
from spark_pipeline.jobs.server import Server
from spark_pipeline.jobs.source import Source


def ingest(
    spark: SparkSession,
    server: Server,
    dataset: str,
    source: Source,
    *,
    mode: WriteMode = "append",
    columns: Sequence[str] | Mapping[str, str] | None = None,
    where: str | None = None,
    sort_by: Sequence[str] = (),
    partitions: int | None = None,
    partition_rows: int | None = None,
    vectors: Mapping[str, int] | None = None,
    max_rows_per_file: int | None = None,
    data_storage_version: str | None = None,
    enable_stable_row_ids: bool | None = None,
    transaction_id: str | None = None,
) -> Outcome:
    """Write the rows of a source as one version of a dataset: all of them, or none.

    Args:
        spark: a session.
        server: where the dataset is.
        dataset: its name, perhaps with a branch.
        source: where the rows come from.
        mode: what becomes of rows that are there.
        columns, where: which columns, under which names and types, and which rows; see `selected`.
        sort_by: columns, perhaps with ` DESC`: the new rows are in this order, all of them, so that filters
            on the first column skip fragments and pages.
        partitions: parts that are written at the same time; each becomes one fragment or more.
        partition_rows: rows of a part, about, instead of their number; counts the rows first.
        vectors: list columns that become vectors, and their size.
        max_rows_per_file: when a part goes on in a new data file.
        data_storage_version: of the data files of a new dataset.
        enable_stable_row_ids: of a new dataset.
        transaction_id: a UUID; the same one writes once, however often the job is run.

    Raises:
        LanceError: what a server reported.
        PySparkException: the source cannot be read, or SQL makes no sense.
    """
    frame = selected(source.frame(spark, server), columns, where)
    return write_rows(
        server,
        dataset,
        laid_out(frame, sort_by, partitions, partition_rows),
        mode,
        transaction_id=transaction_id,
        vectors=vectors,
        max_rows_per_file=max_rows_per_file,
        data_storage_version=data_storage_version,
        enable_stable_row_ids=enable_stable_row_ids,
    )


def laid_out(
    frame: DataFrame,
    sort_by: Sequence[str] = (),
    partitions: int | None = None,
    partition_rows: int | None = None,
) -> DataFrame:
    """Return the rows in the order and the parts in which they are to be written; arguments as of
    `ingest`.
    """
    if partition_rows is not None:
        if partitions is not None:
            raise InvalidInputError("partitions and partition_rows exclude each other")
        partitions = max(1, -(-frame.count() // partition_rows))
    order = [ordering(parse_order(column)) for column in sort_by]
    if not order:
        return frame if partitions is None else frame.repartition(partitions)
    if partitions is None:
        return frame.orderBy(*order)
    return frame.repartitionByRange(partitions, *order).sortWithinPartitions(*order)
