"""Rows of a frame into a dataset: executors stage their partitions, the driver commits once.

A job keeps its own way beside the data source's, since a frame's writer answers nothing: jobs need the order
of the partitions, the transaction id of their run, and what was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Literal
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from flight_client import (
    Client,
    CommitUnknownError,
    DatasetExistsError,
    DatasetNotFoundError,
    InternalError,
    InvalidInputError,
    LanceError,
    UnavailableError,
    UploadMode,
    WriteResult,
)
from spark_pipeline.arrow_types import lance_schema, to_lance
from spark_pipeline.jobs.outcome import Outcome
from spark_pipeline.jobs.server import Server

WriteMode = Literal["create", "append", "overwrite"]

_UNKNOWN = (CommitUnknownError, InternalError, UnavailableError)
"""Errors after which a commit may have landed."""

RECEIPT = pa.schema([("partition", pa.int32()), ("receipt", pa.string())])
RECEIPT_DDL = "partition int, receipt string"
"""Columns of the results of tasks that stage rows."""


def write_rows(
    server: Server,
    dataset: str,
    frame: DataFrame,
    mode: WriteMode | Literal["merge_insert"],
    *,
    transaction_id: str | None = None,
    vectors: Mapping[str, int] | None = None,
    read_version: int | None = None,
    **fields: Any,
) -> Outcome:
    """Write the rows of a frame as one version, in the order of its partitions; all of them, or none.

    Tasks that are retried or run twice double nothing: only the receipts of tasks that Spark counts are
    committed. What others staged goes when its time is over.

    Args:
        server: where the dataset is; with several servers the uploads are spread over them.
        dataset: its name, perhaps with a branch.
        frame: the rows.
        mode: what becomes of rows that are there.
        transaction_id: a UUID; the same one commits once, however often this is called.
        vectors: list columns that become lists of a fixed size, and the size; only where `mode` makes the
            schema.
        read_version: of an overwrite: what it replaces.
        **fields: of the write command: `max_rows_per_file`, `on`, `when_matched`, ...; None is left out.

    Raises:
        DatasetNotFoundError, DatasetExistsError: the dataset, as `mode` needs it or not.
        InvalidInputError: columns that the dataset has not, or of another type.
        LanceError: what a server reported; nothing was written, unless it says that this is unknown.
    """
    client = server.client()
    transaction_id = transaction_id or str(uuid4())
    done = client.find_transaction(dataset, transaction_id)
    if done is not None:
        return Outcome.of(dataset, done, was_done=True)
    schema = _schema(_schema_there(client, dataset, mode), lance_schema(frame.schema), vectors or {})
    command = {"mode": mode, **{name: value for name, value in fields.items() if value is not None}}

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next(batches, None)
        if first is None:
            return
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        rows = (to_lance(batch, schema) for batch in chain([first], batches))
        with server.client(partition) as executor:
            receipts = executor.stage(dataset, rows, schema=schema, **command)
        yield pa.record_batch([[partition] * len(receipts), receipts], schema=RECEIPT)

    staged = frame.mapInArrow(stage, RECEIPT_DDL).collect()
    receipts = [row.receipt for row in sorted(staged, key=lambda row: row.partition)]
    if not receipts:  # a version without rows has the transaction id, too
        receipts = client.stage(dataset, schema.empty_table(), **command)
    operation: UploadMode = "overwrite" if mode == "create" else mode
    written = commit_staged(client, dataset, receipts, operation, transaction_id, read_version)
    return Outcome.of(dataset, written)


def commit_staged(
    client: Client,
    dataset: str,
    receipts: Sequence[str],
    operation: UploadMode,
    transaction_id: str,
    read_version: int | None = None,
) -> WriteResult:
    """Make one version of what tasks staged. What is refused is removed, what is unknown stays.

    Raises:
        LanceError: as `Client.commit`.
    """
    try:
        client.commit(dataset, receipts, operation, transaction_id=transaction_id, read_version=read_version)
    except _UNKNOWN:
        raise
    except LanceError:
        with suppress(LanceError):  # what stays is removed when its time is over
            client.abort(dataset, receipts)
        raise
    written = client.find_transaction(dataset, transaction_id)
    if written is None:
        raise InternalError(f"transaction {transaction_id} was committed and is not found")
    return written


def with_vectors(schema: pa.Schema, vectors: Mapping[str, int]) -> pa.Schema:
    """Return the columns of a new dataset, or new columns: nullable, lists of a fixed size where one is
    given.

    Raises:
        InvalidInputError: there is no such column, or it is no list.
    """
    unknown = sorted(set(vectors) - set(schema.names))
    if unknown:
        raise InvalidInputError(f"vectors: no column {unknown[0]!r}")
    return pa.schema([_vector(field, vectors.get(field.name)) for field in schema])


def _schema_there(client: Client, dataset: str, mode: str) -> pa.Schema | None:
    """Return the schema that rows have to have; None if the rows decide."""
    if mode == "overwrite":
        return None
    try:
        there = client.snapshot(dataset)
    except DatasetNotFoundError:
        if mode == "create":
            return None
        raise
    if mode == "create":
        raise DatasetExistsError(f"dataset {dataset} exists")
    return there.stored_schema


def _schema(there: pa.Schema | None, given: pa.Schema, vectors: Mapping[str, int]) -> pa.Schema:
    """Return the schema that is sent: the given columns, with the types of the dataset if it exists."""
    if there is None:
        return with_vectors(given, vectors)
    if vectors:
        raise InvalidInputError("vectors: the dataset has a schema already")
    unknown = sorted(set(given.names) - set(there.names))
    if unknown:
        raise InvalidInputError(f"the dataset has no column {unknown[0]!r}; it has {', '.join(there.names)}")
    return pa.schema([there.field(name) for name in given.names])


def _vector(field: pa.Field, size: int | None) -> pa.Field:
    """Return the column, as lists of a fixed size if one is given; nullable, since Spark promises no more."""
    if size is None:
        return field.with_nullable(True)
    if not pa.types.is_list(field.type):
        raise InvalidInputError(f"vectors: column {field.name!r} is no list but {field.type}")
    return pa.field(field.name, pa.list_(field.type.value_type, size))
