"""Batch writes: tasks stage their rows, the driver commits the receipts of successful tasks once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import NAMESPACE_OID, uuid4, uuid5

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

import flight_client
from flight_client import DatasetNotFoundError, InvalidInputError, LanceError, UploadMode
from spark_pipeline.arrow_types import blobs_from_bytes, lance_schema, spark_schema, to_lance
from spark_pipeline.data_source_options import Options


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """Receipts of the rows that one task staged."""

    receipts: tuple[str, ...]


@dataclass(frozen=True)
class Destination:
    """Dataset, mode and schema of a write, chosen before anything is written. Can be pickled."""

    table: str
    branch: str | None
    mode: UploadMode
    """Mode with which rows are staged."""
    schema: pa.Schema
    """Schema of the rows that are sent."""

    @staticmethod
    def of_options(
        client: flight_client.Client, options: Options, rows: StructType, overwrite: bool
    ) -> Destination:
        """Return the destination of rows of this schema.

        Raises:
            InvalidInputError: the dataset has other columns, or an option is not for writes.
            DatasetNotFoundError: the dataset does not exist, and the option `create` is not set.
        """
        options.check_use("writes")
        try:
            there = client.snapshot(options.table, branch=options.branch)
        except DatasetNotFoundError:
            if not (overwrite or options.create):
                raise
            return Destination(options.table, options.branch, "create", lance_schema(rows))
        if overwrite:
            return Destination(options.table, options.branch, "overwrite", lance_schema(rows))
        schema = _checked(blobs_from_bytes(there.stored_schema, rows), rows)
        return Destination(options.table, options.branch, "append", schema)

    @property
    def operation(self) -> UploadMode:
        """Operation of the commit."""
        return "overwrite" if self.mode == "create" else self.mode


class BatchWriter(DataSourceArrowWriter):
    """Writer of rows as one new version. The driver makes it, and pickles it for the tasks and for the
    commit.
    """

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        """Prepare to write rows of `schema`. Nothing is written yet.

        Raises:
            LanceError: the rows cannot be written.
        """
        self._options = options
        self._transaction_id = _transaction_id(options)
        with options.client() as client:
            self._destination = Destination.of_options(client, options, schema, overwrite)
            landed = client.find_transaction(options.table, self._transaction_id, branch=options.branch)
            self._is_done = landed is not None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of one task.

        Spark may run a task several times. Only the result of its successful attempt reaches `commit`. The
        server removes rows of other attempts when they expire.
        """
        if self._is_done:
            return Staged(())
        with self._options.client() as client:
            return Staged(tuple(stage(client, self._destination, self._options, iterator)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make one version of the staged rows."""
        if self._is_done:
            return
        receipts = receipts_of(messages)
        with self._options.client() as client:
            commit(client, self._destination, self._options, receipts, self._transaction_id)
            if self._options.app_id is not None:  # another run may have committed before
                abort(client, self._destination, receipts)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the staged rows."""
        with self._options.client() as client:
            abort(client, self._destination, receipts_of(messages))


def stage(
    client: flight_client.Client,
    destination: Destination,
    options: Options,
    batches: Iterator[pa.RecordBatch],
) -> list[str]:
    """Stage the rows of a task, and return the receipts; an empty list if there are no rows."""
    rows = (to_lance(batch, destination.schema) for batch in batches if batch.num_rows)
    first = next(rows, None)
    if first is None:
        return []
    return _stage(client, destination, options, _chain(first, rows))


def commit(
    client: flight_client.Client,
    destination: Destination,
    options: Options,
    receipts: Sequence[str],
    transaction_id: str,
    stream: Mapping[str, str | int] | None = None,
) -> int | None:
    """Make one version of receipts, and return its number; None if there is nothing to commit.

    Calls with the same `transaction_id` commit once. `stream` names the batch of a stream, see the action
    `commit`.

    Raises:
        CommitConflictError: another version makes this one impossible.
        CommitUnknownError: it is unknown whether the version was made.
    """
    if not receipts:
        if destination.mode == "append":
            return None
        receipts = _stage(client, destination, options, iter(()))  # creates a dataset without rows
    return client.commit(
        destination.table,
        receipts,
        destination.operation,
        branch=destination.branch,
        transaction_id=transaction_id,
        stream=stream,
    )


def abort(client: flight_client.Client, destination: Destination, receipts: Sequence[str]) -> None:
    """Remove staged rows. If this fails, the server removes them when they expire."""
    if receipts:
        with suppress(LanceError):
            client.abort(destination.table, receipts, branch=destination.branch)


def receipts_of(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    """Return the receipts of tasks in their order. A task that failed has no message."""
    return [receipt for message in messages if isinstance(message, Staged) for receipt in message.receipts]


def _stage(
    client: flight_client.Client, destination: Destination, options: Options, rows: Iterator[pa.RecordBatch]
) -> list[str]:
    fields: dict[str, Any] = {
        "branch": options.branch,
        "max_rows_per_file": options.max_rows_per_file,
        "max_bytes_per_file": options.max_bytes_per_file,
    }
    return client.stage(destination.table, rows, destination.mode, schema=destination.schema, **fields)


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _transaction_id(options: Options) -> str:
    """Return the id of the commit. A repeated job with the same `app_id` has the same id."""
    if options.app_id is None:
        return str(uuid4())
    return str(uuid5(NAMESPACE_OID, json.dumps([options.table, options.branch, options.app_id])))


def _checked(there: pa.Schema, rows: StructType) -> pa.Schema:
    """Return the schema of the dataset, if rows of Spark have the same columns.

    Raises:
        InvalidInputError: a column is missing, unknown, or of another type.
    """
    expected = spark_schema(there)
    problems = [f"{name!r} is unknown" for name in rows.names if name not in expected.names]
    for field in expected:
        if field.name not in rows.names:
            problems.append(f"{field.name!r} ({field.dataType.simpleString()}) is missing")
            continue
        given, wanted = rows[field.name].dataType.simpleString(), field.dataType.simpleString()
        if given != wanted:
            problems.append(f"{field.name!r}: expected {wanted}, found {given}")
    if problems:
        raise InvalidInputError(f"rows do not fit the dataset: {'; '.join(problems)}")
    return there
