"""A scan as a caller holds it: asked for once, run as often as wanted."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_core.arguments import named, named_arguments
from lance_core.kernels import io_counts
from lance_core.process.counters import CacheUse
from lance_core.scan.arguments import column_names
from lance_core.scan.plan.bind import bind_columns
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import ROW_ADDRESS, Projection, project
from lance_core.scan.plan.scan_plan import FragmentScan, plan_scan
from lance_core.scan.rows import count_plan_rows, plan_addresses, plan_batches, plan_table
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.execute import scan_projection
from lance_core.scan.run.stored_scan import scan_stored
from lance_core.scan.run.strategy import Strategy
from lance_core.scan.session import default_session, session_of
from lance_core.scan.statistics import Callback, reported, reported_batches
from lance_core.scan.take.row_taker import RowTaker
from lance_core.schema import Field
from lance_core.schema.arrow_values import numbers_of
from lance_core.table.row_ids import RowIds
from lance_core.table.snapshot import Snapshot, kept_snapshots

if TYPE_CHECKING:
    import pandas as pd

    from lance_core.scan.explain import Explanation

_FEW_ROWS = 1 << 12
"""Most rows that are taken one by one. With more, a scan is faster."""
_TAKEN_BYTES = 8 << 20
"""Bytes of rows that are taken together."""


@named_arguments
class LanceScanner:
    """One scan of one version of a dataset."""

    def __init__(self, snapshot: Snapshot, options: ScanOptions, callback: Callback | None = None) -> None:
        self._snapshot = snapshot
        self._options = options
        self._callback = callback
        self._plan = plan_scan(snapshot, options)
        session = session_of(snapshot)
        self._files, self._budget = session.files_for(options), session.budget

    def __reduce__(self) -> tuple[type[LanceScanner], tuple[Snapshot, ScanOptions, Callback | None]]:
        return LanceScanner, (self._snapshot, self._options, self._callback)

    @property
    def projected_schema(self) -> pa.Schema:
        """Schema of the returned rows."""
        return self._plan.schema

    @property
    def dataset_schema(self) -> pa.Schema:
        """Schema of the dataset that is scanned."""
        return self._snapshot.manifest.schema.to_arrow()

    def count_rows(self) -> int:
        """Return the number of rows of the scan. With a filter, this decodes only columns of the filter."""
        return count_plan_rows(self._snapshot, self._plan, self._budget, self._files)

    def aggregate(
        self, aggregates: Mapping[str, str], group_by: Sequence[str] | Mapping[str, str] | None = None
    ) -> pa.Table:
        """Return one row per group of the rows of the scan. An addition to the names of the reference.

        Groups come in the order of their first rows. Filter, limit, offset and fragments of the scan count,
        its columns do not. Nulls, NaN and the types of sums are those of SQL in the reference; see
        docs/filters.md.

        Args:
            aggregates: SQL by name: `count(*)`, or `count`, `count(DISTINCT ...)`, `sum`, `min`, `max`, `avg`
                or `mean` of an expression.
            group_by: Names of columns or SQL expressions, or SQL expressions by name. Without any, the result
                has one row.

        Raises:
            InvalidInputError: An expression is not valid, or a sum does not fit its type.
            UnsupportedFeatureError: A sum of decimals with more than 57 digits.
            TypeError: A name or a value is no text.
        """
        from lance_core.scan.aggregated import aggregate_rows  # late: most scans return rows
        from lance_core.scan.plan.aggregation import bind_aggregation, plan_aggregation

        aggregation = bind_aggregation(self._snapshot.manifest.schema, aggregates, group_by)
        plan = plan_aggregation(self._snapshot, aggregation, self._options)
        return aggregate_rows(self._snapshot, plan, aggregation, self._budget, self._files)

    def explain(self, *, analyze: bool = False) -> Explanation:
        """Return the pages that the scan reads of each fragment and column, and those that statistics rule
        out.

        Args:
            analyze: Run the scan, and add the pages that were read.
        """
        from lance_core.scan.explain import explain  # late, with all that filters need

        return explain(self._snapshot, self._plan, self._files, self._budget, analyze=analyze)

    def explain_plan(self, verbose: bool = False) -> str:
        """Return the text of `explain` in a few lines; with `verbose` each fragment and column."""
        from lance_core.scan.explain import explain_text

        return explain_text(self.explain(), verbose=verbose, order_by=self._plan.options.order_by)

    def analyze_plan(self, count_rows: bool = False) -> str:
        """Run the scan. Return the pages that were read of each fragment and column, as text.

        The bytes and reads of files are those of the whole process while the scan ran.

        Args:
            count_rows: Run what `count_rows` runs instead, which reads the columns of the filter only, and
                nothing where indices answer the whole filter.
        """
        from lance_core.scan.explain import FileReads, explain_text

        scan = self._without_columns() if count_rows else self
        before = io_counts()
        explained = scan.explain(analyze=True)
        num_reads, num_bytes = (after - then for after, then in zip(io_counts()[:2], before[:2], strict=True))
        order_by = scan._plan.options.order_by
        return explain_text(explained, verbose=True, order_by=order_by, reads=FileReads(num_reads, num_bytes))

    def _without_columns(self) -> LanceScanner:
        options = self._options
        with_row_id = options.include_deleted_rows  # which needs row ids
        without = replace(
            options, columns=(), computed=None, with_row_id=with_row_id, with_row_address=False, order_by=()
        )
        return LanceScanner(self._snapshot, without)

    def verified(self) -> LanceScanner:
        """Return the same scan with the pages that it reads checked; see `ScanOptions.verify_checksums`."""
        options = replace(self._options, verify_checksums=True)
        return LanceScanner(self._snapshot, options, self._callback)

    def to_table(self) -> pa.Table:
        """Return all rows as a table."""
        if self._callback is None:
            return plan_table(self._snapshot, self._plan, self._budget, self._files)
        with reported(self._callback) as tally:
            table = plan_table(self._snapshot, self._plan, self._budget, self._files)
            tally.add("output_rows", table.num_rows)
        return table

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows as batches; a bounded amount is decoded ahead of the caller."""
        batches = plan_batches(self._snapshot, self._plan, self._budget, self._files)
        return batches if self._callback is None else reported_batches(batches, self._callback)

    def fragment_batches(self, fragment_id: int) -> Iterator[pa.RecordBatch]:
        """Return the rows of one fragment, from a scan without a filter. Calls share one projection."""
        rows = self._snapshot.manifest.fragment_by_id[fragment_id].num_rows
        plan = self._plan.with_fragment_scans([FragmentScan(fragment_id, 0, rows)] if rows else [])
        return scan_projection(self._snapshot, plan, self._projection, self._budget, self._files)

    @cached_property
    def _projection(self) -> Projection:
        return project(self._snapshot.manifest.schema, self._options)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches as an Arrow stream."""
        return pa.RecordBatchReader.from_batches(self._plan.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as a stream of Arrow's PyCapsule interface: DuckDB, Polars and PyArrow read it."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(self, *, blob_mode: str = "lazy", **kwargs: Any) -> pd.DataFrame:
        """Return all rows as a pandas frame.

        Args:
            blob_mode: "lazy" gives blobs as `BlobFile`, which are read on demand, "bytes" as bytes, and
                "descriptions" as descriptors. A scan with `blob_handling="all_binary"` has bytes anyway.
                With "bytes", the filter sees blobs as in such a scan.
            kwargs: Arguments of `pyarrow.Table.to_pandas`.

        Raises:
            InvalidInputError: `blob_mode` is none of the three.
        """
        from lance_core.scan.pandas_frame import pandas_frame  # late: it is rarely needed

        if self._callback is None:
            return pandas_frame(self._snapshot, self._options, blob_mode, **kwargs)
        with reported(self._callback) as tally:
            frame = pandas_frame(self._snapshot, self._options, blob_mode, **kwargs)
            tally.add("output_rows", len(frame))
        return frame

    def head(self, num_rows: int) -> pa.Table:
        """Return the first `num_rows` rows of the scan."""
        limit = self._options.limit
        fewer = num_rows if limit is None else min(num_rows, limit)
        return LanceScanner(self._snapshot, replace(self._options, limit=fewer), self._callback).to_table()


@named
def set_cache_directory(path: str | os.PathLike[str] | None, max_bytes: int = 256 << 20) -> None:
    """Keep the statistics that filters gather in a directory, for other processes and later ones.

    Args:
        path: The directory, made when it is first needed. Processes may share it, and its files may be
            deleted at any time. `None`: statistics are kept in the memory of this process only, which is the
            default.
        max_bytes: About how many bytes the directory may have. The files that were not used for longest are
            deleted first.
    """
    default_session.files.statistics.use_directory(path, max_bytes)


def cache_stats() -> dict[str, CacheUse]:
    """Return the caches of this process: "manifests" of local tables, opened "files", "statistics" of
    columns.

    Footers, descriptions of columns, dictionaries and repetition indices count as bytes of their files.
    """
    return {"manifests": kept_snapshots.use(), **default_session.cache_use()}


def row_taker(snapshot: Snapshot, columns: list[str] | dict[str, str] | None) -> RowTaker:
    """Return the taker of single rows of a snapshot; `columns` and errors are those of `scan_options`."""
    session = session_of(snapshot)
    if isinstance(columns, dict):
        return session.taker(snapshot, None, bind_columns(snapshot.manifest.schema, columns))
    return session.taker(snapshot, column_names(columns))


def bounded_batches(
    snapshot: Snapshot, options: ScanOptions, most_bytes: int, *, decodes_ahead: bool = True
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a scan that decodes at most about `most_bytes` ahead of its reader.

    Without `decodes_ahead`, the calling thread decodes local rows when they are asked for.
    """
    plan, session = plan_scan(snapshot, options), session_of(snapshot)
    budget = MemoryBudget(most_bytes, session.budget)
    strategy = Strategy(decodes_ahead=decodes_ahead)
    return plan_batches(snapshot, plan, budget, session.files_for(options), strategy)


