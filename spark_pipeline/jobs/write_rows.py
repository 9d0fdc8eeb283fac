"""Writes of a job: executors stage the rows of their partitions, the driver commits them once.

The data source writes in another way, because Spark returns nothing from the writer of a frame. A job needs
the order of the partitions, the transaction id of its run, and the number of rows and bytes that were
written.
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
from spark_pipeline.jobs.selection import ordering, parse_order
from spark_pipeline.jobs.server import Server
from spark_pipeline.jobs.shared_options import WriteMode, WriteOptions

_UNKNOWN = (CommitUnknownError, InternalError, UnavailableError)
"""Errors after which a commit may have landed."""

RECEIPT = pa.schema([("partition", pa.int32()), ("receipt", pa.string())])
RECEIPT_DDL = "partition int, receipt string"
"""Columns of the results of tasks that stage rows."""


def write_arranged(
    server: Server, dataset: str, frame: DataFrame, options: WriteOptions, transaction_id: str | None
) -> Outcome:
    """Write the rows of a frame as one version, in the order and the partitions that the options ask for.

    Arguments and errors are those of `write_rows`.
    """
    return write_rows(
        server,
        dataset,
        _arranged(frame, options),
        options.mode,
        transaction_id=transaction_id,
        vectors=options.vectors,
        max_rows_per_file=options.max_rows_per_file,
        data_storage_version=options.data_storage_version,
        enable_stable_row_ids=options.enable_stable_row_ids,
    )


def _arranged(frame: DataFrame, options: WriteOptions) -> DataFrame:
    """Return the rows in the order and the partitions that the options ask for."""
    partitions = options.partitions
    if options.partition_rows is not None:
        partitions = max(1, -(-frame.count() // options.partition_rows))
    order = [ordering(parse_order(column)) for column in options.sort_by]
    if not order:
        return frame if partitions is None else frame.repartition(partitions)
    if partitions is None:
        return frame.orderBy(*order)
    return frame.repartitionByRange(partitions, *order).sortWithinPartitions(*order)


def write_rows(
    server: Server,
    dataset: str,
    frame: DataFrame,
    mode: WriteMode | Literal["merge_insert"],
    *,
    transaction_id: str | None = None,
    vectors: Mapping[str, int] | None = None,
    **fields: Any,
) -> Outcome:
    """Write the rows of a frame as one version, in the order of its partitions. All rows are written, or
    none.

    A task that Spark retries or runs twice doubles nothing: the driver commits only the receipts of the
    attempts that Spark counts. The server removes what the other attempts staged when it expires.

    Args:
        server: server of the dataset; uploads are spread over several servers.
        dataset: name of the dataset, perhaps with a branch.
        frame: the rows.
        mode: what happens to the rows that the dataset has already.
        transaction_id: UUID; calls with the same UUID commit once.
        vectors: list columns that become fixed-size lists, with their sizes; only where `mode` makes the
            schema.
        **fields: other fields of the write command: `max_rows_per_file`, `on`, `when_matched`, ...; None is
            left out.

    Raises:
        DatasetNotFoundError: `mode` needs a dataset, and there is none.
        DatasetExistsError: `mode` makes a dataset, and one exists.
        InvalidInputError: the dataset lacks a column of the rows, or has it with another type.
        LanceError: the server reported an error. Nothing was written, except after a CommitUnknownError.
    """
    client = server.client()
    transaction_id = transaction_id or str(uuid4())
    done = client.find_transaction(dataset, transaction_id)
    if done is not None:
        return Outcome.of(dataset, done, was_done=True)
    schema = _schema(_existing_schema(client, dataset, mode), lance_schema(frame.schema), vectors or {})
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
    return Outcome.of(dataset, commit_staged(client, dataset, receipts, operation, transaction_id))


def commit_staged(
    client: Client,
    dataset: str,
    receipts: Sequence[str],
    operation: UploadMode,
    transaction_id: str,
    read_version: int | None = None,
) -> WriteResult:
    """Make one version of the receipts of tasks.

    If the commit is refused, the staged data is removed. If it is unknown whether the commit landed, the data
    stays.

    Raises:
        LanceError: see `Client.commit`.
    """
    try:
        client.commit(dataset, receipts, operation, transaction_id=transaction_id, read_version=read_version)
    except _UNKNOWN:
        raise
    except LanceError:
        with suppress(LanceError):  # the server removes the data later, when it expires
            client.abort(dataset, receipts)
        raise
    written = client.find_transaction(dataset, transaction_id)
    if written is None:
        raise InternalError(f"the server does not find transaction {transaction_id}, which it has committed")
    return written


def with_vectors(schema: pa.Schema, vectors: Mapping[str, int]) -> pa.Schema:
    """Return columns of a new dataset, or new columns: all nullable, and fixed-size lists where a size is
    given.

    Raises:
        InvalidInputError: `vectors` names an unknown column, or a column that is no list.
    """
    unknown = sorted(set(vectors) - set(schema.names))
    if unknown:
        raise InvalidInputError(
            f"vectors: the rows have no column {unknown[0]!r}, expected one of {', '.join(schema.names)}"
        )
    return pa.schema([_vector(field, vectors.get(field.name)) for field in schema])


def _existing_schema(client: Client, dataset: str, mode: str) -> pa.Schema | None:
    """Return the schema that the dataset prescribes; None if the rows decide."""
    if mode == "overwrite":
        return None
    try:
        existing = client.snapshot(dataset)
    except DatasetNotFoundError:
        if mode == "create":
            return None
        raise
    if mode == "create":
        raise DatasetExistsError(f"dataset {dataset} exists")
    return existing.stored_schema


def _schema(existing: pa.Schema | None, given: pa.Schema, vectors: Mapping[str, int]) -> pa.Schema:
    """Return the schema that is sent: the given columns, with the types of the dataset if it exists."""
    if existing is None:
        return with_vectors(given, vectors)
    if vectors:
        raise InvalidInputError("vectors: expected only for a new dataset, and this one has a schema already")
    unknown = sorted(set(given.names) - set(existing.names))
    if unknown:
        raise InvalidInputError(
            f"the dataset has no column {unknown[0]!r}, expected one of {', '.join(existing.names)}"
        )
    return pa.schema([existing.field(name) for name in given.names])


def _vector(field: pa.Field, size: int | None) -> pa.Field:
    """Return the column, as fixed-size lists if a size is given; nullable, because Spark does not promise
    more.
    """
    if size is None:
        return field.with_nullable(True)
    if not pa.types.is_list(field.type):
        raise InvalidInputError(f"vectors: expected column {field.name!r} to be a list, found {field.type}")
    return pa.field(field.name, pa.list_(field.type.value_type, size))
