"""One scan of a remote dataset: planned by the server when it is first asked for rows, read in parallel."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import flight

from flight_client.connection import Server, Servers, to_json
from flight_client.endpoints import ParallelReader, read_endpoint
from flight_client.errors import InvalidInputError
from flight_client.filter_pushdown import Filter, filter_here, passing_rows, split_filter
from flight_client.progress import Progress

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading streams. Can be pickled."""

    parallel: int = field(default_factory=lambda: min(max(len(os.sched_getaffinity(0)), 2), 4))
    """Streams at the same time. More than cores fill memory that nobody reads yet."""
    max_bytes: int = 64 << 20
    """Size of batches that were received and not requested yet."""


@dataclass(frozen=True)
class Selection:
    """The rows and columns of a dataset that are read."""

    columns: Sequence[str] | Mapping[str, str] | None = None
    """Names, nested ones with dots; or SQL by name; all if None."""
    filter: str | None = None
    """SQL."""
    condition: pc.Expression | None = None
    """Condition that must be true in addition to `filter`."""
    limit: int | None = None
    offset: int | None = None
    fragments: tuple[int, ...] | None = None
    batch_rows: int | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    verify_checksums: bool = False
    """Whether the server checks the pages that it reads, whatever it is set to."""


@dataclass(frozen=True)
class Target:
    """A version of a dataset: what its commands begin with. Can be pickled."""

    name: str
    version: int
    branch: str | None = None
    identity: str | None = None
    """Identity with which the server refuses another dataset under the same name; None from servers
    without it.
    """

    def fields(self) -> dict[str, Any]:
        """Return the fields of a command that name it."""
        fields: dict[str, Any] = {"dataset": self.name, "version": self.version}
        named = {"branch": self.branch, "identity": self.identity}
        return fields | {name: value for name, value in named.items() if value}


@dataclass(frozen=True)
class Snapshot:
    """A version of a dataset as the server described it. Can be pickled.

    What a `RemoteDataset` stands on, and all that engines need that plan and spread reads themselves. It does
    without `pyarrow.dataset`, which takes pandas along: half of what a Python worker of Spark had to load.
    """

    servers: Servers
    target: Target
    schema: pa.Schema
    """All columns, as scans return them: blobs as their descriptors."""
    stored_schema: pa.Schema
    """All columns, as rows that are appended have them: blobs as values."""
    num_rows: int
    options: ReadOptions

    def scanner(self, selection: Selection) -> RemoteScanner:
        """Return a scan, which is planned and read when its rows are asked for."""
        return RemoteScanner(self, selection)

    def read_endpoint(self, endpoint: flight.FlightEndpoint, first: int = 0) -> Iterator[pa.RecordBatch]:
        """Return the rows of one endpoint of a plan, see `RemoteDataset.read_endpoint`."""
        return read_endpoint(self.servers, endpoint, first)


