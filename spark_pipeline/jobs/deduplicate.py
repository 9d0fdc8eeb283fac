"""Deduplicate: of the rows with the same keys one stays, chosen by an order; the others are deleted."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from flight_client import InvalidInputError
from spark_pipeline.jobs.columns import column_named, ordering, parse_order
from spark_pipeline.jobs.fragments import ROW_ADDRESS, fragment_rows
from spark_pipeline.jobs.outcome import Outcome
from spark_pipeline.jobs.server import Server

RANK = "_lance_flight_rank"
_ROWS_OF_DELETE = 40_000
"""A predicate is at most 1 MiB, and an address up to 20 digits."""


def deduplicate(
    spark: SparkSession,
    server: Server,
    dataset: str,
    *,
    keys: Sequence[str],
    keep_by: Sequence[str] = (),
    transaction_id: str | None = None,
) -> Outcome:
    """Delete all rows but one of each key. Nulls are equal to each other here, as in GROUP BY.

    Rows are deleted by their addresses: a row that is moved by an update meanwhile stays, and one that is
    appended meanwhile is not looked at. A second run finds what is left.

    Args:
        spark: a session.
        server: where the dataset is.
        dataset: its name, perhaps with a branch.
        keys: columns that make rows the same.
        keep_by: the row that is first in this order stays (names, perhaps with ` DESC`); of rows that are
            equal in it, and without it, the one that comes first in the dataset.
        transaction_id: a UUID; makes a repeated run find its deletions. More than 40,000 rows are deleted in
            several versions.

    Raises:
        LanceError: what a server reported.
    """
    client = server.client()
    transaction_id = transaction_id or str(uuid4())
    done = client.find_transaction(dataset, transaction_id)
    if done is not None:
        return Outcome(dataset, done.version, was_done=True)
    opened = client.dataset(dataset)
    there = client.fragments(opened.name, version=opened.version, branch=opened.branch)
    order = [parse_order(column) for column in keep_by]
    columns = list(dict.fromkeys([*keys, *(name for name, _ in order)]))
    frame = fragment_rows(spark, server, opened, [each["id"] for each in there], columns)
    ranked = ranked_by(frame, keys, [*order, (ROW_ADDRESS, False)])
    surplus = sorted(row[0] for row in ranked.where(f.col(RANK) > 1).select(ROW_ADDRESS).collect())
    version, deleted = opened.version, 0
    for start in range(0, len(surplus), _ROWS_OF_DELETE):
        part = surplus[start : start + _ROWS_OF_DELETE]
        is_last = start + _ROWS_OF_DELETE >= len(surplus)
        predicate = f"{ROW_ADDRESS} IN ({', '.join(map(str, part))})"
        # The id of the run goes with the last deletion: who finds it knows that all were made.
        answer = client.delete(dataset, predicate, transaction_id=transaction_id if is_last else str(uuid4()))
        version, deleted = answer["version"], deleted + answer["rows"]
    return Outcome(dataset, version, details={"deleted": deleted, "moved_meanwhile": len(surplus) - deleted})


def one_per_key(frame: DataFrame, keys: Sequence[str], keep_by: Sequence[str]) -> DataFrame:
    """Return the row of each key that is first in an order; arguments as of `deduplicate`."""
    return ranked_by(frame, keys, [parse_order(column) for column in keep_by]).where(f"{RANK} = 1").drop(RANK)


def ranked_by(frame: DataFrame, keys: Sequence[str], order: Sequence[tuple[str, bool]]) -> DataFrame:
    """Return the rows with `RANK`: 1 for the first of each key in an order of columns (name, whether
    descending).
    """
    if not keys:
        raise InvalidInputError("keys: one column or more is needed")
    window = Window.partitionBy(*map(column_named, keys)).orderBy(*map(ordering, order))
    return frame.withColumn(RANK, f.row_number().over(window))
