"""Reads of a snapshot by plans and keys, with the files, the memory and the settings of its session."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.expressions.tree import Expression
from lance_core.scan.plan.bind import bind_columns
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import project, project_taken
from lance_core.scan.plan.scan_plan import ScanPlan
from lance_core.scan.rows import count_plan_rows, plan_runs
from lance_core.scan.run.batch_cutter import BatchCutter, BatchRun
from lance_core.scan.session import session_of
from lance_core.scan.take.keys import Keys, as_keys
from lance_core.scan.take.row_taker import RowTaker, join_batches
from lance_core.schema import Schema
from lance_core.table.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_core.scan.explain import Explanation, PrunedPlan
    from lance_core.scan.plan.aggregation import Aggregation
    from lance_core.scan.plan.nearest import NearestQuery


def stream_plan(snapshot: Snapshot, plan: ScanPlan) -> Generator[BatchRun, None, None]:
    """Yield the batches of a plan; see `lance_core.scan.rows.plan_runs`."""
    session = session_of(snapshot)
    return plan_runs(snapshot, plan, session.budget, session.files_for(plan.options))


def count_plan(snapshot: Snapshot, plan: ScanPlan) -> int:
    """Return the number of rows of a plan; see `lance_core.scan.rows.count_plan_rows`."""
    session = session_of(snapshot)
    return count_plan_rows(snapshot, plan, session.budget, session.files_for(plan.options))


def aggregate_plan(
    snapshot: Snapshot,
    plan: ScanPlan,
    aggregation: Aggregation,
    *,
    max_bytes: int,
    check: Callable[[], None],
) -> Generator[BatchRun, None, None]:
    """Yield the rows of an aggregation in batches of at most 2 MiB; there is always one.

    Arguments and errors are those of `lance_core.scan.aggregated.aggregate_rows`. Nothing is read before the
    first batch is requested.
    """
    from lance_core.scan.aggregated import aggregate_rows  # late: most streams return rows

    session = session_of(snapshot)
    files = session.files_for(plan.options)
    groups = aggregate_rows(
        snapshot, plan, aggregation, session.budget, files, max_bytes=max_bytes, check=check
    )
    columns = [column.combine_chunks() for column in groups.columns]
    rows = pa.RecordBatch.from_arrays(columns, schema=groups.schema)
    yield from BatchCutter(rows.schema, ScanOptions()).cut_rows(rows)


def prune_plan(snapshot: Snapshot, plan: ScanPlan) -> PrunedPlan:
    """Leave out the fragments in which no row matches; see `lance_core.scan.explain.prune_plan`."""
    from lance_core.scan.explain import prune_plan  # late, with all that filters need

    return prune_plan(snapshot, plan, session_of(snapshot).files_for(plan.options))


def explain_plan(snapshot: Snapshot, plan: ScanPlan, *, analyze: bool) -> Explanation:
    """Return the pages that a plan reads; see `lance_core.scan.explain.explain`."""
    from lance_core.scan.explain import explain  # late, as above

    session = session_of(snapshot)
    return explain(snapshot, plan, session.files_for(plan.options), session.budget, analyze=analyze)


class BlobStream:
    """Bytes of chosen blobs of one column of a snapshot, as batches of parts.

    Attributes:
        schema: Schema of the batches; see `lance_core.scan.take.blob_parts`.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        column: str,
        *,
        with_size: bool = False,
        with_row_address: bool = False,
        guard: Expression | None = None,
    ) -> None:
        """Find the column; errors are those of `BlobTaker`.

        Args:
            snapshot: the version of the table.
            column: name or dotted path of a blob column.
            with_size, with_row_address: those of `blob_runs`.
            guard: condition of the rows that exist for the caller; see `guarded_addresses`.
        """
        from lance_core.scan.take.blob_parts import part_schema  # late: few streams have blobs
        from lance_core.scan.take.blobs import BlobTaker

        session = session_of(snapshot)
        self._budget = session.budget
        self._guard = guard
        self._snapshot = snapshot
        self._taker = BlobTaker(snapshot, session.files, column)
        self._added = {"with_size": with_size, "with_row_address": with_row_address}
        self.schema = part_schema(**self._added)

    def batch_runs(
        self, kind: str, keys: Keys, ranges: Sequence[tuple[int, int | None]] | None
    ) -> Generator[BatchRun, None, None]:
        """Yield the batches; see `blob_runs`. Nothing is read before the first batch is requested.

        `kind` is one of `KEY_COLUMNS`. Errors are those of `blob_runs` and `BlobTaker.addresses`.
        """
        from lance_core.scan.take.blob_parts import blob_runs

        addresses = self._addresses(kind, keys)
        yield from blob_runs(self._taker, keys, addresses, ranges, self._budget, **self._added)

    def _addresses(self, kind: str, keys: Keys) -> Keys:
        if self._guard is None:
            return self._taker.addresses(kind, keys)
        from lance_core.scan.guarded import guarded_addresses  # late, with all that filters need
        from lance_core.scan.take.blobs import check_found

        addresses = guarded_addresses(self._snapshot, self._guard, kind, keys)
        check_found(self._snapshot, kind, keys, addresses)
        return addresses


