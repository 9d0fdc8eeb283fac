"""A job of its own that writes 1,000 rows, and that something happens to.

    python -m support.spark.job URI TABLE APP_ID KILL MASTER ATTEMPTS

KILL is when the driver is killed: `before` the commit, `after` it, or `never`. On a MASTER of a cluster
speculation is on, and the first attempt of the first task waits until it is killed. Each attempt
leaves a file in the folder ATTEMPTS.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

import spark_pipeline
from spark_pipeline.batch_write import BatchWriter, Staged
from spark_pipeline.data_source_options import Options
from support.spark.settings import JAVA_OPTIONS

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.memory": "512m",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "1s",
}


class Writer(BatchWriter):
    """Writes as always, and dies or waits as it is told."""

    def __init__(self, options: Options, schema: StructType, kill: str, waits: bool, attempts: str) -> None:
        super().__init__(options, schema, overwrite=False)
        self._kill = kill
        self._waits = waits
        self._attempts = attempts
        self._driver = int(os.environ["SPARK_JOB_DRIVER"])

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        context = TaskContext.get()
        assert context is not None
        name = f"{context.partitionId()}-{context.attemptNumber()}-{os.getpid()}"
        (Path(self._attempts) / name).touch()
        staged = super().write(iterator)
        if self._waits and context.partitionId() == 0 and context.attemptNumber() == 0:
            time.sleep(600)
        return staged

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._kill != "before":
            super().commit(messages)
        if self._kill != "never":
            os.killpg(self._driver, signal.SIGKILL)
            time.sleep(600)  # the daemon that started us finds its parent gone


def main(uri: str, table: str, app_id: str, kill: str, master: str, attempts: str) -> None:
    """Write the rows."""
    os.environ["SPARK_JOB_DRIVER"] = str(os.getpgrp())
    waits = master.startswith("spark://")

    class Source(spark_pipeline.LanceFlightDataSource):
        @classmethod
        def name(cls) -> str:
            return "told"

        def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
            return Writer(Options.parse(self.options), schema, kill, waits, attempts)

    settings = {**SETTINGS, "spark.speculation": str(waits).lower()}
    spark = spark_pipeline.session("job", master, **settings)
    spark.dataSource.register(Source)
    rows = spark.range(0, 1000, 1, numPartitions=4)
    options = {"uri": uri, "table": table, "create": "true"} | ({"app_id": app_id} if app_id else {})
    rows.write.format("told").options(**options).mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
