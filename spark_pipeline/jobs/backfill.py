"""Backfill: executors compute new columns fragment by fragment, the driver commits once. Other files stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from spark_pipeline.jobs.fragment_rows import ROW_ADDRESS, fragment_rows
from spark_pipeline.jobs.job import about, job
from spark_pipeline.jobs.outcome import Outcome
from spark_pipeline.jobs.selection import quoted
from spark_pipeline.jobs.server import Server
from spark_pipeline.jobs.shared_options import RunOptions
from spark_pipeline.jobs.write_rows import RECEIPT, RECEIPT_DDL, commit_staged, with_vectors

BatchFunction = Callable[[pa.RecordBatch], pa.RecordBatch]


def _names(text: str) -> list[str]:
    return text.split(",")


@dataclass(frozen=True)
class BackfillOptions(RunOptions):
    """Options of `backfill`."""

    dataset: str = field(metadata=about("Name of the dataset, perhaps with a branch: `trips@dev`."))
    columns: Mapping[str, str] | None = field(
        default=None,
        metadata=about(
            "SQL of Spark by the name of the new column. An expression uses its own row alone, without "
            "windows and "
            "aggregates.",
            flag="--column",
            unit="name=sql",
        ),
    )
    function: BatchFunction | str | None = field(
        default=None,
        kw_only=True,
        metadata=about(
            "Function instead of `columns`, or its name: from a batch of the inputs to a batch of the "
            "new columns with "
            "the same rows in the same order. Executors must be able to import the modules that it uses.",
            unit="module:name",
        ),
    )
    schema: str | None = field(
        default=None,
        kw_only=True,
        metadata=about("Columns that `function` returns, as in a CREATE TABLE of Spark: 'net DOUBLE'."),
    )
    inputs: Sequence[str] | None = field(
        default=None,
        kw_only=True,
        metadata=about(
            "Columns that are read; if not given, those that the SQL names, or all for a function.",
            parse=_names,
            unit="names with commas",
        ),
    )
    vectors: Mapping[str, int] | None = field(
        default=None,
        kw_only=True,
        metadata=about(
            "New list columns that become vectors, with their sizes.", flag="--vector", unit="name=size"
        ),
    )

    def __post_init__(self) -> None:
        """Check that the new columns are given in one way.

        Raises:
            InvalidInputError: neither SQL nor a function with its schema is given, or both.
        """
        super().__post_init__()
        if (self.columns is None) == (self.function is None) or (self.function is None) != (
            self.schema is None
        ):
            raise InvalidInputError("expected either columns, or function and schema")


@job(BackfillOptions)
def backfill(spark: SparkSession, server: Server, options: BackfillOptions) -> Outcome:
    """Add columns that executors compute, fragment by fragment; other files stay.

    The job makes one version. Rows that are appended meanwhile have nulls in the new columns;
    `fragments_without` in the `details` of the outcome counts their fragments.

    Raises:
        CommitConflictError: rows were updated, merged or compacted meanwhile. Nothing was committed.
        InvalidInputError: the options contradict each other or the dataset.
        LanceError: the server reported an error.
        PySparkException: Spark cannot parse the SQL, or the function failed.
    """
    dataset = options.dataset
    client = server.client()
    transaction_id = options.transaction_id or str(uuid4())
    done = client.find_transaction(dataset, transaction_id)
    if done is not None:
        return Outcome.of(dataset, done, was_done=True)
    opened = client.dataset(dataset)
    fragments = client.fragments(opened.name, version=opened.version, branch=opened.branch)
    rows = {fragment["id"]: fragment["physical_rows"] for fragment in fragments}
    if not rows:
        raise InvalidInputError(
            f"dataset {dataset} has no rows; `Client.add_columns` adds columns to it with a schema"
        )
    computed, schema, function = _computation(spark, server, opened, list(rows), options)
    clashing = sorted(set(schema.names) & set(opened.schema.names))
    if clashing:
        raise InvalidInputError(f"dataset {dataset} has a column {clashing[0]!r} already")
    receipts = _stage(server, dataset, computed, schema, function, rows)
    written = commit_staged(client, dataset, receipts, "add_columns", transaction_id, opened.version)
    without = len({fragment["id"] for fragment in client.fragments(dataset)} - set(rows))
    return Outcome(
        dataset,
        written.version,
        rows=sum(fragment["rows"] for fragment in fragments),
        details={"fragments": len(rows), "fragments_without": without},
    )


def _computation(
    spark: SparkSession,
    server: Server,
    opened: RemoteDataset,
    fragments: Sequence[int],
    options: BackfillOptions,
) -> tuple[DataFrame, pa.Schema, BatchFunction]:
    """Return the rows that executors read, the schema of the new columns, and the function that makes them.

    SQL is part of the frame, so that its function returns each batch as it is.
    """
    vectors = options.vectors or {}
    if options.columns is not None:
        referenced = _referenced(spark, opened, options.columns)
        needed = referenced if options.inputs is None else options.inputs
        computed = fragment_rows(spark, server, opened, fragments, needed).selectExpr(
            *(f"{sql} AS {quoted(name)}" for name, sql in options.columns.items()), ROW_ADDRESS
        )
        made = StructType([added for added in computed.schema if added.name != ROW_ADDRESS])
        return computed, with_vectors(lance_schema(made), vectors), _same
    needed = opened.schema.names if options.inputs is None else options.inputs
    rows = fragment_rows(spark, server, opened, fragments, needed)
    made = cast(StructType, StructType.fromDDL(options.schema or ""))
    return rows, with_vectors(lance_schema(made), vectors), _imported(options.function)


def _same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def _imported(function: BatchFunction | str | None) -> BatchFunction:
    """Return the function, imported if it is given as `module:name`."""
    if callable(function):
        return function
    module, _, attribute = (function or "").partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInputError(
            f"function {function!r} cannot be imported, expected module:name: {error}"
        ) from None
    if not callable(found):
        raise InvalidInputError(f"function {function!r}: expected a function, found {type(found).__name__}")
    return cast(BatchFunction, found)


def _referenced(spark: SparkSession, opened: RemoteDataset, columns: Mapping[str, str]) -> list[str]:
    """Return the columns that expressions name, according to Spark's analysis.

    Raises:
        InvalidInputError: an expression needs more than its own row.
        PySparkException: Spark cannot parse an expression.
    """
    empty = spark.createDataFrame([], spark_schema(opened.schema))
    computed = empty.selectExpr(*(f"{sql} AS {quoted(name)}" for name, sql in columns.items()))
    plan = computed._jdf.queryExecution().analyzed()
    if plan.children().apply(0).children().size():  # more than a projection of the rows
        raise InvalidInputError(
            "columns: expected expressions of one row, found a window, an aggregate or a generator"
        )
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
    """Compute and stage the columns, and return the receipts. Each partition is one fragment."""
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
        InvalidInputError: the SQL moved rows out of their order, or the function returned another number of
            rows than it received.
    """
    start = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        position = batch.schema.get_field_index(ROW_ADDRESS)
        addresses = batch.column(position).to_numpy(zero_copy_only=False)
        positions = (addresses & 0xFFFFFFFF).astype(np.int64)
        if np.any(addresses >> 32 != fragment) or positions[0] < start or np.any(np.diff(positions) <= 0):
            raise InvalidInputError(
                f"fragment {fragment}: the SQL moved rows, expected expressions of one row"
            )
        made = function(batch.remove_column(position))
        if made.num_rows != batch.num_rows:
            raise InvalidInputError(
                f"fragment {fragment}: the function returned {made.num_rows} rows, expected {batch.num_rows}"
            )
        end = int(positions[-1]) + 1
        yield _spread(to_lance(made, schema), positions - start, end - start)
        start = end
    if start < num_rows:
        yield pa.record_batch([pa.nulls(num_rows - start, field.type) for field in schema], schema=schema)


def _spread(batch: pa.RecordBatch, positions: npt.NDArray[np.int64], num_rows: int) -> pa.RecordBatch:
    """Return `num_rows` rows: those of the batch at their positions, nulls between them."""
    if batch.num_rows == num_rows:
        return batch
    taken = np.zeros(num_rows, np.int64)
    is_gap = np.ones(num_rows, np.bool_)
    taken[positions] = np.arange(batch.num_rows)
    is_gap[positions] = False
    return batch.take(pa.array(taken, mask=is_gap))
