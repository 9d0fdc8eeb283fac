"""Compaction: servers join small fragments, asked by executors, and the driver commits once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from spark_pipeline.jobs.outcome import Outcome
from spark_pipeline.jobs.server import Server
from spark_pipeline.jobs.tasks import run_tasks


def compact(
    spark: SparkSession,
    server: Server,
    dataset: str,
    *,
    target_rows: int | None = None,
    options: Mapping[str, Any] | None = None,
    transaction_id: str | None = None,
) -> Outcome:
    """Join small fragments and leave out deleted rows, as one version if anything is to be gained.

    Args:
        spark: a session.
        server: where the dataset is; with several servers the tasks are spread over them.
        dataset: its name, perhaps with a branch.
        target_rows: fragments with fewer rows are joined with their neighbours.
        options: other options of the action `compact_plan`.
        transaction_id: a UUID; the same one commits once, however often the job is run.

    Raises:
        LanceError: what a server reported. What was written for nothing goes when its time is over.
    """
    client = server.client()
    transaction_id = transaction_id or str(uuid4())
    done = client.find_transaction(dataset, transaction_id)
    if done is not None:
        return Outcome(dataset, done.version, was_done=True)
    wanted = dict(options or {}) | ({} if target_rows is None else {"target_rows_per_fragment": target_rows})
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
            "lost_coverage": committed.get("lost_coverage", []),
        },
    )
