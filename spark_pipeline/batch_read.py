"""Batch reads: the server plans, and every partition of Spark is one endpoint of the plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import flight
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from flight_client import InvalidInputError, Selection, Snapshot
from spark_pipeline.arrow_types import all_to_spark, known_types
from spark_pipeline.data_source_options import Options
from spark_pipeline.filter_sql import quoted, to_sql
from spark_pipeline.requested_types import check_requested
from spark_pipeline.worker_settings import settle


def selection_of(options: Options) -> Selection:
    """Return the rows and columns that the options select."""
    return Selection(
        columns=options.columns,
        filter=options.filter,
        batch_rows=options.batch_size,
        verify_checksums=options.verify_checksums,
        blob_handling=options.blob_handling,
        compression=options.compression,
        order_by=options.order_by,
        limit=options.limit,
        nearest=options.nearest,
        full_text_query=options.full_text_query,
        hybrid=options.hybrid,
        search_filter=options.search_filter,
        index_segments=options.index_segments,
        prefilter=options.prefilter,
    )


def _is_search(selection: Selection) -> bool:
    """Return whether the selection has the rows that a search finds."""
    return selection.nearest is not None or selection.full_text_query is not None


def selected_schema(snapshot: Snapshot, selection: Selection) -> pa.Schema:
    """Return the schema of the selected columns. The server is asked only if it is not the schema of the
    dataset.
    """
    is_plain = selection.columns is None and not _is_search(selection)
    if is_plain and selection.blob_handling != "all_binary":
        return snapshot.schema
    return snapshot.scanner(selection).projected_schema


@dataclass(frozen=True)
class _Endpoint:
    """Endpoint of a plan in the form that an executor receives."""

    data: bytes
    number: int
    """Position of the endpoint in the plan."""


class _PlanReader(DataSourceReader, ABC):
    """Reader of a plan of the server. The driver makes it and pickles it for the executors."""

    def __init__(self, snapshot: Snapshot, schema: StructType) -> None:
        self._snapshot = snapshot
        self._schema = schema

    @abstractmethod
    def _plan(self) -> flight.FlightInfo: ...

    def partitions(self) -> list[InputPartition]:
        """Return one partition per endpoint of the plan."""
        return [
            InputPartition(_Endpoint(endpoint.serialize(), number))
            for number, endpoint in enumerate(self._plan().endpoints)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the batches of one partition with the types that Spark expects.

        A partition begins with the server that its endpoint names first. If endpoints name no two servers,
        partitions begin with different ones of the configured servers.
        """
        settle()
        endpoint: _Endpoint = partition.value
        batches = self._snapshot.read_endpoint(
            flight.FlightEndpoint.deserialize(endpoint.data), endpoint.number
        )
        return all_to_spark(batches, self._schema)


class BatchReader(_PlanReader):
    """Reader of one version of a dataset."""

    def __init__(self, snapshot: Snapshot, selection: Selection, schema: StructType) -> None:
        """Prepare to read the columns that `schema` names.

        Raises:
            InvalidInputError: `schema` has a column that is not selected, or that has another type.
        """
        super().__init__(snapshot, schema)
        self._asked = selection
        self._selection = narrowed(selection, snapshot, schema)

    def _plan(self) -> flight.FlightInfo:
        return self._snapshot.scanner(self._selection).plan


class AggregateReader(_PlanReader):
    """Reader of one row per group of rows, which the server aggregates, in one partition."""

    def __init__(self, snapshot: Snapshot, options: Options, schema: StructType) -> None:
        """Prepare to read the columns that `schema` names.

        Raises:
            InvalidInputError: `schema` has a column that is none of the result, or that has another type.
        """
        super().__init__(snapshot, schema)
        self._options = options
        result = self._plan().schema
        check_requested(known_types(result, schema.names), schema)
        unknown = [name for name in schema.names if name not in result.names]
        if unknown:
            expected = ", ".join(result.names)
            raise InvalidInputError(
                f"{unknown[0]!r} is neither a group nor an aggregate, expected {expected}"
            )

    def _plan(self) -> flight.FlightInfo:
        return aggregate_plan(self._snapshot, self._options)


def aggregate_plan(snapshot: Snapshot, options: Options) -> flight.FlightInfo:
    """Return the plan of the aggregates that the options ask for, whose schema is that of the result."""
    assert options.aggregates is not None
    return snapshot.scanner(Selection(filter=options.filter)).aggregate_plan(
        options.aggregates, options.group_by
    )


class PushingReader(BatchReader):
    """Reader that lets the server evaluate conditions of a query.

    Spark refuses every query of a class with `pushFilters` unless its setting
    `spark.sql.python.filterPushdown.enabled` is on. Spark also keeps pushed conditions for other queries of
    the same loaded frame: see docs/spark.md.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Take the conditions that the server evaluates like Spark, and return the others."""
        conditions = {id(each): self._sql(each) for each in filters}
        pushed = [sql for sql in conditions.values() if sql is not None]
        given = [] if self._asked.filter is None else [self._asked.filter]
        # Begin with the filter of the options, not with the conditions of another query.
        parts = [f"({sql})" for sql in (*given, *pushed)]
        self._selection = replace(self._selection, filter=" AND ".join(parts) or None)
        return [each for each in filters if conditions[id(each)] is None]

    def _sql(self, condition: Filter) -> str | None:
        if _is_search(self._asked) or self._asked.limit is not None:
            return None  # a condition of the query is for the rows that the search or the limit leaves
        if isinstance(self._asked.columns, Mapping):
            return None  # a name in the query may be the name of a computed column
        return to_sql(condition, self._snapshot.schema, self._schema)


def narrowed(selection: Selection, snapshot: Snapshot, schema: StructType) -> Selection:
    """Return the selection without the columns that `schema` does not name.

    Raises:
        InvalidInputError: a column of `schema` is not selected, or cannot be read as the requested type.
    """
    if not isinstance(selection.columns, Mapping):  # types of computed columns are known after the read
        every = replace(selection, columns=None, filter=None, limit=0)
        check_requested(known_types(selected_schema(snapshot, every), schema.names), schema)
    wanted = schema.names
    selected = list(snapshot.schema.names if selection.columns is None else selection.columns)
    if _is_search(selection):
        selected = selected_schema(snapshot, selection).names
    if wanted == selected:
        return selection
    unknown = [name for name in wanted if name not in selected]
    if unknown:
        raise InvalidInputError(
            f"column {unknown[0]!r} is not selected, expected one of {', '.join(selected)}"
        )
    if isinstance(selection.columns, Mapping):
        return replace(selection, columns={name: selection.columns[name] for name in wanted})
    if selection.columns is None:  # names of columns, in which dots do not separate children
        return replace(selection, columns={name: quoted(name) for name in wanted})
    return replace(selection, columns=wanted)