class SearchReads:
    """Searches of one snapshot that differ in their query vectors only, planned once.

    Attributes:
        schema: Schema of the rows.
    """

    __slots__ = ("_budget", "_files", "_plan", "_snapshot", "schema")

    def __init__(self, snapshot: Snapshot, plan: ScanPlan) -> None:
        """Search with the options of a plan, which has a search of several queries."""
        session = session_of(snapshot)
        self._budget = session.budget
        self._files = session.files_for(plan.options)
        self._snapshot = snapshot
        self._plan = plan
        self.schema = plan.schema

    @contextmanager
    def held_batch(self, query: NearestQuery, max_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a search as one batch.

        The queries and the rows are memory of the session while the block runs.

        Args:
            query: The search of the plan, made `with_queries`.
            max_bytes: Most bytes of the rows.

        Raises:
            InvalidInputError: The rows are larger than `max_bytes`.
            LanceError: Something cannot be read.
        """
        plan = replace(self._plan, options=replace(self._plan.options, nearest=query))
        parts: list[pa.RecordBatch] = []
        found = plan_runs(self._snapshot, plan, self._budget, self._files)
        require = self._budget.require
        with require(len(query.queries)), require(0) as reservation, closing(found) as runs:
            for run in runs:
                parts.append(run.rows)
                held = reservation.num_bytes + run.rows.get_total_buffer_size()
                reservation.resize(held)
                if held > max_bytes:
                    raise InvalidInputError(
                        "the rows of one answer are too large: send fewer queries, or ask for them by DoGet",
                        expected=f"at most {max_bytes} bytes",
                        found=f"{held} for the first {sum(each.num_rows for each in parts)} rows",
                    )
            yield parts[0] if len(parts) == 1 else join_batches(parts, self.schema)


class TakeReads:
    """Takes of rows of one snapshot, projected to some columns.

    Attributes:
        schema: Schema of the rows.
        has_dictionaries: Whether the schema has a dictionary type, at any depth.
    """

    __slots__ = ("_budget", "_guard", "_snapshot", "_taker")

    def __init__(
        self,
        snapshot: Snapshot,
        columns: tuple[str, ...] | Mapping[str, str] | None,
        blob_handling: str = "blobs_descriptions",
        *,
        visible: Schema | None = None,
        guard: Expression | None = None,
    ) -> None:
        """Project the rows to names, or to SQL expressions by name; errors are those of a scan.

        Args:
            snapshot: the version of the table.
            columns: the columns.
            blob_handling: that of `ScanOptions`.
            visible: the part of the schema that exists for the caller; None: all of it.
            guard: condition of the rows that exist for the caller; see `guarded_addresses`.
        """
        session = session_of(snapshot)
        self._budget = session.budget
        self._guard = guard
        self._snapshot = snapshot
        schema = snapshot.manifest.schema if visible is None else visible
        if isinstance(columns, Mapping):
            computed = bind_columns(schema, columns, blob_handling=blob_handling)
            options = ScanOptions(computed=computed, blob_handling=blob_handling)
            self._taker = RowTaker(snapshot, project(schema, options), session.files)
        elif visible is None:
            self._taker = session.taker(snapshot, columns, blob_handling=blob_handling)
        else:
            projection = project_taken(schema, columns, blob_handling)
            self._taker = RowTaker(snapshot, projection, session.files)

    @property
    def schema(self) -> pa.Schema:
        return self._taker.schema

    @property
    def has_dictionaries(self) -> bool:
        return self._taker.has_dictionaries

    def batch_runs(self, kind: str, keys: Keys) -> Generator[BatchRun, None, None]:
        """Yield the rows of keys in batches of the sizes that a scan gives; `kind` is one of `KEY_COLUMNS`.

        Nothing is read before the first batch is requested.

        Raises:
            LanceError: a key is out of range, or something cannot be read.
        """
        yield from self._taker.batch_runs(self._addresses(kind, keys), self._budget)

    def held_batch(self, kind: str, keys: pa.Array, max_bytes: int) -> AbstractContextManager[pa.RecordBatch]:
        """Return the rows of keys as one batch, which counts as memory of the session while the block runs.

        Raises:
            InvalidInputError: a key is negative or out of range, or the rows are larger than `max_bytes`.
            LanceError: something cannot be read.
        """
        addresses = self._addresses(kind, as_keys(keys, kind))
        return self._taker.held_batch(addresses, self._budget, max_bytes)

    def _addresses(self, kind: str, keys: Keys) -> Keys:
        if self._guard is None:
            return self._taker.addresses.by(kind)(keys)
        from lance_core.scan.guarded import guarded_addresses  # late, with all that filters need

        return guarded_addresses(self._snapshot, self._guard, kind, keys)
