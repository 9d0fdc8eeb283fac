"""Export: rows of a dataset to files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast
from uuid import uuid4

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as f

from flight_client import DatasetExistsError, StorageError
from spark_pipeline.data_source import read
from spark_pipeline.jobs.columns import column_named, ordering, parse_order, selected
from spark_pipeline.jobs.outcome import Outcome
from spark_pipeline.jobs.server import Server

_RECORD = "_lance_flight_export.json"
"""Name of the record beside the exported files; readers such as Hadoop's ignore names that begin with `_`.
"""


def export(
    spark: SparkSession,
    server: Server,
    dataset: str,
    path: str,
    *,
    format: str = "parquet",
    options: Mapping[str, str] | None = None,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    where: str | None = None,
    filter: str | None = None,
    partition_by: Sequence[str] = (),
    sort_by: Sequence[str] = (),
    partitions: int | None = None,
    mode: Literal["error", "overwrite"] = "error",
    transaction_id: str | None = None,
) -> Outcome:
    """Write the rows of one version to a folder of files: all of them, or none.

    They are written to a folder beside it, which gets its name when it is complete. (On object stores this
    copies the files.)

    Args:
        spark: a session.
        server: where the dataset is.
        dataset: its name, perhaps with a version: `trips@12`.
        path: the folder, as Spark's file systems name it.
        format: Parquet, or another one that Spark writes.
        options: of this format, such as `compression`.
        columns, where: see `selected`.
        filter: a condition that the server evaluates, so that rows that fail are not sent.
        partition_by: columns that become folders, `day=2026-11-22`.
        sort_by: columns, perhaps with ` DESC`: rows are in this order within each file.
        partitions: parts that are written at the same time.
        mode: what becomes of a folder that is there.
        transaction_id: a UUID; the same one writes the folder once, however often the job is run.

    Raises:
        DatasetExistsError: the folder is there.
        LanceError: what a server reported.
        PySparkException: SQL makes no sense, or the files cannot be written.
    """
    folder = _Folder(spark, path)
    transaction_id = transaction_id or str(uuid4())
    record = folder.record()
    if record.get("transaction_id") == transaction_id:
        return Outcome(path, record["version"], record["rows"], record["bytes"], was_done=True)
    if mode == "error" and folder.exists():
        raise DatasetExistsError(f"folder {path} exists")
    opened = server.client().dataset(dataset)
    version: dict[str, Any] = {"version": opened.version}
    if opened.branch is not None:
        version["branch"] = opened.branch
    rows = read(spark, server.uris, opened.name, filter=filter, **version, **server.read_options)
    frame = selected(rows, columns, where)
    if partitions is not None:
        frame = frame.repartition(partitions, *map(column_named, partition_by))
    if sort_by:
        order = [*map(column_named, partition_by), *(ordering(parse_order(each)) for each in sort_by)]
        frame = frame.sortWithinPartitions(*order)
    observed = Observation()
    counted = frame.observe(observed, f.count(f.lit(1)).alias("rows"))
    writer = counted.write.format(format).options(**(options or {})).mode("overwrite")
    writer.partitionBy(*partition_by).save(folder.hidden(transaction_id))
    num_rows = int(observed.get["rows"])
    num_bytes = folder.publish(
        transaction_id, {"dataset": opened.name, **version, "rows": num_rows}, replace=mode == "overwrite"
    )
    return Outcome(path, opened.version, num_rows, num_bytes)


class _Folder:
    """A folder of one of Hadoop's file systems."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._jvm = cast(Any, spark._jvm)
        given = self._jvm.org.apache.hadoop.fs.Path(path)
        self._files = given.getFileSystem(spark._jsc.hadoopConfiguration())
        self._path = self._files.makeQualified(given)

    def exists(self) -> bool:
        return bool(self._files.exists(self._path))

    def hidden(self, transaction_id: str) -> str:
        """Return the folder for files that are not published yet: beside the target, with a name of this
        run.
        """
        return str(self._hidden(transaction_id).toString())

    def record(self) -> dict[str, Any]:
        """Return the record that `publish` wrote; empty if it wrote none."""
        record = self._child(self._path, _RECORD)
        if not self._files.exists(record):
            return {}
        stream = self._files.open(record)
        try:
            noted: dict[str, Any] = json.loads(
                self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
            )
        finally:
            stream.close()
        return noted

    def publish(self, transaction_id: str, facts: Mapping[str, Any], *, replace: bool) -> int:
        """Give the hidden folder its name; the bytes in it.

        Raises:
            StorageError: the folder appeared meanwhile, or cannot be renamed.
        """
        hidden = self._hidden(transaction_id)
        num_bytes = int(self._files.getContentSummary(hidden).getLength())
        noted = {**facts, "bytes": num_bytes, "transaction_id": transaction_id}
        stream = self._files.create(self._child(hidden, _RECORD), True)
        try:
            stream.write(bytearray(json.dumps(noted).encode()))
        finally:
            stream.close()
        if replace:
            self._files.delete(self._path, True)
        # A rename to a folder that is there would move one into the other.
        if self.exists() or not self._files.rename(hidden, self._path):
            path = self._path.toString()
            raise StorageError(f"folder {path} cannot be made; its files are in {hidden.toString()}")
        return num_bytes

    def _hidden(self, transaction_id: str) -> Any:
        return self._child(self._path.getParent(), f"_{self._path.getName()}-{transaction_id}")

    def _child(self, folder: Any, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(folder, name)
