"""Scan of a remote dataset: the server plans it on first use; streams are read in parallel."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import flight

from flight_client.errors import InvalidInputError, UnsupportedFeatureError
from flight_client.network.connection import Connection, to_json
from flight_client.network.connections import Connections
from flight_client.network.endpoints import ParallelReader, read_endpoint
from flight_client.progress import Progress
from flight_client.reading.filter_pushdown import Filter, filter_here, passing_rows, split_filter
from flight_client.reading.hybrid import joined_rows
from flight_client.reading.ordering import ColumnOrdering
from flight_client.reading.search import (
    DEFAULT_NEAREST,
    DISTANCE,
    RELEVANCE,
    ROW_ADDRESS,
    ROW_ID,
    SCORE,
    best_rows,
    nearest_fields,
    repeated_fields,
    vector_columns,
)
from flight_client.reading.searcher import Searcher

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.compute as pc


_FEW_ROWS = 1000
"""Rows that are read by one call, without a plan."""


@dataclass(frozen=True)
class ReadOptions:
    """Options of reads. Can be pickled."""

    parallel: int = field(default_factory=lambda: min(max(len(os.sched_getaffinity(0)), 2), 4))
    """Number of parallel streams. More streams than cores fill memory with batches that wait."""
    max_bytes: int = 64 << 20
    """Largest size of received batches that the caller has not requested yet."""


@dataclass(frozen=True)
class Selection:
    """Rows and columns that a scan reads."""

    columns: Sequence[str] | Mapping[str, str] | None = None
    """Names, nested ones with dots; or SQL by name. None for all columns."""
    filter: str | None = None
    """Condition in SQL."""
    condition: pc.Expression | None = None
    """Condition that rows must meet in addition to `filter`."""
    limit: int | None = None
    offset: int | None = None
    fragments: tuple[int, ...] | None = None
    batch_rows: int | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    verify_checksums: bool = False
    """Whether the server checks the pages of this scan, whatever its settings say."""
    blob_handling: str | None = None
    """Blobs as descriptors (`blobs_descriptions`, which None means, or `all_descriptions`) or as bytes
    (`all_binary`).
    """
    compression: str | None = None
    """Compression of batches on the wire: `none`, which None means, `lz4`, `zstd`, or `auto`."""
    order_by: tuple[ColumnOrdering, ...] = ()
    """Columns to sort the rows by, the most significant first. `limit` and `offset` count sorted rows."""
    nearest: Mapping[str, Any] | None = None
    """Vector search, with the arguments that `RemoteDataset.scanner` takes: its rows instead of all rows."""
    full_text_query: Mapping[str, Any] | None = None
    """Full text query in the form of a command: its rows instead of all rows."""
    hybrid: Mapping[str, Any] | None = None
    """Rule by which the rows of both searches become one ranking."""
    search_filter: str | None = None
    """Search that only filters the rows of the other search: `vector` or `text`."""
    index_segments: tuple[str, ...] | None = None
    """Uuids of the segments of a vector index that find the rows of `nearest`."""
    prefilter: bool = False
    fast_search: bool = False
    use_scalar_index: bool = True
    """Whether indices of the server may find the rows for the filter."""
    split_search: bool = False
    """Whether each server returns the best rows of a part of the dataset, which the caller merges."""


@dataclass(frozen=True)
class Target:
    """Version of a dataset, as commands name it. Can be pickled."""

    name: str
    version: int
    branch: str | None = None
    identity: str | None = None
    """Identity of the dataset, with which the server refuses another dataset under the same name. None if the
    server sent none.
    """

    def fields(self) -> dict[str, Any]:
        """Return the fields that name the version in a command."""
        fields: dict[str, Any] = {"dataset": self.name, "version": self.version}
        named = {"branch": self.branch, "identity": self.identity}
        return fields | {name: value for name, value in named.items() if value}


@dataclass(frozen=True)
class Snapshot:
    """Version of a dataset as the server described it. Can be pickled.

    A `RemoteDataset` reads through a snapshot, and engines that distribute their reads need nothing else. The
    snapshot does not import `pyarrow.dataset`, which imports pandas: that would double the start of a Python
    worker of Spark.
    """

    connections: Connections
    target: Target
    schema: pa.Schema
    """Schema of all columns as scans return them: blobs as their descriptors."""
    stored_schema: pa.Schema
    """Schema of all columns as appended rows have them: blobs as values."""
    num_rows: int
    num_servers: int
    """Number of servers that share the reads of a plan, when the version was opened."""
    options: ReadOptions

    @cached_property
    def vectors(self) -> dict[str, pa.DataType]:
        """Types of the elements of the columns of vectors; see `vector_columns`."""
        return vector_columns(self.schema)

    def scanner(self, selection: Selection) -> RemoteScanner:
        """Return a scan, which is planned and read when its rows are requested."""
        return RemoteScanner(self, selection)

    def read_endpoint(self, endpoint: flight.FlightEndpoint, first: int = 0) -> Iterator[pa.RecordBatch]:
        """Return the rows of one endpoint of a plan, see `RemoteDataset.read_endpoint`."""
        return read_endpoint(self.connections, endpoint, first)


class RemoteScanner:
    """Scan of one version of a dataset. Each call of a `to_` method reads the rows again."""

    def __init__(self, snapshot: Snapshot, selection: Selection) -> None:
        """Prepare to read `selection`. Nothing is sent yet."""
        self._snapshot = snapshot
        self._connections = snapshot.connections
        self._target = snapshot.target
        self._schema = snapshot.schema
        self._selection = selection

    def __reduce__(self) -> tuple[type[RemoteScanner], tuple[Snapshot, Selection]]:
        """Pickle the selection without the plan, because tickets expire."""
        return RemoteScanner, (self._snapshot, self._selection)

    def __repr__(self) -> str:
        fields = vars(self._selection).items()
        chosen = {name: value for name, value in fields if value is not None and value is not False}
        details = "".join(f", {name}={value}" for name, value in chosen.items())
        return f"RemoteScanner({self._target.name!r}, version={self._target.version}{details})"

    @property
    def dataset_schema(self) -> pa.Schema:
        """Schema of all columns of the dataset, as scans return them."""
        return self._schema

    @cached_property
    def projected_schema(self) -> pa.Schema:
        """Schema of the result.

        Raises:
            InvalidInputError: a column does not exist, or an expression or condition is invalid.
        """
        schema = self.plan.schema
        return pa.schema([schema.field(position) for position in self._wanted], schema.metadata)

    @cached_property
    def plan(self) -> flight.FlightInfo:
        """Plan of the server: endpoints, number of rows if it is known, and number of pruned pages.

        Raises:
            LanceError: see `projected_schema`; or the server does not answer or has no such dataset.
        """
        return _planned(self._connections, {"scan": self._command()})

    @property
    def statistics(self) -> dict[str, Any]:
        """Statistics of the plan: fragments and pages that are not read."""
        return dict(json.loads(self.plan.app_metadata))

    def explain(self) -> dict[str, Any]:
        """Return the planned and pruned pages of each fragment and column, with the reasons."""
        return self._connections.action("explain_scan", {"scan": self._command()}, repeat=True)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield batches as they arrive, in dataset order and bounded memory. Closing the iterator ends the
        streams.

        Raises:
            LanceError: the server reported an error.
        """
        batches = iter(
            ParallelReader(
                self._connections,
                self.plan.endpoints,
                parallel=1 if self._limit_is_ours else self._snapshot.options.parallel,
                max_bytes=self._snapshot.options.max_bytes,
            )
        )
        if self._filter.rest is not None:
            self._check_blobs()
            batches = _passing(batches, self._filter, self._wanted)
        return _limited(batches, self._selection) if self._limit_is_ours else batches

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a reader."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a stream of Arrow, for `pa.table(scanner)`, `pl.DataFrame(scanner)`, ..."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_table(self, *, progress: bool | None = None) -> pa.Table:
        """Return all rows as a table.

        Args:
            progress: whether to show a progress bar; None shows one on terminals if the read takes long.
        """
        total = self.plan.total_records
        with Progress.of_rows(f"read {self._target.name}", total if total >= 0 else None, progress) as bar:
            batches = []
            for batch in self.to_batches():
                batches.append(batch)
                bar.add(batch.num_rows)
        return pa.Table.from_batches(batches, self.projected_schema)

    def to_pandas(self, *, progress: bool | None = None, **arguments: Any) -> pd.DataFrame:
        """Return all rows as a pandas frame; `progress` as in `to_table`, arguments of
        `pyarrow.Table.to_pandas`.
        """
        return self.to_table(progress=progress).to_pandas(**arguments)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows."""
        limit = self._selection.limit
        fewer = num_rows if limit is None else min(num_rows, limit)
        first = self._with(limit=fewer)
        return first._at_once() if fewer <= _FEW_ROWS and self._filter.rest is None else first.to_table()

    def take(self, indices: Any) -> pa.Table:
        """Return rows of the result by position.

        Raises:
            InvalidInputError: a position is out of range.
        """
        try:
            return self.to_table().take(indices)
        except IndexError as error:
            raise InvalidInputError(f"indices: {error}") from None

    def aggregate(
        self, aggregates: Mapping[str, str], group_by: Sequence[str] | Mapping[str, str] | None = None
    ) -> pa.Table:
        """Return one row per group of the rows, which the server aggregates.

        Groups come in the order of their first rows. Of the scan only the filter counts.

        Args:
            aggregates: SQL by name: `count(*)`, or `count`, `count(DISTINCT ...)`, `sum`, `min`, `max`, `avg`
                or `mean` of an expression.
            group_by: names of columns or SQL expressions, or SQL expressions by name. Without any, the result
                has one row.

        Raises:
            InvalidInputError: an expression is invalid, a sum does not fit its type, or there are too many
                groups.
            UnsupportedFeatureError: the scan has a limit, an offset or fragments, or a filter that the server
                cannot evaluate, or a filter and `blob_handling="all_binary"`.
        """
        plan = self.aggregate_plan(aggregates, group_by)
        batches = ParallelReader(self._connections, plan.endpoints, parallel=1, max_bytes=0)
        return pa.Table.from_batches(batches, plan.schema)

    def aggregate_plan(
        self, aggregates: Mapping[str, str], group_by: Sequence[str] | Mapping[str, str] | None = None
    ) -> flight.FlightInfo:
        """Return the plan of `aggregate`, for engines that read endpoints themselves: it has one endpoint.

        Arguments and errors are those of `aggregate`.
        """
        selection = self._selection
        if (selection.limit, selection.offset, selection.fragments) != (None, None, None):
            raise UnsupportedFeatureError("a scan with limit, offset or fragments cannot be aggregated")
        is_filtered = selection.filter is not None or selection.condition is not None
        if is_filtered and selection.blob_handling == "all_binary":
            raise UnsupportedFeatureError("a filtered scan with the values of blobs cannot be aggregated")
        if self._filter.rest is not None:
            raise UnsupportedFeatureError("the server cannot evaluate the filter: give it as SQL")
        given: dict[str, Any] = {
            **self._target.fields(),
            "filter": selection.filter,
            "substrait_filter": self._filter.as_text(),
            "group_by": group_by if group_by is None or isinstance(group_by, Mapping) else list(group_by),
            "aggregates": dict(aggregates),
        }
        command = {name: value for name, value in given.items() if value is not None}
        return _planned(self._connections, {"aggregate": command})

    def search(self) -> pa.Table:
        """Return the rows of a search. If there are several servers, each searches a part of the dataset.

        Raises:
            InvalidInputError: see `projected_schema`.
        """
        selection = self._selection
        if self._snapshot.num_servers == 1 and self._filter.rest is None:
            return self._at_once()
        nearest, hybrid = selection.nearest or {}, selection.hybrid
        columns = selection.columns
        is_filtered = selection.filter is not None or selection.condition is not None
        if (
            selection.nearest is None
            or isinstance(columns, Mapping)
            or selection.order_by
            or selection.search_filter is not None
            or (columns is not None and not {ROW_ID, ROW_ADDRESS}.isdisjoint(columns))
            or (is_filtered and not selection.prefilter)
        ):
            return self.to_table(progress=False)
        with_address = selection.with_row_address or hybrid is not None
        parts = self._with(split_search=True, with_row_id=True, with_row_address=with_address)
        rows = parts.to_table(progress=False)
        if len(parts.plan.endpoints) > 1 and hybrid is not None:
            rows = joined_rows(rows, nearest, hybrid)
        elif len(parts.plan.endpoints) > 1:
            rows = best_rows(rows, nearest.get("k") or DEFAULT_NEAREST)
        if with_address and not selection.with_row_address:
            rows = rows.drop_columns([ROW_ADDRESS])
        return rows if selection.with_row_id else rows.drop_columns([ROW_ID])

    def searcher(self) -> Searcher:
        """Return a stream for many searches; see `RemoteDataset.searcher`."""
        if self._filter.rest is not None:
            raise InvalidInputError("the server cannot evaluate the filter: give the condition as SQL")
        vectors = self._snapshot.vectors
        fields = repeated_fields(vectors, self._selection.nearest or {})
        return Searcher(self._connections, self._command(fields), vectors.get(fields["column"]))

    def count_rows(self) -> int:
        """Return the number of rows. No columns are transferred."""
        selection = self._selection
        if selection.nearest is not None or selection.full_text_query is not None:
            return sum(batch.num_rows for batch in self.to_batches())
        plain = self._filter.substrait is None and self._filter.rest is None
        plain = plain and selection.blob_handling != "all_binary"  # its filter sees nulls that others do not
        if plain and selection.limit is None and selection.offset is None and selection.fragments is None:
            body = {**self._target.fields(), "filter": selection.filter}
            return int(self._connections.action("count_rows", body, repeat=True)["count"])
        scanner = self._with(columns=(), order_by=(), with_row_id=False, with_row_address=False)
        if not scanner._limit_is_ours and self._filter.rest is None and scanner.plan.total_records >= 0:
            return int(scanner.plan.total_records)
        return sum(batch.num_rows for batch in scanner.to_batches())

    def _at_once(self) -> pa.Table:
        """Return all rows by one call, which plans and reads. The server must evaluate the whole filter."""
        ticket = flight.Ticket(to_json({"scan": self._command()}))

        def run(connection: Connection) -> pa.Table:
            return connection.client.do_get(ticket).read_all()

        return self._connections.call(run)

    def _with(self, **changes: Any) -> RemoteScanner:
        return RemoteScanner(self._snapshot, replace(self._selection, **changes))

    @cached_property
    def _filter(self) -> Filter:
        selection = self._selection
        if selection.condition is None:
            return Filter()
        schema = self._schema
        if selection.nearest is not None and selection.search_filter != "vector":
            schema = schema.append(pa.field(DISTANCE, pa.float32()))
        if selection.full_text_query is not None and selection.search_filter != "text":
            schema = schema.append(pa.field(SCORE, pa.float32()))
        if selection.hybrid is not None:
            schema = schema.append(pa.field(RELEVANCE, pa.float32()))
        if selection.filter is not None:  # a command has one filter
            found = filter_here(selection.condition, schema)
        else:
            found = split_filter(selection.condition, schema)
        if selection.prefilter and found.rest is not None:
            raise InvalidInputError(
                "the server cannot evaluate all of the filter before the search: give the condition as SQL"
            )
        return found

    @property
    def _limit_is_ours(self) -> bool:
        """Whether the client applies limit and offset, because the server does not know which rows meet the
        filter.
        """
        selection = self._selection
        return self._filter.rest is not None and (selection.limit, selection.offset) != (None, None)

    @property
    def _wanted(self) -> list[int]:
        """Positions of the result's columns in the batches of the server.

        Columns that only the client's part of the filter needs come after the requested columns, and before
        row ids and addresses.
        """
        width = len(self.plan.schema)
        end = width - self._selection.with_row_id - self._selection.with_row_address
        return [*range(end - len(self._extra_columns)), *range(end, width)]

    @cached_property
    def _extra_columns(self) -> tuple[str, ...]:
        selection = self._selection
        if self._filter.rest is None or selection.columns is None:
            return ()
        if isinstance(selection.columns, Mapping):
            # The filter would read computed columns instead of columns of the dataset with the same name.
            clash = set(self._filter.rest_columns) & set(selection.columns)
            if clash:
                raise InvalidInputError(
                    f"column {min(clash)!r} is computed, and the filter needs the column of the dataset"
                )
            return self._filter.rest_columns
        return tuple(name for name in self._filter.rest_columns if name not in selection.columns)

    @cached_property
    def _nearest(self) -> dict[str, Any] | None:
        nearest = self._selection.nearest
        return None if nearest is None else nearest_fields(self._snapshot.vectors, nearest)

    def _check_blobs(self) -> None:
        """Refuse a condition that the client would evaluate on the bytes of blobs instead of descriptors."""
        for name in self._filter.rest_columns:
            position = self.plan.schema.get_field_index(name)
            if position >= 0 and self.plan.schema.types[position] != self._schema.field(name).type:
                raise InvalidInputError(
                    f"the filter needs the descriptors of column {name!r}, which is read as bytes: give the "
                    "condition as SQL"
                )

    def _command(self, nearest: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the fields of the scan; `nearest` stands for the search of the selection."""
        selection = self._selection
        columns: Any = selection.columns
        if isinstance(columns, Mapping):
            columns = {**columns, **{name: f"`{name}`" for name in self._extra_columns}}
        elif columns is not None:
            columns = [*columns, *self._extra_columns]
        given: dict[str, Any] = {
            **self._target.fields(),
            "columns": columns,
            "filter": selection.filter,
            "substrait_filter": self._filter.as_text(),
            "limit": None if self._limit_is_ours else selection.limit,
            "offset": None if self._limit_is_ours else selection.offset,
            "fragments": None if selection.fragments is None else list(selection.fragments),
            "batch_rows": selection.batch_rows,
            "with_row_id": selection.with_row_id or None,
            "with_row_address": selection.with_row_address or None,
            "verify_checksums": selection.verify_checksums or None,
            "blob_handling": selection.blob_handling,
            "compression": selection.compression,
            "order_by": [each.as_field() for each in selection.order_by] or None,
            "nearest": self._nearest if nearest is None else nearest,
            "full_text_query": selection.full_text_query,
            "hybrid": selection.hybrid,
            "search_filter": selection.search_filter,
            "index_segments": None if selection.index_segments is None else list(selection.index_segments),
            "prefilter": selection.prefilter or None,
            "fast_search": selection.fast_search or None,
            "use_scalar_index": None if selection.use_scalar_index else False,
            "split_search": selection.split_search or None,
        }
        return {name: value for name, value in given.items() if value is not None}


