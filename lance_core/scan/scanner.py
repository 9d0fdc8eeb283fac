"""A scan as a caller holds it: asked for once, run as often as wanted."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_core.cache_use import CacheUse
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.scan.plan.bind import bind_columns, bind_filter
from lance_core.scan.plan.options import DEFAULT_BATCH_BYTES, ColumnOrdering, ScanOptions
from lance_core.scan.plan.projection import Projection, project
from lance_core.scan.plan.scan_plan import FragmentScan, plan_scan
from lance_core.scan.rows import plan_batches, plan_table
from lance_core.scan.run.execute import count_matching, scan_projection
from lance_core.scan.run.stored_scan import scan_stored
from lance_core.scan.session import default_session, session_of
from lance_core.scan.take.row_taker import RowTaker
from lance_core.schema import Field, Schema
from lance_core.schema.paths import check_names
from lance_core.table.snapshot import Snapshot, kept_snapshots

if TYPE_CHECKING:
    import pandas as pd

    from lance_core.scan.explain import Explanation

# A caller who asks for batches of so many rows gets them, unless they are larger than this.
_BATCH_BYTES_BY_ROWS = 128 << 20

# Rows of a batch of the reference, where the caller gives no number.
_STRICT_BATCH_ROWS = 8192

# Arguments of the reference that change how a scan runs, not its result. They have no effect here.
_HINTS = frozenset(
    {
        "batch_readahead",
        "fragment_readahead",
        "io_buffer_size",
        "late_materialization",
        "prefilter",
        "scan_in_order",
        "use_scalar_index",
        "use_stats",
    }
)
# Arguments of the reference that change the result of a scan.
_UNSUPPORTED = frozenset(
    {
        "disable_scoring_autoprojection",
        "fast_search",
        "full_text_query",
        "index_segments",
        "nearest",
        "row_addr_allowlist",
        "row_addr_blocklist",
        "scan_stats_callback",
    }
)


class LanceScanner:
    """One scan of one version of a dataset."""

    def __init__(self, snapshot: Snapshot, options: ScanOptions) -> None:
        self._snapshot = snapshot
        self._options = options
        self._plan = plan_scan(snapshot, options)
        session = session_of(snapshot)
        self._files, self._budget = session.files_for(options), session.budget

    def __reduce__(self) -> tuple[type[LanceScanner], tuple[Snapshot, ScanOptions]]:
        return LanceScanner, (self._snapshot, self._options)

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
        return count_matching(self._snapshot, self._plan, self._budget, self._files)

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

        return explain_text(self.explain(), verbose=verbose)

    def analyze_plan(self) -> str:
        """Run the scan. Return the pages that were read of each fragment and column, as text."""
        from lance_core.scan.explain import explain_text

        return explain_text(self.explain(analyze=True), verbose=True)

    def verified(self) -> LanceScanner:
        """Return the same scan with the pages that it reads checked; see `ScanOptions.verify_checksums`."""
        return LanceScanner(self._snapshot, replace(self._options, verify_checksums=True))

    def to_table(self) -> pa.Table:
        """Return all rows as a table."""
        return plan_table(self._snapshot, self._plan, self._budget, self._files)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows as batches; a bounded amount is decoded ahead of the caller."""
        return plan_batches(self._snapshot, self._plan, self._budget, self._files)

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
            kwargs: Arguments of `pyarrow.Table.to_pandas`.

        Raises:
            InvalidInputError: `blob_mode` is none of the three.
        """
        from lance_core.scan.pandas_frame import pandas_frame  # late: it is rarely needed

        return pandas_frame(self._snapshot, self._options, blob_mode, **kwargs)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first `num_rows` rows of the scan."""
        limit = self._options.limit
        fewer = num_rows if limit is None else min(num_rows, limit)
        return LanceScanner(self._snapshot, replace(self._options, limit=fewer)).to_table()


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


