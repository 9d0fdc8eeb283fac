"""Streaming writes: the tasks of a batch stage their rows, and the driver commits them once.

When a query starts again from its checkpoint and it is unknown whether the last batch was committed, Spark
runs this batch again, with the same number and the same rows. A commit therefore names the batch and the
stream. The server stores this number with the rows, and skips a batch that it has already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID, uuid5

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from flight_client import InvalidInputError, UnsupportedFeatureError
from spark_pipeline.batch_write import Destination, Staged, abort, commit, receipts_of, stage
from spark_pipeline.data_source_options import Options

_NAMESPACE = UUID("7e4c1f0a-59a3-4f0e-8d5b-0c6a2d5c3b1e")
"""Namespace of the transaction ids that commit batches of streams."""

_QUERY = "sql.streaming.queryId"
"""Property of tasks with the id of the query, which Spark keeps in the checkpoint. `commit` does not receive
it.
"""


@dataclass(frozen=True)
class StagedPart(Staged):
    """Receipts of the rows that one task of a batch staged for the commit."""

    query: str
    """Id of the streaming query."""
    destination: Destination
    """Destination of the task. The dataset may exist by the time of the commit."""


class StreamWriter(DataSourceStreamArrowWriter):
    """Writer of each batch as one new version. Spark makes a new one for every batch and for every commit."""

    def __init__(
        self, options: Options, schema: StructType, overwrite: bool, *, has_checkpoint: bool
    ) -> None:
        """Prepare to write rows of `schema`. Nothing is written yet.

        Args:
            options: options of the user.
            schema: schema of the rows.
            overwrite: whether every batch is the whole table (output mode `complete`).
            has_checkpoint: whether the query has a checkpoint location.

        Raises:
            LanceError: the rows cannot be written.
        """
        if not has_checkpoint and options.app_id is None:
            raise InvalidInputError(
                "a streaming write needs the option checkpointLocation or app_id, which distinguish a "
                "repeated batch from a new one"
            )
        self._options = options
        with options.client() as client:
            self._destination = Destination.of_options(client, options, schema, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:
        """Stage the rows of one task, see `BatchWriter.write`."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY)
        if not query:
            raise UnsupportedFeatureError(
                f"a streaming write needs tasks with the property {_QUERY}, and this task has none"
            )
        with self._options.client() as client:
            receipts = stage(client, self._destination, self._options, iterator)
        return StagedPart(tuple(receipts), query, self._destination)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make one version of the staged rows, unless the dataset has the batch already.

        A batch without rows makes no version, unless it replaces the table.
        """
        part = next((message for message in messages if isinstance(message, StagedPart)), None)
        if part is None:
            return
        name = self._options.app_id or part.query
        receipts = receipts_of(messages)
        with self._options.client() as client:
            commit(
                client,
                part.destination,
                self._options,
                receipts,
                transaction_id=str(uuid5(_NAMESPACE, f"{name}/{part.query}/{batchId}")),
                stream={"name": name, "query": part.query, "batch": batchId},
            )
            # A commit uses up its receipts. They still exist if an earlier run committed the batch.
            abort(client, part.destination, receipts)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove the staged rows."""
        with self._options.client() as client:
            abort(client, self._destination, receipts_of(messages))
