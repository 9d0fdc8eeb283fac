"""Ingest: write rows of files, databases or any other source of Spark to a dataset."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from spark_pipeline.jobs.job import about, job
from spark_pipeline.jobs.outcome import Outcome
from spark_pipeline.jobs.selection import selected
from spark_pipeline.jobs.server import Server
from spark_pipeline.jobs.shared_options import RunOptions, SelectionOptions, WriteOptions
from spark_pipeline.jobs.source import Source
from spark_pipeline.jobs.write_rows import write_arranged


@dataclass(frozen=True)
class IngestOptions(RunOptions, WriteOptions, SelectionOptions):
    """Options of `ingest`."""

    dataset: str = field(metadata=about("Name of the dataset, perhaps with a branch: `trips@dev`."))
    source: Source = field(metadata=about("Source of the rows."))


@job(IngestOptions)
def ingest(spark: SparkSession, server: Server, options: IngestOptions) -> Outcome:
    """Write rows of files, databases or any other source of Spark as one version.

    All rows become visible together, or none of them. With `sort_by`, the order holds for all rows together,
    so that filters on the first column skip fragments and pages. Each partition becomes one fragment or more.

    Raises:
        InvalidInputError: the options contradict each other or the dataset.
        LanceError: the server reported an error.
        PySparkException: Spark cannot read the source or parse the SQL.
    """
    rows = selected(options.source.frame(spark, server), options.columns, options.where)
    return write_arranged(server, options.dataset, rows, options, options.transaction_id)