def scan_options(
    schema: Schema,
    columns: list[str] | dict[str, str] | None = None,
    filter: Any = None,
    limit: int | None = None,
    offset: int | None = None,
    *,
    batch_size: int | None = None,
    batch_size_bytes: int | None = None,
    with_row_id: bool | None = None,
    with_row_address: bool | None = None,
    include_deleted_rows: bool | None = None,
    order_by: Sequence[str | ColumnOrdering] | None = None,
    strict_batch_size: bool | None = None,
    fragments: tuple[int, ...] | None = None,
    blob_handling: str | None = None,
    substrait_filter: bytes | None = None,
    verify_checksums: bool = False,
    **others: Any,
) -> ScanOptions:
    """Return the reference's scan arguments as options of ours.

    Args:
        schema: The columns of the table.
        columns: Names or dotted paths, or SQL expressions by name; `None` means all columns, an empty list
            rows without columns.
        filter: SQL text or a `pyarrow.compute.Expression`: the condition that returned rows meet.
        batch_size: Most rows of a batch, deleted rows not counted.
        include_deleted_rows: Return deleted rows that are still in the data files, with null row ids.
        order_by: Columns to sort the rows by; a name means ascending and nulls last.
        strict_batch_size: Whether all batches but the last have exactly `batch_size` rows (8192 if not
            given).
        fragments: Ids of the fragments to read, in this order.
        batch_size_bytes: Most bytes of a batch, 2 MiB unless `batch_size` is given.
        blob_handling: "blobs_descriptions" (the default) and "all_descriptions" give the descriptors of
            blobs, "all_binary" their values.
        substrait_filter: The filter as the bytes of a Substrait ExtendedExpression.
        verify_checksums: Check the pages that are read; see `ScanOptions`. An argument of this package.
        others: Further arguments of the reference; left at `None`, or hints that change no result.

    Raises:
        UnsupportedFeatureError: an argument of the reference that this release does not have; the message
            names it.
        TypeError: an argument that the reference does not have either, or a value of the wrong type.
        InvalidInputError: a value is out of range, or an expression is invalid.
    """
    for name, value in others.items():
        if name in _UNSUPPORTED:
            if value is not None and value is not False:
                raise UnsupportedFeatureError(f"argument {name!r} is not supported yet")
        elif name not in _HINTS:
            raise TypeError(f"unexpected argument {name!r}")
    if strict_batch_size:
        if batch_size_bytes is not None:
            raise InvalidInputError(
                "strict_batch_size cannot be combined with batch_size_bytes", found=batch_size_bytes
            )
        batch_size = _STRICT_BATCH_ROWS if batch_size is None else batch_size
    if batch_size_bytes is None:
        batch_size_bytes = DEFAULT_BATCH_BYTES if batch_size is None else _BATCH_BYTES_BY_ROWS
    return ScanOptions(
        columns=_column_names(columns),
        computed=bind_columns(schema, columns) if isinstance(columns, dict) else None,
        filter=bind_filter(schema, filter, substrait_filter),
        limit=_integer("limit", limit),
        offset=_integer("offset", offset),
        order_by=_orderings(order_by),
        strict_batch_size=bool(strict_batch_size),
        fragments=fragments,
        include_deleted_rows=bool(include_deleted_rows),
        with_row_id=bool(with_row_id),
        with_row_address=bool(with_row_address),
        batch_rows=_integer("batch_size", batch_size),
        batch_bytes=_integer("batch_size_bytes", batch_size_bytes),
        blob_handling=blob_handling or "blobs_descriptions",
        verify_checksums=verify_checksums,
    )


def _orderings(order_by: Sequence[str | ColumnOrdering] | None) -> tuple[ColumnOrdering, ...]:
    """Return the columns to sort by. A column that is named again decides nothing, so it is left out."""
    first: dict[str, ColumnOrdering] = {}
    for item in order_by or ():
        ordering = ColumnOrdering(item) if isinstance(item, str) else item
        if not isinstance(ordering, ColumnOrdering):
            raise TypeError(f"order_by must hold names or ColumnOrdering objects, got {type(item).__name__}")
        first.setdefault(ordering.column_name, ordering)
    return tuple(first.values())


def pandas_arguments(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split arguments into those of `scan_options` and those of `LanceScanner.to_pandas`."""
    names = {*signature(scan_options).parameters, *_HINTS, *_UNSUPPORTED}
    scan = {name: value for name, value in arguments.items() if name in names}
    return scan, {name: value for name, value in arguments.items() if name not in names}


def _integer(name: str, value: Any) -> Any:
    """Return an integer argument of any integer type as an int; None if it was left out."""
    try:
        return None if value is None else operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None


def row_taker(snapshot: Snapshot, columns: list[str] | dict[str, str] | None) -> RowTaker:
    """Return the taker of single rows of a snapshot; `columns` and errors are those of `scan_options`."""
    session = session_of(snapshot)
    if isinstance(columns, dict):
        return session.taker(snapshot, None, bind_columns(snapshot.manifest.schema, columns))
    return session.taker(snapshot, _column_names(columns))


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


def _column_names(columns: list[str] | dict[str, str] | None) -> tuple[str, ...] | None:
    """Return the names of a list; a dict has none."""
    if columns is None or isinstance(columns, dict):
        return None
    check_names("columns", columns, (list,))  # as the reference
    return tuple(columns)
