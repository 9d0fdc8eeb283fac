"""Index: servers build segments of an index at the request of executors, and the driver commits once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from flight_client import LanceError
from spark_pipeline.jobs.executor_tasks import run_tasks
from spark_pipeline.jobs.job import about, job
from spark_pipeline.jobs.outcome import Outcome, earlier_outcome
from spark_pipeline.jobs.server import Server
from spark_pipeline.jobs.shared_options import RunOptions

_VECTOR_KINDS = "IVF_"
"""Beginning of the kinds of indices that have to be trained."""


@dataclass(frozen=True)
class IndexOptions(RunOptions):
    """Options of `index`."""

    dataset: str = field(metadata=about("Name of the dataset, perhaps with a branch: `trips@dev`."))
    column: str = field(metadata=about("Name or dotted path of the column."))
    index_type: str = field(
        default="BTREE", kw_only=True, metadata=about("Kind of the index, such as BTREE, BITMAP or IVF_PQ.")
    )
    name: str | None = field(
        default=None, kw_only=True, metadata=about("Name of the index; by default that of the column + _idx.")
    )
    segments: int | None = field(
        default=None,
        kw_only=True,
        metadata=about(
            "Number of segments, each of which an executor lets a server build. By default as many as Spark "
            "runs tasks at a time.",
            minimum=1,
        ),
    )
    parameters: Mapping[str, Any] | None = field(
        default=None, kw_only=True, metadata=about("Options of the kind by name.", in_command=False)
    )


@job(IndexOptions)
def index(spark: SparkSession, server: Server, options: IndexOptions) -> Outcome:
    """Build an index of several segments; executors ask the servers to.

    A vector index is trained once, on a sample of all rows. The executors then let the servers assign and
    encode the rows of their segments. The job makes one version. If it fails, the server removes the written
    files when they expire.

    Raises:
        LanceError: the server reported an error.
    """
    dataset = options.dataset
    client = server.client()
    transaction_id = options.transaction_id or str(uuid4())
    if (earlier := earlier_outcome(client, dataset, transaction_id)) is not None:
        return earlier
    count = options.segments or spark.sparkContext.defaultParallelism
    groups = _groups(client.fragments(dataset), count)
    model = None
    if groups and options.index_type.upper().startswith(_VECTOR_KINDS):
        model = client.train_index(dataset, options.column, options.index_type, parameters=options.parameters)

    def run(number: int, fragment_ids: Any) -> str:
        with server.client(number) as executor:
            return executor.create_index_segment(
                dataset,
                options.column,
                options.index_type,
                fragment_ids,
                index=options.name,
                parameters=options.parameters if model is None else None,
                model=model,
            )

    receipts = run_tasks(spark, groups, run)
    if not receipts:
        version = client.create_index(
            dataset, options.column, options.index_type, index=options.name, parameters=options.parameters
        )
        return Outcome(dataset, version, details={"segments": 1})
    version = client.commit_index(dataset, receipts, transaction_id=transaction_id)
    if model is not None:
        with suppress(LanceError):  # it expires anyway, and the caller may lack the right to remove it
            client.abort(dataset, [model])
    return Outcome(dataset, version, details={"segments": len(receipts)})


def _groups(fragments: Sequence[Mapping[str, Any]], count: int) -> list[list[int]]:
    """Divide fragments into at most `count` groups of neighbours with about equally many rows."""
    total = sum(fragment["rows"] for fragment in fragments)
    groups: dict[int, list[int]] = {}
    before = 0
    for fragment in fragments:
        groups.setdefault(before * count // max(1, total), []).append(fragment["id"])
        before += fragment["rows"]
    return list(groups.values())
