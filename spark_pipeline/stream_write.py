"""Streaming writes: the tasks of a batch stage their rows, the driver commits them, once.

Spark runs the last batch again when a query is started again from its checkpoint and nobody knows whether the
batch was committed: with the same number and the same rows. So a commit says which batch of which stream it
is, and the server, which notes the number together with the rows, leaves out what it has.
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
"""Property of tasks: the id of the query, which Spark keeps in the checkpoint. `commit` is not told."""


@dataclass(frozen=True)
class StagedPart(Staged):
    """Receipts of the rows that one task of a batch staged for the commit."""

    query: str
    """The id of the streaming query."""
    destination: Destination
    """Destination of the task; the dataset may exist by the time of the commit."""


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes each batch as one new version. Made anew for every batch, and for every commit."""

    def __init__(
        self, options: Options, schema: StructType, overwrite: bool, *, has_checkpoint: bool
    ) -> None:
        """Prepare to write rows of `schema`; nothing is written yet.

        Args:
            options: what the user said.
            schema: of the rows.
            overwrite: every batch is the whole table: output mode `complete`.
            has_checkpoint: whether the query was told its checkpoint.

        Raises:
            LanceError: they cannot be written.
        """
        if not has_checkpoint and options.app_id is None:
            raise InvalidInputError(
                "a streaming write needs the option checkpointLocation or app_id: without them nobody can "
                "tell a repeated batch from a new one"
            )
        self._options = options
        with options.client() as client:
            self._destination = Destination.of_options(client, options, schema, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:
        """Stage the rows of one task, see `BatchWriter.write`."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY)
        if not query:
            raise UnsupportedFeatureError(f"a streaming write by a task without the property {_QUERY}")
        with self._options.client() as client:
            receipts = stage(client, self._destination, self._options, iterator)
        return StagedPart(tuple(receipts), query, self._destination)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make one version of what the tasks staged, unless the dataset has the batch already.

        A batch without rows makes no version, except where it replaces what was there.
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
            # A commit takes its receipts. They are still there if the batch had been committed before.
            abort(client, part.destination, receipts)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what the tasks staged."""
        with self._options.client() as client:
            abort(client, self._destination, receipts_of(messages))
