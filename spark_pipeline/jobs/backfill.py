"""Backfill: new columns, computed on executors fragment by fragment, committed once. Other files stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import cast
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from flight_client import InvalidInputError, RemoteDataset
from spark_pipeline.arrow_types import lance_schema, spark_schema, to_lance
from spark_pipeline.jobs.columns import quoted
from spark_pipeline.jobs.fragments import ROW_ADDRESS, fragment_rows
from spark_pipeline.jobs.outcome import Outcome
from spark_pipeline.jobs.rows import RECEIPT, RECEIPT_DDL, commit_staged, with_vectors
from spark_pipeline.jobs.server import Server

BatchFunction = Callable[[pa.RecordBatch], pa.RecordBatch]


def backfill(
    spark: SparkSession,
    server: Server,
    dataset: str,
    columns: Mapping[str, str] | None = None,
    *,
    function: BatchFunction | str | None = None,
    schema: str | None = None,
    inputs: Sequence[str] | None = None,
    vectors: Mapping[str, int] | None = None,
    transaction_id: str | None = None,
) -> Outcome:
    """Add columns that are computed from others, as one version; the data files that are there stay.

    Rows that somebody appends meanwhile get nulls; `details` of the outcome says in how many fragments.

    Args:
        spark: a session.
        server: where the dataset is.
        dataset: its name, perhaps with a branch.
        columns: SQL of Spark by the name of the new column; an expression of the row alone, without windows
            and aggregates.
        function: instead of `columns`: from a batch of the inputs to a batch of the new columns with as many
            rows, in the same order; or `module:name` of one. Executors have to be able to import what it
            uses.
        schema: the columns that `function` makes, as in a CREATE TABLE of Spark.
        inputs: columns that are read; None: those that the SQL names, for a function all.
        vectors: new list columns that become vectors, and their size.
        transaction_id: a UUID; the same one commits once, however often the job is run.

    Raises:
        CommitConflictError: rows were updated, merged or compacted meanwhile; nothing was committed.
        LanceError: what a server reported.
        PySparkException: the SQL makes no sense, or the function failed.
    """
    if (columns is None) == (function is None) or (function is None) != (schema is None):
        raise InvalidInputError("either columns, or function and schema have to be given")
    client = server.client()
    transaction_id = transaction_id or str(uuid4())
    done = client.find_transaction(dataset, transaction_id)
    if done is not None:
        return Outcome.of(dataset, done, was_done=True)
    opened = client.dataset(dataset)
    there = client.fragments(opened.name, version=opened.version, branch=opened.branch)
    rows = {each["id"]: each["physical_rows"] for each in there}
    if not rows:
        raise InvalidInputError(f"dataset {dataset} has no rows; add_columns takes a schema then")
    if columns is not None:
        referenced = _referenced(spark, opened, columns)
        needed = referenced if inputs is None else inputs
        computed = fragment_rows(spark, server, opened, list(rows), needed).selectExpr(
            *(f"{sql} AS {quoted(name)}" for name, sql in columns.items()), ROW_ADDRESS
        )
        made = lance_schema(StructType([field for field in computed.schema if field.name != ROW_ADDRESS]))
        new = with_vectors(made, vectors or {})
        transformed: BatchFunction = _same
    else:
        assert function is not None
        assert schema is not None
        needed = inputs if inputs is not None else opened.schema.names
        computed = fragment_rows(spark, server, opened, list(rows), needed)
        new = with_vectors(lance_schema(cast(StructType, StructType.fromDDL(schema))), vectors or {})
        transformed = _imported(function) if isinstance(function, str) else function
    clashing = sorted(set(new.names) & set(opened.schema.names))
    if clashing:
        raise InvalidInputError(f"column {clashing[0]!r} is there already")
    receipts = _stage(server, dataset, computed, new, transformed, rows)
    written = commit_staged(client, dataset, receipts, "add_columns", transaction_id, opened.version)
    without = len({each["id"] for each in client.fragments(dataset)} - set(rows))
    return Outcome(
        dataset,
        written.version,
        rows=sum(each["rows"] for each in there),
        details={"fragments": len(rows), "fragments_without": without},
    )


def _same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def _imported(name: str) -> BatchFunction:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInputError(f"function {name!r} cannot be imported as module:name: {error}") from None
    if not callable(found):
        raise InvalidInputError(f"function {name!r} is none, but {type(found).__name__}")
    return cast(BatchFunction, found)


def _referenced(spark: SparkSession, opened: RemoteDataset, columns: Mapping[str, str]) -> list[str]:
    """Return the columns that expressions name, as Spark's analysis of them says.

    Raises:
        InvalidInputError: an expression of more than its own row.
        PySparkException: an expression that makes no sense.
    """
    empty = spark.createDataFrame([], spark_schema(opened.schema))
    computed = empty.selectExpr(*(f"{sql} AS {quoted(name)}" for name, sql in columns.items()))
    plan = computed._jdf.queryExecution().analyzed()
    if plan.children().apply(0).children().size():  # more than a projection of the rows
        raise InvalidInputError("columns: windows, aggregates and generators are no expressions of one row")
    attributes = plan.references().toSeq()
    found = {attributes.apply(position).name() for position in range(attributes.size())}
    return [name for name in opened.schema.names if name in found]


def _stage(
    server: Server,
    dataset: str,
    computed: DataFrame,
    schema: pa.Schema,
    function: BatchFunction,
    rows: Mapping[int, int],
) -> list[str]:
    """Compute the columns and stage them; the receipts. Each partition is one fragment."""
    fragments = list(rows)

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        fragment = fragments[partition]
        filled = _with_deleted(batches, schema, function, fragment, rows[fragment])
        with server.client(partition) as client:
            receipts = client.stage(dataset, filled, "add_columns", schema=schema, fragment_id=fragment)
        yield pa.record_batch([[partition] * len(receipts), receipts], schema=RECEIPT)

    return [row.receipt for row in computed.mapInArrow(stage, RECEIPT_DDL).collect()]


def _with_deleted(
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    function: BatchFunction,
    fragment: int,
    num_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the new columns of all physical rows of a fragment: nulls where rows are deleted.

    Raises:
        InvalidInputError: the rows are no longer those of the fragment in their order, or the function gives
            more or fewer than it was given.
    """
    start = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        position = batch.schema.get_field_index(ROW_ADDRESS)
        addresses = batch.column(position).to_numpy(zero_copy_only=False)
        places = (addresses & 0xFFFFFFFF).astype(np.int64)
        if np.any(addresses >> 32 != fragment) or places[0] < start or np.any(np.diff(places) <= 0):
            raise InvalidInputError(
                f"fragment {fragment}: rows were moved; a new column is computed from its own row alone"
            )
        made = function(batch.remove_column(position))
        if made.num_rows != batch.num_rows:
            raise InvalidInputError(
                f"fragment {fragment}: the function gave {made.num_rows} rows for {batch.num_rows}"
            )
        end = int(places[-1]) + 1
        yield _spread(to_lance(made, schema), places - start, end - start)
        start = end
    if start < num_rows:
        yield pa.record_batch([pa.nulls(num_rows - start, field.type) for field in schema], schema=schema)


def _spread(batch: pa.RecordBatch, places: npt.NDArray[np.int64], num_rows: int) -> pa.RecordBatch:
    """Return the rows at their places among `num_rows`, nulls between them."""
    if batch.num_rows == num_rows:
        return batch
    positions = np.zeros(num_rows, np.int64)
    is_gap = np.ones(num_rows, np.bool_)
    positions[places] = np.arange(batch.num_rows)
    is_gap[places] = False
    return batch.take(pa.array(positions, mask=is_gap))
