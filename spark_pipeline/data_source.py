"""Data source `lance_flight`, from which Spark gets readers and writers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from flight_client import Snapshot
from spark_pipeline.arrow_types import spark_schema
from spark_pipeline.batch_read import (
    AggregateReader,
    BatchReader,
    PushingReader,
    aggregate_plan,
    selected_schema,
    selection_of,
)
from spark_pipeline.batch_write import BatchWriter
from spark_pipeline.data_source_options import Options
from spark_pipeline.stream_read import StreamReader, with_change_columns
from spark_pipeline.stream_write import StreamWriter
from spark_pipeline.worker_settings import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class LanceFlightDataSource(DataSource):
    """Data source for datasets of a lance-flight server, `spark.read.format("lance_flight")`.

    Spark makes one for every `load()` and `save()` in a Python worker beside the driver, and pickles it.
    """

    _snapshot: Snapshot | None = None
    """Version that `schema` opened. A loaded frame stays at this version."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "lance_flight"

    def schema(self) -> StructType:
        """Return the columns that are read.

        Raises:
            LanceError: an option is invalid, or the server refused the call.
        """
        settle()
        options = Options.parse(self.options)
        with options.client() as client:
            self._snapshot = options.snapshot(client)
            if options.aggregates is not None:
                return spark_schema(aggregate_plan(self._snapshot, options).schema)
            columns = spark_schema(selected_schema(self._snapshot, selection_of(options)))
        return with_change_columns(columns) if options.on_changes == "report" else columns

    def reader(self, schema: StructType) -> BatchReader | AggregateReader:
        """Return a reader of the columns that `schema` names."""
        settle()
        options = Options.parse(self.options)
        options.check_use("reads")
        reader = PushingReader if options.push_down_filters else BatchReader
        with options.client() as client:
            snapshot = self._snapshot or options.snapshot(client)
            if options.aggregates is not None:
                return AggregateReader(snapshot, options, schema)
            return reader(snapshot, selection_of(options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return a writer of rows of `schema`."""
        return BatchWriter(Options.parse(self.options), schema, overwrite)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        """Return a reader that follows the versions of a dataset, with the columns of `schema`."""
        return StreamReader(dict(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """Return a writer of batches of rows of `schema`."""
        has_checkpoint = "checkpointLocation" in self.options
        return StreamWriter(Options.parse(self.options), schema, overwrite, has_checkpoint=has_checkpoint)


def register(spark: SparkSession) -> None:
    """Register `lance_flight` with a session."""
    spark.dataSource.register(LanceFlightDataSource)


def read(
    spark: SparkSession,
    uri: str | Sequence[str],
    dataset: str,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    filter: str | None = None,
    **options: str | int | bool,
) -> DataFrame:
    """Return the rows of a dataset as a frame. The server sends only the requested columns and rows.

    Args:
        spark: session, with which the source is registered if necessary.
        uri: `grpc://host:port`, or several servers of the same folder.
        dataset: name of the dataset on the server.
        columns: names, nested ones with dots; or SQL by name. None for all columns.
        filter: condition in SQL of the server.
        **options: other options of the data source, such as `tag` or `token`.
    """
    register(spark)
    reader = spark.read.format(LanceFlightDataSource.name()).options(**options)
    reader = reader.option("uri", uri if isinstance(uri, str) else ",".join(uri)).option("table", dataset)
    if columns is not None:
        named = dict(columns) if isinstance(columns, Mapping) else list(columns)
        reader = reader.option("columns", json.dumps(named))
    if filter is not None:
        reader = reader.option("filter", filter)
    return reader.load()
