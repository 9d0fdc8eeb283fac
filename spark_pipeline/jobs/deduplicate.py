"""Deduplicate: keep one of the rows with the same keys, chosen by an order, and delete the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from flight_client import InvalidInputError
from spark_pipeline.jobs.fragment_rows import ROW_ADDRESS, fragment_rows
from spark_pipeline.jobs.job import about, job
from spark_pipeline.jobs.outcome import Outcome, earlier_outcome
from spark_pipeline.jobs.selection import column_named, ordering, parse_order
from spark_pipeline.jobs.server import Server
from spark_pipeline.jobs.shared_options import RunOptions

RANK = "_lance_flight_rank"
_ROWS_OF_DELETE = 40_000
"""Largest number of rows that one version deletes: a predicate has at most 1 MiB, and an address up to 20
digits.
"""


@dataclass(frozen=True)
class DeduplicateOptions(RunOptions):
    """Options of `deduplicate`."""

    dataset: str = field(metadata=about("Name of the dataset, perhaps with a branch: `trips@dev`."))
    keys: Sequence[str] = field(
        kw_only=True,
        metadata=about(
            "Columns whose values make rows the same; nulls are equal to each other.", flag="--key"
        ),
    )
    keep_by: Sequence[str] = field(
        default=(),
        kw_only=True,
        metadata=about(
            "Columns that order the rows of a key, each perhaps with ` DESC`; the first row stays. Among "
            "equal rows, "
            "the first row of the dataset stays.",
            unit="column [DESC]",
        ),
    )


@job(DeduplicateOptions)
def deduplicate(spark: SparkSession, server: Server, options: DeduplicateOptions) -> Outcome:
    """Delete all rows but one of each key.

    The job deletes rows by their addresses. A row that an update moves meanwhile stays, and rows that are
    appended meanwhile are not examined; a second run finds them. Each 40,000 deleted rows make a version.

    Raises:
        LanceError: the server reported an error.
    """
    dataset, keys = options.dataset, options.keys
    client = server.client()
    transaction_id = options.transaction_id or str(uuid4())
    if (earlier := earlier_outcome(client, dataset, transaction_id)) is not None:
        return earlier
    opened = client.dataset(dataset)
    fragments = client.fragments(opened.name, version=opened.version, branch=opened.branch)
    order = [parse_order(column) for column in options.keep_by]
    columns = list(dict.fromkeys([*keys, *(name for name, _ in order)]))
    frame = fragment_rows(spark, server, opened, [fragment["id"] for fragment in fragments], columns)
    ranked = ranked_by(frame, keys, [*order, (ROW_ADDRESS, False)])
    surplus = sorted(row[0] for row in ranked.where(f.col(RANK) > 1).select(ROW_ADDRESS).collect())
    version, deleted = opened.version, 0
    for start in range(0, len(surplus), _ROWS_OF_DELETE):
        addresses = surplus[start : start + _ROWS_OF_DELETE]
        is_last = start + _ROWS_OF_DELETE >= len(surplus)
        predicate = f"{ROW_ADDRESS} IN ({', '.join(map(str, addresses))})"
        # Only the last deletion has the id of the run: a run that finds the id knows that all deletions were
        # made.
        answer = client.delete(dataset, predicate, transaction_id=transaction_id if is_last else str(uuid4()))
        version, deleted = answer["version"], deleted + answer["rows"]
    return Outcome(dataset, version, details={"deleted": deleted, "moved_meanwhile": len(surplus) - deleted})


def one_per_key(frame: DataFrame, keys: Sequence[str], keep_by: Sequence[str]) -> DataFrame:
    """Return the row of each key that is first in an order; arguments are those of `deduplicate`."""
    return ranked_by(frame, keys, [parse_order(column) for column in keep_by]).where(f"{RANK} = 1").drop(RANK)


def ranked_by(frame: DataFrame, keys: Sequence[str], order: Sequence[tuple[str, bool]]) -> DataFrame:
    """Return the rows with the column `RANK`: 1 for the first row of each key.

    Args:
        frame: the rows.
        keys: columns whose values make rows the same.
        order: columns that order the rows of a key, with whether the order is descending.
    """
    if not keys:
        raise InvalidInputError("keys: expected one column or more, found none")
    window = Window.partitionBy(*map(column_named, keys)).orderBy(*map(ordering, order))
    return frame.withColumn(RANK, f.row_number().over(window))
