"""Arguments of scans, as callers of the reference write them."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

from lance_core.arguments import named
from lance_core.errors import ArgumentTypeError, InvalidInputError, UnsupportedFeatureError
from lance_core.scan.plan.bind import bind_columns, bind_filter
from lance_core.scan.plan.nearest import NearestQuery, score_fields
from lance_core.scan.plan.options import DEFAULT_BATCH_BYTES, ColumnOrdering, ScanOptions
from lance_core.scan.plan.projection import project
from lance_core.scan.plan.search_filter import VectorSearchQuery, divided_argument
from lance_core.schema import Schema
from lance_core.schema.paths import check_names

if TYPE_CHECKING:
    from uuid import UUID

    from lance_core.index.text.query import TextQuery
    from lance_core.scan.plan.fusion import Fusion

# Most bytes of a batch if the caller gives a number of rows: only larger batches have fewer rows.
_BATCH_BYTES_BY_ROWS = 128 << 20

# Rows of a batch if the caller gives no number, as in the reference.
_STRICT_BATCH_ROWS = 8192

# Arguments of the reference that change how a scan runs, not its result. They have no effect here.
_HINTS = frozenset(
    {
        "batch_readahead",
        "fragment_readahead",
        "io_buffer_size",
        "late_materialization",
        "scan_in_order",
        "use_stats",
    }
)
_LEAST = {"batch_readahead": 1, "fragment_readahead": 0, "io_buffer_size": 0}
# Arguments of the reference that change the result of a scan.
_UNSUPPORTED = frozenset(
    {
        "row_addr_allowlist",
        "row_addr_blocklist",
    }
)


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
    use_scalar_index: bool | None = None,
    fast_search: bool | None = None,
    verify_checksums: bool = False,
    nearest: Mapping[str, Any] | None = None,
    full_text_query: Any = None,
    hybrid: Mapping[str, Any] | None = None,
    search_filter: str | None = None,
    index_segments: Iterable[str | UUID] | None = None,
    prefilter: bool | None = None,
    disable_scoring_autoprojection: bool | None = None,
    **others: Any,
) -> ScanOptions:
    """Return the reference's scan arguments as options of ours.

    Args:
        schema: The columns of the table.
        columns: Names or dotted paths, or SQL expressions by name; `None` means all columns, an empty list
            rows without columns.
        filter: SQL text or a `pyarrow.compute.Expression`: the condition that returned rows meet. Beside
            `nearest` also a query of `lance_core.api.query`, and beside `full_text_query` a
            `VectorSearchQuery`: rows are returned only if this search finds them, too. A mapping may have
            both, as `expr_filter` and `search_filter`.
        batch_size: Most rows of a batch, deleted rows not counted.
        include_deleted_rows: Return deleted rows that are still in the data files, with null row ids.
        order_by: Columns to sort the rows by; a name means ascending and nulls last.
        strict_batch_size: Whether all batches but the last have exactly `batch_size` rows (8192 if not
            given).
        fragments: Ids of the fragments to read, in this order.
        batch_size_bytes: Most bytes of a batch, 2 MiB unless `batch_size` is given.
        blob_handling: "blobs_descriptions" (the default) and "all_descriptions" give the descriptors of
            blobs, "all_binary" their values. With "all_binary", filters and computed columns see a null where
            the value of a blob is null.
        substrait_filter: The filter as the bytes of a Substrait ExtendedExpression.
        use_scalar_index: Whether indices may find the rows for the filter; true if not given.
        fast_search: Whether fragments that an index does not cover are left out, if an index answers a part
            of the filter, or serves the search.
        verify_checksums: Check the pages that are read; see `ScanOptions`. An argument of this package.
        nearest: Return the rows with the nearest vectors instead: a mapping with `column`, `q` (a vector, or
            a list of vectors) and `k`, and the other arguments of the reference; see docs/vector-search.md.
        full_text_query: Return the rows that contain words instead: a text, a query of
            `lance_core.api.query` or its JSON object, or a mapping with one of these as `query` and names as
            `columns`; see docs/text-search.md.
        hybrid: The rule that joins the rows of both searches to one ranking: a mapping with `method`,
            `depth`, `weights` and `rank_constant`, all of which may be left out; see
            docs/vector-search.md. An argument of this package.
        search_filter: "vector" or "text": the search that only filters the rows of the other search, which
            ranks them. Another way to write a search as `filter`. An argument of this package.
        index_segments: Uuids of the segments of a vector index that find the rows of `nearest`. Only the rows
            that they cover are found, or those of `fragments`, if that is given.
        prefilter: Whether a search finds only rows that match the filter. Otherwise the filter applies to the
            rows that the search finds, and may name `_distance` or `_score`.
        disable_scoring_autoprojection: Whether the columns of a search, such as `_score`, are left out
            unless `columns` names them.
        others: Further arguments of the reference; left at `None`, or hints that change no result.

    Raises:
        UnsupportedFeatureError: an argument of the reference that this release does not have; the message
            names it.
        ArgumentTypeError: an argument that the reference does not have either, or a value of the wrong type.
        InvalidInputError: a value is out of range, or an expression is invalid.
    """
    _check_others(schema, others)
    condition, search = divided_argument(filter)
    if search is not None and search_filter is not None:
        raise InvalidInputError("give a search as filter, or search_filter", found=search_filter)
    if isinstance(search, VectorSearchQuery):
        if nearest is not None:
            raise InvalidInputError("a vector query cannot be the filter of nearest, only of full_text_query")
        nearest, search_filter = search.inner(), "vector"
    elif search is not None:
        if full_text_query is not None:
            raise InvalidInputError(
                "a full text query cannot be the filter of full_text_query, only of nearest"
            )
        full_text_query, search_filter = search, "text"
    if strict_batch_size:
        if batch_size_bytes is not None:
            raise InvalidInputError(
                "strict_batch_size cannot be combined with batch_size_bytes", found=batch_size_bytes
            )
        batch_size = _STRICT_BATCH_ROWS if batch_size is None else batch_size
    if batch_size_bytes is None:
        batch_size_bytes = DEFAULT_BATCH_BYTES if batch_size is None else _BATCH_BYTES_BY_ROWS
    is_all = limit is None or search_filter == "vector"
    last_row = None if is_all else _integer("limit", limit) + (_integer("offset", offset) or 0)
    query = None if nearest is None else _nearest(schema, nearest, last_row)
    if index_segments is not None:
        query = _of_segments(None if search_filter == "vector" else query, index_segments)
        fast_search = fast_search or (query.use_index and fragments is None)
    text_query = None if full_text_query is None else _text_query(schema, full_text_query)
    fusion = None
    if hybrid is not None:
        query, fusion = _fusion(query, text_query, hybrid)
    scores = score_fields(query, text_query, search_filter)
    return ScanOptions(
        columns=column_names(columns),
        computed=bind_columns(schema, columns, found=scores, blob_handling=blob_handling)
        if isinstance(columns, dict)
        else None,
        filter=bind_filter(
            schema,
            condition,
            substrait_filter,
            found=() if prefilter else scores,
            blob_handling=blob_handling,
        ),
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
        use_scalar_index=use_scalar_index is not False,
        nearest=query,
        text_query=text_query,
        fusion=fusion,
        search_filter=search_filter,
        prefilter=bool(prefilter),
        fast_search=bool(fast_search),
        with_scores=not disable_scoring_autoprojection,
    )


def _fusion(
    query: NearestQuery | None, text_query: TextQuery | None, arguments: Mapping[str, Any]
) -> tuple[NearestQuery, Fusion]:
    from lance_core.scan.plan.fusion import bind_fusion  # late: most scans search nothing

    if query is None or text_query is None:
        raise InvalidInputError("hybrid joins the rows of nearest and of full_text_query: give both")
    return bind_fusion(query, arguments)


def _text_query(schema: Schema, value: Any) -> TextQuery:
    from lance_core.scan.plan.text_query import bind_text_query  # late, too

    return bind_text_query(schema, value)


def _nearest(schema: Schema, arguments: Mapping[str, Any], last_row: int | None) -> NearestQuery:
    from lance_core.scan.plan.bind_nearest import bind_nearest  # late: most scans search nothing

    if not isinstance(arguments, Mapping):
        raise ArgumentTypeError(f"nearest must be a mapping, got {type(arguments).__name__}")
    return bind_nearest(schema, arguments, last_row)


def _of_segments(query: NearestQuery | None, segments: Iterable[str | UUID]) -> NearestQuery:
    from lance_core.scan.plan.bind_nearest import bind_segments  # late, too

    return bind_segments(query, segments)


def _check_others(schema: Schema, arguments: Mapping[str, Any]) -> None:
    """Check arguments that change no result, and refuse those that this release lacks."""
    for name, value in arguments.items():
        if name in _UNSUPPORTED:
            if value is not None and value is not False:
                raise UnsupportedFeatureError(f"argument {name!r} is not supported yet")
        elif name not in _HINTS:
            raise ArgumentTypeError(f"unexpected argument {name!r}")
        elif value is not None and name in _LEAST:
            number, least = _integer(name, value), _LEAST[name]
            if number < least:
                raise InvalidInputError(f"{name} must be {'greater than 0' if least else 'non-negative'}")
        elif name == "late_materialization" and not isinstance(value, bool | None):
            project(schema, ScanOptions(columns=column_names(value, name)))


@named
def _orderings(order_by: Sequence[str | ColumnOrdering] | None) -> tuple[ColumnOrdering, ...]:
    """Return the columns to sort by. A column that is named again decides nothing, so it is left out."""
    if isinstance(order_by, str):
        raise ArgumentTypeError("order_by must be a list of names or ColumnOrdering objects, got str")
    first: dict[str, ColumnOrdering] = {}
    for item in order_by or ():
        ordering = ColumnOrdering(item) if isinstance(item, str) else item
        if not isinstance(ordering, ColumnOrdering):
            raise ArgumentTypeError(
                f"order_by must hold names or ColumnOrdering objects, got {type(item).__name__}"
            )
        first.setdefault(ordering.column_name, ordering)
    return tuple(first.values())


def pandas_arguments(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split arguments into those of `scan_options` and those of `LanceScanner.to_pandas`."""
    names = {*signature(scan_options).parameters, *_HINTS, *_UNSUPPORTED, "scan_stats_callback"}
    scan = {name: value for name, value in arguments.items() if name in names}
    return scan, {name: value for name, value in arguments.items() if name not in names}


def _integer(name: str, value: Any) -> Any:
    """Return an integer argument of any integer type as an int; None if it was left out."""
    try:
        return None if value is None else operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"{name} must be an integer, got {type(value).__name__}") from None


def column_names(
    columns: list[str] | dict[str, str] | None, argument: str = "columns"
) -> tuple[str, ...] | None:
    """Return the names of a list; a dict has none."""
    if columns is None or isinstance(columns, dict):
        return None
    check_names(argument, columns, (list,))  # as the reference
    return tuple(columns)
