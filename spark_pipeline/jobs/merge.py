"""Merge: update, delete or insert rows of a dataset by the keys of a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pyspark.sql import SparkSession

from spark_pipeline.jobs.deduplicate import one_per_key
from spark_pipeline.jobs.job import about, job
from spark_pipeline.jobs.outcome import Outcome
from spark_pipeline.jobs.selection import selected
from spark_pipeline.jobs.server import Server
from spark_pipeline.jobs.shared_options import RunOptions, SelectionOptions
from spark_pipeline.jobs.source import Source
from spark_pipeline.jobs.write_rows import write_rows


@dataclass(frozen=True)
class MergeOptions(RunOptions, SelectionOptions):
    """Options of `merge`."""

    dataset: str = field(metadata=about("Name of the dataset, perhaps with a branch: `trips@dev`."))
    source: Source = field(metadata=about("Source of the rows."))
    on: Sequence[str] = field(kw_only=True, metadata=about("Columns whose values make rows match."))
    keep_by: Sequence[str] = field(
        default=(),
        kw_only=True,
        metadata=about(
            "Columns that order the source rows of a key, each perhaps with ` DESC`; only the first row "
            "counts. Without "
            "it, all rows are sent.",
            unit="column [DESC]",
        ),
    )
    when_matched: Literal["update_all", "do_nothing", "fail", "delete"] = field(
        default="update_all",
        kw_only=True,
        metadata=about("What happens to rows that source and dataset have."),
    )
    when_matched_condition: str | None = field(
        default=None,
        kw_only=True,
        metadata=about("Condition on `source.column` and `target.column`; other matched rows stay."),
    )
    when_not_matched: Literal["insert_all", "do_nothing"] = field(
        default="insert_all",
        kw_only=True,
        metadata=about("What happens to rows that only the source has."),
    )
    when_not_matched_by_source: Literal["keep", "delete"] = field(
        default="keep",
        kw_only=True,
        metadata=about("What happens to rows that only the dataset has."),
    )
    when_not_matched_by_source_condition: str | None = field(
        default=None,
        kw_only=True,
        metadata=about("Condition on the columns of the dataset; other rows without a match stay."),
    )


@job(MergeOptions)
def merge(spark: SparkSession, server: Server, options: MergeOptions) -> Outcome:
    """Update, insert or delete rows by their keys, as one version.

    Executors stage the rows of the source, and one server joins them with the dataset.

    Raises:
        InvalidInputError: the options contradict the dataset.
        LanceError: the server reported an error.
        PySparkException: Spark cannot read the source or parse the SQL.
    """
    rows = selected(options.source.frame(spark, server), options.columns, options.where)
    if options.keep_by:
        rows = one_per_key(rows, options.on, options.keep_by)
    return write_rows(
        server,
        options.dataset,
        rows,
        "merge_insert",
        transaction_id=options.transaction_id,
        on=list(options.on),
        when_matched=options.when_matched,
        when_matched_condition=options.when_matched_condition,
        when_not_matched=options.when_not_matched,
        when_not_matched_by_source=options.when_not_matched_by_source,
        when_not_matched_by_source_condition=options.when_not_matched_by_source_condition,
    )
