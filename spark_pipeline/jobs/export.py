"""Export: write rows of a dataset to files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from uuid import uuid4

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as f

from flight_client import DatasetExistsError, StorageError
from spark_pipeline.data_source import read
from spark_pipeline.jobs.job import about, job
from spark_pipeline.jobs.outcome import Outcome
from spark_pipeline.jobs.selection import column_named, ordering, parse_order, selected
from spark_pipeline.jobs.server import Server
from spark_pipeline.jobs.shared_options import ABOUT_PARTITIONS, ABOUT_SORT_BY, RunOptions, SelectionOptions

_RECORD = "_lance_flight_export.json"
"""Name of the record beside the exported files; readers such as Hadoop's ignore names that begin with `_`.
"""


@dataclass(frozen=True)
class ExportOptions(RunOptions, SelectionOptions):
    """Options of `export`."""

    dataset: str = field(metadata=about("Name of the dataset, perhaps with a version: `trips@12`."))
    path: str = field(
        metadata=about("Folder of the files, as the file systems of Spark name it.", is_argument=True)
    )
    format: str = field(
        default="parquet",
        kw_only=True,
        metadata=about("Format that Spark writes: parquet, orc, csv, json, ..."),
    )
    options: Mapping[str, str] | None = field(
        default=None,
        kw_only=True,
        metadata=about("Options of the format, such as `compression`.", flag="--option", unit="name=value"),
    )
    filter: str | None = field(
        default=None,
        kw_only=True,
        metadata=about("Condition that the server evaluates, so that it sends only rows that meet it."),
    )
    partition_by: Sequence[str] = field(
        default=(),
        kw_only=True,
        metadata=about("Columns that become folders: `day=2026-11-22`."),
    )
    sort_by: Sequence[str] = field(default=(), kw_only=True, metadata=ABOUT_SORT_BY)
    partitions: int | None = field(default=None, kw_only=True, metadata=ABOUT_PARTITIONS)
    mode: Literal["error", "overwrite"] = field(
        default="error", kw_only=True, metadata=about("What happens if the folder exists.")
    )


@job(ExportOptions)
def export(spark: SparkSession, server: Server, options: ExportOptions) -> Outcome:
    """Write the rows of one version to a folder of files.

    The files are written to a hidden folder beside the target. When they are complete, the folder gets its
    name. (On object stores this copies the files.) `sort_by` orders the rows within each file.

    Raises:
        DatasetExistsError: the folder exists.
        LanceError: the server reported an error.
        PySparkException: Spark cannot parse the SQL or write the files.
    """
    path, partition_by = options.path, options.partition_by
    folder = _Folder(spark, path)
    transaction_id = options.transaction_id or str(uuid4())
    record = folder.record()
    if record.get("transaction_id") == transaction_id:
        return Outcome(path, record["version"], record["rows"], record["bytes"], was_done=True)
    if options.mode == "error" and folder.exists():
        raise DatasetExistsError(f"folder {path} exists")
    opened = server.client().dataset(options.dataset)
    version: dict[str, Any] = {"version": opened.version}
    if opened.branch is not None:
        version["branch"] = opened.branch
    rows = read(spark, server.uris, opened.name, filter=options.filter, **version, **server.read_options)
    frame = selected(rows, options.columns, options.where)
    if options.partitions is not None:
        frame = frame.repartition(options.partitions, *map(column_named, partition_by))
    if options.sort_by:
        order = [ordering(parse_order(column)) for column in options.sort_by]
        frame = frame.sortWithinPartitions(*map(column_named, partition_by), *order)
    observed = Observation()
    counted = frame.observe(observed, f.count(f.lit(1)).alias("rows"))
    writer = counted.write.format(options.format).options(**(options.options or {})).mode("overwrite")
    writer.partitionBy(*partition_by).save(folder.hidden(transaction_id))
    num_rows = int(observed.get["rows"])
    num_bytes = folder.publish(
        transaction_id,
        {"dataset": opened.name, **version, "rows": num_rows},
        replace=options.mode == "overwrite",
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
        """Return the folder for files that are not published yet: beside the target, named after the run."""
        return str(self._hidden(transaction_id).toString())

    def record(self) -> dict[str, Any]:
        """Return the record that `publish` wrote; an empty one if there is none."""
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
        """Give the hidden folder its name, and return the size of its files in bytes.

        Raises:
            StorageError: the target appeared meanwhile, or the folder cannot be renamed.
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
        # A rename to a folder that exists would move the hidden folder into it.
        if self.exists() or not self._files.rename(hidden, self._path):
            path = self._path.toString()
            raise StorageError(f"folder {path} cannot be created; its files are in {hidden.toString()}")
        return num_bytes

    def _hidden(self, transaction_id: str) -> Any:
        return self._child(self._path.getParent(), f"_{self._path.getName()}-{transaction_id}")

    def _child(self, folder: Any, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(folder, name)
