"""Join of the rows of a frame with their nearest rows in a dataset: executors ask the server in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from flight_client import InvalidInputError, Selection
from spark_pipeline.arrow_types import spark_schema, to_spark
from spark_pipeline.jobs.server import Server
from spark_pipeline.worker_settings import settle

RANK, DISTANCE = "rank", "distance"
_QUERY_INDEX, _DISTANCE = "query_index", "_distance"
_MOST_QUERIES = 512
_MOST_QUERY_BYTES = 256 << 10
"""Limits of the query vectors of one request. A command has at most 1 MiB."""
_MOST_FOUND_ROWS = 1 << 18
"""Limit of the rows that one request may find; servers have a larger one (`max_search_rows`)."""


def nearest_rows(
    frame: DataFrame,
    server: Server,
    dataset: str,
    *,
    vector: str,
    column: str | None = None,
    k: int = 10,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    prefix: str = "nearest_",
    **arguments: Any,
) -> DataFrame:
    """Return the rows of a frame, each with its nearest rows in a dataset of a server.

    A row of the frame comes as often as rows are found for it, and not at all if its vector is null. Beside
    its columns it has `rank` (0 for the nearest row), `distance`, and the columns of the found row.

    Args:
        frame: the rows.
        server: server of the dataset. Partitions begin with different servers.
        dataset: name of the dataset, perhaps with a version: `trips@12`. All executors search the version
            that is the latest one now if the name has none.
        vector: column of the frame with lists of numbers.
        column: column of vectors of the dataset; None if it has only one.
        k: most rows that are found for each row.
        columns: columns of the found rows; None means all.
        filter: condition in SQL; only rows of the dataset that meet it are searched.
        prefix: text before the names of the columns of the found rows.
        **arguments: other arguments of `RemoteDataset.search`, such as `metric`.

    Raises:
        InvalidInputError: `vector` is no column of lists of numbers, or two columns would have one name.
        LanceError: the server reported an error, for example for an unknown column.
    """
    kinds = {field.name: field.dataType for field in frame.schema}
    kind = kinds.get(vector)
    if not isinstance(kind, spark.ArrayType) or not isinstance(kind.elementType, spark.NumericType):
        raise InvalidInputError(f"vector: expected a column with lists of numbers, found {vector!r}: {kind}")
    selection = Selection(
        columns=None if columns is None else tuple(columns), filter=filter, prefilter=filter is not None
    )
    with server.client() as client:
        opened = client.snapshot(dataset)
        found = opened.scanner(selection).projected_schema
        target = opened.target
    added = spark_schema(pa.schema([field.with_name(prefix + field.name) for field in found]))
    result = spark.StructType(
        [
            *frame.schema,
            spark.StructField(RANK, spark.IntegerType(), False),
            spark.StructField(DISTANCE, spark.FloatType(), False),
            *(spark.StructField(field.name, field.dataType, True) for field in added),
        ]
    )
    names = result.names
    if len(set(names)) < len(names):
        double = max(names, key=names.count)
        raise InvalidInputError(f"prefix: two columns of the result are named {double!r}, give another one")

    def join(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        context = TaskContext.get()
        with server.client(0 if context is None else context.partitionId()) as executor:
            searched = executor.snapshot(target.name, target.version, branch=target.branch)
            for batch in batches:
                for part in _parts(batch, vector, k * (arguments.get("refine_factor") or 1)):
                    nearest = {**arguments, "q": part[vector], "column": column, "k": k}
                    rows = searched.scanner(replace(selection, nearest=nearest)).search()
                    yield _joined(part, rows, found.names, result)

    return frame.mapInArrow(join, result)


def _parts(batch: pa.RecordBatch, vector: str, rows_per_query: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows with vectors, as many at a time as one request may have.

    A server gathers `rows_per_query` rows for each, and bounds the rows of a request.
    """
    rows = batch.filter(batch[vector].is_valid())
    start = 0
    while start < rows.num_rows:
        length = max(len(rows[vector][start].values), 1)
        most = min(_MOST_QUERIES, _MOST_QUERY_BYTES // (8 * length), _MOST_FOUND_ROWS // rows_per_query)
        count = max(1, most)
        yield rows.slice(start, count)
        start += count


def _joined(
    queries: pa.RecordBatch, found: pa.Table, names: Sequence[str], schema: spark.StructType
) -> pa.RecordBatch:
    """Return the rows of queries with what was found for them."""
    if _QUERY_INDEX not in found.column_names:
        raise InvalidInputError("column: expected one vector per row of the dataset, found lists of vectors")
    numbers = found[_QUERY_INDEX].combine_chunks()
    ranks: list[int] = []
    before = -1
    for number in numbers.to_pylist():
        ranks.append(ranks[-1] + 1 if number == before else 0)
        before = number
    columns = [
        *queries.take(numbers).columns,
        pa.array(ranks, pa.int32()),
        *(found[name].combine_chunks() for name in (_DISTANCE, *names)),
    ]
    return to_spark(pa.RecordBatch.from_arrays(columns, names=schema.names), schema)