def address_batches(snapshot: Snapshot, options: ScanOptions) -> Generator[RowIds, None, None]:
    """Yield the addresses of the rows of a scan with row addresses and without a limit, ascending in each
    array; see `plan_addresses`.
    """
    from lance_core.scan.run.filtering.index_masks import index_masks  # late: few tables have indices

    plan = plan_scan(snapshot, options)
    session = session_of(snapshot)
    files = session.files_for(options)
    masks = index_masks(snapshot, options, files)
    if masks is not None:
        yield from plan_addresses(snapshot, plan, masks, session.budget, files)
        return
    for batch in plan_batches(snapshot, plan, session.budget, files):
        yield numbers_of(batch.column(ROW_ADDRESS))


def matching_batches(snapshot: Snapshot, options: ScanOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a scan without a limit, as batches of any size.

    If indices answer a part of the filter and few rows match, these rows are taken one by one, so that
    nothing but the columns of the filter is opened in other fragments.
    """
    if options.filter is not None and snapshot.manifest.searchable_segments:
        found = _few_addresses(snapshot, options)
        if found is not None:
            yield from batches_at(snapshot, options, found)
            return
    plan, session = plan_scan(snapshot, options), session_of(snapshot)
    yield from plan_batches(snapshot, plan, session.budget, session.files_for(options))


def _few_addresses(snapshot: Snapshot, options: ScanOptions) -> RowIds | None:
    """Return the addresses of the rows of a scan, ascending; None if they are many, or no index helps."""
    from lance_core.scan.run.filtering.index_masks import index_masks  # late: few tables have indices

    if index_masks(snapshot, options, session_of(snapshot).files_for(options)) is None:
        return None
    rowless = replace(options, columns=(), computed=None, with_row_id=False, with_row_address=True)
    found, count = [np.empty(0, np.uint64)], 0
    with closing(address_batches(snapshot, rowless)) as batches:
        for addresses in batches:
            found.append(addresses)
            count += len(addresses)
            if count > _FEW_ROWS:
                return None
    return np.sort(np.concatenate(found))


def batches_at(snapshot: Snapshot, options: ScanOptions, addresses: RowIds) -> Iterator[pa.RecordBatch]:
    """Yield the rows at live addresses, in this order, with the columns that a scan with `options` has."""
    projection = project(snapshot.manifest.schema, options)
    taker = RowTaker(snapshot, projection, session_of(snapshot).files_for(options))
    return taker.batches(addresses, _TAKEN_BYTES)


def stored_batches(
    snapshot: Snapshot,
    fragment_ids: Iterable[int],
    fields: Sequence[Field],
    *,
    batch_rows: int | None = None,
    verify_checksums: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Return the rows of fragments in the form that data files hold; see
    `lance_core.scan.run.stored_scan.scan_stored`.
    """
    session = session_of(snapshot)
    files = session.files.verified() if verify_checksums else session.files
    return scan_stored(snapshot, fragment_ids, fields, session.budget, files, batch_rows=batch_rows)
