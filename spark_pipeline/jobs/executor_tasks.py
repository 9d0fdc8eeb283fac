"""Tasks other than reads of rows, one per Spark task."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

_RESULT = pa.schema([("task", pa.int64()), ("result", pa.string())])


def run_tasks(spark: SparkSession, tasks: Sequence[Any], run: Callable[[int, Any], Any]) -> list[Any]:
    """Run tasks on executors, and return their results in the order of the tasks.

    Args:
        spark: session of Spark.
        tasks: plain values.
        run: called on an executor with the number of a task and the task; returns a value that JSON can hold.
            Spark may run the same task again; only one of its results is returned.
    """
    if not tasks:
        return []

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                result = json.dumps(run(number, tasks[number]))
                yield pa.record_batch([[number], [result]], schema=_RESULT)

    numbers = spark.range(0, len(tasks), 1, numPartitions=len(tasks))
    rows = numbers.mapInArrow(work, "task bigint, result string").collect()
    return [json.loads(row.result) for row in sorted(rows, key=lambda row: row.task)]