def _planned(connections: Connections, command: Mapping[str, Any]) -> flight.FlightInfo:
    """Return the server's plan of a command."""
    descriptor = flight.FlightDescriptor.for_command(to_json(command))

    def run(connection: Connection) -> flight.FlightInfo:
        return connection.client.get_flight_info(descriptor, connection.options())

    return connections.call(run)


def _passing(batches: Iterator[pa.RecordBatch], part: Filter, wanted: list[int]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that meet the client's part of the filter, without columns that only it needs."""
    try:
        for batch in batches:
            kept = passing_rows(part, batch)
            if kept.num_rows:
                yield kept if kept.num_columns == len(wanted) else kept.select(wanted)
    finally:
        batches.close()  # type: ignore[attr-defined]  # of a generator


def _limited(batches: Iterator[pa.RecordBatch], selection: Selection) -> Iterator[pa.RecordBatch]:
    """Yield at most `limit` rows, beginning with row `offset`."""
    skip = selection.offset or 0
    left = sys.maxsize if selection.limit is None else selection.limit
    try:
        while left:
            batch = next(batches, None)
            if batch is None:
                return
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            kept = batch.slice(skip, left)
            skip = 0
            left -= kept.num_rows
            yield kept
    finally:
        batches.close()  # type: ignore[attr-defined]
