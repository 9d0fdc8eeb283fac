"""Compact: servers join small fragments at the request of executors, and the driver commits once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from spark_pipeline.jobs.executor_tasks import run_tasks
from spark_pipeline.jobs.job import about, job
from spark_pipeline.jobs.outcome import Outcome, earlier_outcome
from spark_pipeline.jobs.server import Server
from spark_pipeline.jobs.shared_options import RunOptions


@dataclass(frozen=True)
class CompactOptions(RunOptions):
    """Options of `compact`."""

    dataset: str = field(metadata=about("Name of the dataset, perhaps with a branch: `trips@dev`."))
    target_rows: int | None = field(
        default=None,
        kw_only=True,
        metadata=about(
            "Rows below which fragments are joined with their neighbours.", minimum=1, unit="rows"
        ),
    )
    options: Mapping[str, Any] | None = field(
        default=None,
        kw_only=True,
        metadata=about("Other options of the action `compact_plan`.", in_command=False),
    )


@job(CompactOptions)
def compact(spark: SparkSession, server: Server, options: CompactOptions) -> Outcome:
    """Join small fragments and leave out deleted rows; executors ask the servers to.

    The job makes one version, or none if there is nothing to compact. If it fails, the server removes the
    written files when they expire.

    Raises:
        LanceError: the server reported an error.
    """
    dataset = options.dataset
    client = server.client()
    transaction_id = options.transaction_id or str(uuid4())
    if (earlier := earlier_outcome(client, dataset, transaction_id)) is not None:
        return earlier
    wanted = dict(options.options or {})
    if options.target_rows is not None:
        wanted["target_rows_per_fragment"] = options.target_rows
    before = client.describe(dataset)
    tasks = client.compact_plan(dataset, wanted)

    def run(number: int, task: Any) -> str:
        with server.client(number) as executor:
            return executor.compact_execute(dataset, task)

    receipts = run_tasks(spark, tasks, run)
    if not receipts:
        return Outcome(dataset, before["version"], details={"tasks": 0})
    committed = client.compact_commit(dataset, receipts, transaction_id=transaction_id)
    after = client.describe(dataset)
    return Outcome(
        dataset,
        committed["version"],
        details={
            "tasks": len(tasks),
            "fragments_before": before["fragments"],
            "fragments_after": after["fragments"],
            "index_coverage": committed.get("index_coverage", []),
            "lost_coverage": committed.get("lost_coverage", []),
        },
    )