class RemoteScanner:
    """Rows and columns of one version of a dataset. Every call of a `to_` method reads them again."""

    def __init__(self, snapshot: Snapshot, selection: Selection) -> None:
        """Prepare to read `selection`; nothing is sent yet."""
        self._snapshot = snapshot
        self._servers = snapshot.servers
        self._target = snapshot.target
        self._schema = snapshot.schema
        self._selection = selection

    def __reduce__(self) -> tuple[type[RemoteScanner], tuple[Snapshot, Selection]]:
        """Pickle what is read. The plan is asked for again: its tickets expire."""
        return RemoteScanner, (self._snapshot, self._selection)

    def __repr__(self) -> str:
        fields = vars(self._selection).items()
        chosen = {name: value for name, value in fields if value is not None and value is not False}
        details = "".join(f", {name}={value}" for name, value in chosen.items())
        return f"RemoteScanner({self._target.name!r}, version={self._target.version}{details})"

    @property
    def dataset_schema(self) -> pa.Schema:
        """All columns of the dataset, as scans return them."""
        return self._schema

    @cached_property
    def projected_schema(self) -> pa.Schema:
        """The columns of the result.

        Raises:
            InvalidInputError: a column that does not exist, an expression or condition that cannot be used.
        """
        schema = self.plan.schema
        return pa.schema([schema.field(position) for position in self._wanted], schema.metadata)

    @cached_property
    def plan(self) -> flight.FlightInfo:
        """The plan of the server: endpoints, rows if they are known, and the number of pages that it will
        not read.

        Raises:
            LanceError: see `projected_schema`; and the dataset or the server may be gone.
        """
        descriptor = flight.FlightDescriptor.for_command(to_json({"scan": self._command()}))

        def run(server: Server) -> flight.FlightInfo:
            return server.client.get_flight_info(descriptor, server.options())

        return self._servers.call(run)

    @property
    def statistics(self) -> dict[str, Any]:
        """Return the statistics of the plan: fragments and pages that are not read."""
        return dict(json.loads(self.plan.app_metadata))

    def explain(self) -> dict[str, Any]:
        """Per fragment and column how many pages are planned and pruned, and by what."""
        return self._servers.action("explain_scan", {"scan": self._command()}, repeat=True)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows as they come, in dataset order; memory is bounded. Closing the iterator ends the
        streams.

        Raises:
            LanceError: what the server reported.
        """
        batches = iter(
            ParallelReader(
                self._servers,
                self.plan.endpoints,
                parallel=1 if self._limit_is_ours else self._snapshot.options.parallel,
                max_bytes=self._snapshot.options.max_bytes,
            )
        )
        if self._filter.rest is not None:
            batches = _passing(batches, self._filter, self._wanted)
        return _limited(batches, self._selection) if self._limit_is_ours else batches

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a reader."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows for whatever takes streams of Arrow: `pa.table(scanner)`,
        `pl.DataFrame(scanner)`.
        """
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_table(self, *, progress: bool | None = None) -> pa.Table:
        """All rows.

        Args:
            progress: show a bar while rows arrive; None shows one on terminals when it takes longer.
        """
        total = self.plan.total_records
        with Progress.of_rows(f"read {self._target.name}", total if total >= 0 else None, progress) as bar:
            batches = []
            for batch in self.to_batches():
                batches.append(batch)
                bar.add(batch.num_rows)
        return pa.Table.from_batches(batches, self.projected_schema)

    def to_pandas(self, *, progress: bool | None = None, **arguments: Any) -> pd.DataFrame:
        """All rows as a pandas frame; `progress` as in `to_table`, arguments of `pyarrow.Table.to_pandas`."""
        return self.to_table(progress=progress).to_pandas(**arguments)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows."""
        limit = self._selection.limit
        fewer = num_rows if limit is None else min(num_rows, limit)
        return self._with(limit=fewer).to_table()

    def take(self, indices: Any) -> pa.Table:
        """Rows of the result by position.

        Raises:
            InvalidInputError: a position is out of range.
        """
        try:
            return self.to_table().take(indices)
        except IndexError as error:
            raise InvalidInputError(f"indices: {error}") from None

    def count_rows(self) -> int:
        """Return the number of rows; columns are not transferred."""
        selection = self._selection
        plain = self._filter.substrait is None and self._filter.rest is None
        if plain and selection.limit is None and selection.offset is None and selection.fragments is None:
            body = {**self._target.fields(), "filter": selection.filter}
            return int(self._servers.action("count_rows", body, repeat=True)["count"])
        scanner = self._with(columns=(), with_row_id=False, with_row_address=False)
        if not scanner._limit_is_ours and self._filter.rest is None and scanner.plan.total_records >= 0:
            return int(scanner.plan.total_records)
        return sum(batch.num_rows for batch in scanner.to_batches())

    def _with(self, **changes: Any) -> RemoteScanner:
        return RemoteScanner(self._snapshot, replace(self._selection, **changes))

    @cached_property
    def _filter(self) -> Filter:
        selection = self._selection
        if selection.condition is None:
            return Filter()
        if selection.filter is not None:  # a command has one filter
            return filter_here(selection.condition, self._schema)
        return split_filter(selection.condition, self._schema)

    @property
    def _limit_is_ours(self) -> bool:
        """Whether rows are counted here, since the server does not know which pass."""
        selection = self._selection
        return self._filter.rest is not None and (selection.limit, selection.offset) != (None, None)

    @property
    def _wanted(self) -> list[int]:
        """Positions of the result's columns: what only our part of the filter needs comes after the columns
        that were asked for, and before those of row ids and addresses.
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
            # Under the names of the dataset these could hide computed columns of the same name.
            clash = set(self._filter.rest_columns) & set(selection.columns)
            if clash:
                raise InvalidInputError(
                    f"column {min(clash)!r} is computed, and the filter needs the original"
                )
            return self._filter.rest_columns
        return tuple(name for name in self._filter.rest_columns if name not in selection.columns)

    def _command(self) -> dict[str, Any]:
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
        }
        return {name: value for name, value in given.items() if value is not None}


def _passing(batches: Iterator[pa.RecordBatch], part: Filter, wanted: list[int]) -> Iterator[pa.RecordBatch]:
    """Yield the rows for which our part of the filter holds, without the columns that only it needs."""
    try:
        for batch in batches:
            kept = passing_rows(part, batch)
            if kept.num_rows:
                yield kept if kept.num_columns == len(wanted) else kept.select(wanted)
    finally:
        batches.close()  # type: ignore[attr-defined]  # of a generator


def _limited(batches: Iterator[pa.RecordBatch], selection: Selection) -> Iterator[pa.RecordBatch]:
    """Yield the rows from `offset` on, `limit` at most."""
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
