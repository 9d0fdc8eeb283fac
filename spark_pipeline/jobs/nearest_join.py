"""Nearest join: write the rows of a source, each with its nearest rows in a dataset, to another dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from spark_pipeline.jobs.job import about, job
from spark_pipeline.jobs.outcome import Outcome
from spark_pipeline.jobs.selection import selected
from spark_pipeline.jobs.server import Server
from spark_pipeline.jobs.shared_options import (
    ABOUT_MODE,
    RunOptions,
    SelectionOptions,
    WriteMode,
    WriteOptions,
)
from spark_pipeline.jobs.source import Source
from spark_pipeline.jobs.write_rows import write_arranged
from spark_pipeline.nearest import nearest_rows


@dataclass(frozen=True)
class NearestJoinOptions(RunOptions, WriteOptions, SelectionOptions):
    """Options of `nearest_join`."""

    dataset: str = field(metadata=about("Name of the written dataset, perhaps with a branch: `pairs@dev`."))
    source: Source = field(metadata=about("Source of the rows to join."))
    searched: str = field(
        kw_only=True, metadata=about("Name of the dataset that is searched, perhaps with a version.")
    )
    vector: str = field(kw_only=True, metadata=about("Column of the source with vectors: lists of numbers."))
    k: int = field(
        default=10,
        kw_only=True,
        metadata=about("Most rows that are found for each row.", minimum=1, unit="rows"),
    )
    vector_column: str | None = field(
        default=None,
        kw_only=True,
        metadata=about("Column of vectors of the searched dataset, if it has several ones."),
    )
    metric: str | None = field(
        default=None, kw_only=True, metadata=about("Metric: l2, cosine, dot or hamming.")
    )
    filter: str | None = field(
        default=None,
        kw_only=True,
        metadata=about("Condition in SQL; only rows of the searched dataset that meet it are found."),
    )
    found_columns: Sequence[str] | None = field(
        default=None, kw_only=True, metadata=about("Columns of the found rows; all if not given.")
    )
    prefix: str = field(
        default="nearest_",
        kw_only=True,
        metadata=about("Text before the names of the columns of the found rows."),
    )
    mode: WriteMode = field(default="create", kw_only=True, metadata=ABOUT_MODE)


@job(NearestJoinOptions)
def nearest_join(spark: SparkSession, server: Server, options: NearestJoinOptions) -> Outcome:
    """Write each row of a source with its nearest rows in a dataset, as one version of another dataset.

    A row of the source comes as often as rows are found for it. Beside its columns it has `rank` (0 for the
    nearest row), `distance`, and the columns of the found row. Executors ask the server in batches, and all
    search the same version.

    Raises:
        InvalidInputError: the options contradict each other or a dataset.
        LanceError: the server reported an error.
        PySparkException: Spark cannot read the source or parse the SQL.
    """
    rows = selected(options.source.frame(spark, server), options.columns, options.where)
    joined = nearest_rows(
        rows,
        server,
        options.searched,
        vector=options.vector,
        column=options.vector_column,
        k=options.k,
        columns=options.found_columns,
        filter=options.filter,
        prefix=options.prefix,
        **({} if options.metric is None else {"metric": options.metric}),
    )
    return write_arranged(server, options.dataset, joined, options, options.transaction_id)
