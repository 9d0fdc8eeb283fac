"""Batch reads: the server plans, every partition of Spark is one endpoint of the plan."""

from __future__ import annotations

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
    """Return what the options select."""
    return Selection(
        columns=options.columns,
        filter=options.filter,
        batch_rows=options.batch_size,
        verify_checksums=options.verify_checksums,
    )


def selected_schema(snapshot: Snapshot, selection: Selection) -> pa.Schema:
    """Return the columns that are read; the server is asked only where they are not those of the dataset."""
    return snapshot.schema if selection.columns is None else snapshot.scanner(selection).projected_schema


@dataclass(frozen=True)
class _Endpoint:
    """One endpoint of a plan as it travels to an executor."""

    data: bytes
    number: int
    """Position of the partition in the plan."""


class BatchReader(DataSourceReader):
    """Reads one version of a dataset. Made where the query is planned, and pickled for the executors."""

    def __init__(self, snapshot: Snapshot, selection: Selection, schema: StructType) -> None:
        """Read the columns that `schema` names.

        Raises:
            InvalidInputError: `schema` has a column that is not selected, or has another type.
        """
        self._snapshot = snapshot
        self._asked = selection
        self._selection = narrowed(selection, snapshot, schema)
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """One per endpoint of the plan."""
        endpoints = self._snapshot.scanner(self._selection).plan.endpoints
        return [
            InputPartition(_Endpoint(endpoint.serialize(), number))
            for number, endpoint in enumerate(endpoints)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the batches of one partition, as Spark wants them.

        Where several servers redeem the tickets, each partition begins with another one.
        """
        settle()
        endpoint: _Endpoint = partition.value
        batches = self._snapshot.read_endpoint(
            flight.FlightEndpoint.deserialize(endpoint.data), endpoint.number
        )
        return all_to_spark(batches, self._schema)


class PushingReader(BatchReader):
    """A reader that takes conditions of a query over.

    Spark refuses every query of a class that has `pushFilters` unless its setting
    `spark.sql.python.filterPushdown.enabled` is on, and keeps what was pushed for other queries of what was
    loaded: see docs/spark.md.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Take the conditions that the server evaluates as Spark does, and hand back the others."""
        conditions = {id(each): self._sql(each) for each in filters}
        pushed = [sql for sql in conditions.values() if sql is not None]
        given = [] if self._asked.filter is None else [self._asked.filter]
        # From what the options said, not from what another query left.
        parts = [f"({sql})" for sql in (*given, *pushed)]
        self._selection = replace(self._selection, filter=" AND ".join(parts) or None)
        return [each for each in filters if conditions[id(each)] is None]

    def _sql(self, condition: Filter) -> str | None:
        if isinstance(self._asked.columns, Mapping):
            return None  # names of the query may be those of computed columns
        return to_sql(condition, self._snapshot.schema, self._schema)


def narrowed(selection: Selection, snapshot: Snapshot, schema: StructType) -> Selection:
    """Return the selection without the columns that `schema` does not name.

    Raises:
        InvalidInputError: one is not selected, or a column of the dataset cannot become what it is there.
    """
    if not isinstance(selection.columns, Mapping):  # of computed columns only what comes tells the types
        check_requested(known_types(snapshot.schema, schema.names), schema)
    wanted = schema.names
    selected = list(snapshot.schema.names if selection.columns is None else selection.columns)
    if wanted == selected:
        return selection
    unknown = [name for name in wanted if name not in selected]
    if unknown:
        raise InvalidInputError(f"column {unknown[0]!r} is none of {', '.join(selected)}")
    if isinstance(selection.columns, Mapping):
        return replace(selection, columns={name: selection.columns[name] for name in wanted})
    if selection.columns is None:  # names of columns, in which dots do not mean children
        return replace(selection, columns={name: quoted(name) for name in wanted})
    return replace(selection, columns=wanted)
