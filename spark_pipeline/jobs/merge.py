"""Merge: rows of a source update, delete or follow the rows of a dataset that have the same keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pyspark.sql import SparkSession

from spark_pipeline.jobs.columns import selected
from spark_pipeline.jobs.deduplicate import one_per_key
from spark_pipeline.jobs.outcome import Outcome
from spark_pipeline.jobs.rows import write_rows
from spark_pipeline.jobs.server import Server
from spark_pipeline.jobs.source import Source


def merge(
    spark: SparkSession,
    server: Server,
    dataset: str,
    source: Source,
    *,
    on: Sequence[str],
    columns: Sequence[str] | Mapping[str, str] | None = None,
    where: str | None = None,
    keep_by: Sequence[str] = (),
    when_matched: Literal["update_all", "do_nothing", "fail", "delete"] = "update_all",
    when_matched_condition: str | None = None,
    when_not_matched: Literal["insert_all", "do_nothing"] = "insert_all",
    when_not_matched_by_source: Literal["keep", "delete"] = "keep",
    when_not_matched_by_source_condition: str | None = None,
    transaction_id: str | None = None,
) -> Outcome:
    """Merge the rows of a source into a dataset, as one version. Executors stage them, one server joins.

    Args:
        spark: a session.
        server: where the dataset is.
        dataset: its name, perhaps with a branch.
        source: where the rows come from.
        on: columns whose values make rows match.
        columns, where: see `selected`.
        keep_by: where the source has several rows of the same key, the first in this order counts (names,
            perhaps with ` DESC`); without it such rows are sent as they are.
        when_matched, when_matched_condition, when_not_matched, when_not_matched_by_source,
            when_not_matched_by_source_condition: see the write command of the protocol.
        transaction_id: a UUID; the same one merges once, however often the job is run.

    Raises:
        LanceError: what a server reported.
        PySparkException: the source cannot be read, or SQL makes no sense.
    """
    frame = selected(source.frame(spark, server), columns, where)
    if keep_by:
        frame = one_per_key(frame, on, keep_by)
    return write_rows(
        server,
        dataset,
        frame,
        "merge_insert",
        transaction_id=transaction_id,
        on=list(on),
        when_matched=when_matched,
        when_matched_condition=when_matched_condition,
        when_not_matched=when_not_matched,
        when_not_matched_by_source=when_not_matched_by_source,
        when_not_matched_by_source_condition=when_not_matched_by_source_condition,
    )
