"""Commands and tickets as options and plans of a scan, bound to what the caller may read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from flight_server.catalog.views import View
from flight_server.requests.commands import AggregateCommand, CountCommand, ScanCommand
from flight_server.requests.nearest_fields import nearest_arguments
from flight_server.requests.tickets import Ticket
from lance_core.api.serving import (
    DEFAULT_BATCH_BYTES,
    Expression,
    ScanOptions,
    ScanPlan,
    bind_columns,
    bind_filter,
    bind_fusion,
    bind_nearest,
    bind_segments,
    bind_text_query,
    columns_of,
    guarded,
    plan_scan,
    project,
    result_schema,
    score_fields,
    text_columns,
    with_columns,
)
from lance_core.errors import InvalidInputError


def scan_options(asked: ScanCommand, view: View) -> ScanOptions:
    """Return the scan options of a command; InvalidInputError names an option that cannot be used."""
    return _options(asked, view, asked.fragments, asked.limit, asked.offset)


def _options(
    asked: ScanCommand | Ticket,
    view: View,
    fragments: tuple[int, ...] | None,
    limit: int | None = None,
    offset: int | None = None,
) -> ScanOptions:
    """Return the options of a command or ticket, with some fragments, and a limit and an offset."""
    schema = view.schema
    nearest = None if asked.nearest is None else bind_nearest(schema, nearest_arguments(asked.nearest))
    fast_search = asked.fast_search
    if asked.index_segments is not None:
        nearest = bind_segments(nearest, asked.index_segments)
        # The ticket of such a search says already that other rows are left out.
        fast_search |= isinstance(asked, ScanCommand) and nearest.use_index and asked.fragments is None
    text_query = None if asked.full_text_query is None else bind_text_query(schema, asked.full_text_query)
    fusion = None
    if asked.hybrid is not None:
        if nearest is None or text_query is None:
            raise InvalidInputError("hybrid: give both nearest and full_text_query")
        ranking = asked.ranking if isinstance(asked, Ticket) else None
        nearest, fusion = bind_fusion(nearest, asked.hybrid, ranking=ranking)
    if text_query is not None and not view.is_whole and None in columns_of(text_query):
        text_query = with_columns(text_query, _text_columns(view))
    scores = score_fields(nearest, text_query, asked.search_filter)
    columns, computed = asked.columns, None
    if isinstance(columns, Mapping):
        computed = bind_columns(
            schema, columns, repeatable=True, found=scores, blob_handling=asked.blob_handling
        )
        columns = None
        for _, value in computed:
            view.check_expression(value)
    elif columns is None and not view.is_whole:
        columns = tuple(field.name for field in schema.fields)
    view.check(columns or ())
    view.check(each.column_name for each in asked.order_by)
    found = () if asked.prefilter else scores
    condition, guards = bind_condition(
        asked, view, repeatable=True, found=found, blob_handling=asked.blob_handling
    )
    return ScanOptions(
        columns=columns,
        computed=computed,
        filter=condition,
        guards=guards,
        limit=limit,
        offset=offset,
        fragments=fragments,
        order_by=asked.order_by,
        with_row_id=asked.with_row_id,
        with_row_address=asked.with_row_address,
        batch_rows=asked.batch_rows,
        batch_bytes=DEFAULT_BATCH_BYTES if asked.batch_bytes is None else asked.batch_bytes,
        verify_checksums=asked.verify_checksums,
        blob_handling=asked.blob_handling,
        nearest=nearest,
        text_query=text_query,
        fusion=fusion,
        search_filter=asked.search_filter,
        prefilter=asked.prefilter,
        fast_search=fast_search,
        use_scalar_index=asked.use_scalar_index,
    )


def _text_columns(view: View) -> list[str]:
    """Return the columns with a full text index that the caller may read.

    Raises:
        InvalidInputError: There are none.
    """
    known = {field.name for field in view.schema.fields}
    columns = [path for path in text_columns(view.snapshot) if path in known]
    if not columns:
        raise InvalidInputError("full_text_query: name a column; no column has a full text index")
    return columns


def bind_condition(
    asked: ScanCommand | Ticket | CountCommand | AggregateCommand,
    view: View,
    *,
    repeatable: bool = False,
    found: Sequence[pa.Field] = (),
    blob_handling: str | None = None,
) -> tuple[Expression | None, int]:
    """Return the filter of a command with the condition of the view, and the number of its guards.

    The keyword arguments and the errors are those of `bind_filter`.
    """
    condition = bind_filter(
        view.schema,
        asked.filter,
        asked.substrait_filter,
        repeatable=repeatable,
        found=found,
        blob_handling=blob_handling,
    )
    view.check_expression(condition)
    return (condition, 0) if view.guard is None else guarded(view.guard, condition)


def plan_view(view: View, options: ScanOptions) -> ScanPlan:
    """Return the plan of a scan of what the caller may read; errors are those of `plan_scan`.

    `options` must be those that this module made for the view.
    """
    if view.is_whole:
        return plan_scan(view.snapshot, options)
    schema = result_schema(view.schema, options)  # refuses columns that do not exist for the caller
    if not options.is_search:
        project(view.schema, ScanOptions(columns=tuple(each.column_name for each in options.order_by)))
    return replace(plan_scan(view.snapshot, options), schema=schema)


def plan_of(ticket: Ticket, view: View) -> ScanPlan:
    """Return the plan a ticket stands for, its ranges checked against the manifest."""
    options = _options(ticket, view, tuple(scan.fragment_id for scan in ticket.fragment_scans))
    plan = plan_view(view, options)
    if view.guard is not None:  # such tickets do not tell how many rows a fragment has
        return replace(plan, options=replace(options, limit=ticket.limit, offset=ticket.offset))
    num_rows = {scan.fragment_id: scan.end for scan in plan.fragment_scans}
    for scan in ticket.fragment_scans:
        if scan.end > num_rows.get(scan.fragment_id, 0):
            raise InvalidInputError(
                f"the ticket asks for row {scan.end - 1} of fragment {scan.fragment_id}, which has fewer rows"
            )
    is_cut_later = options.filter is not None or bool(options.order_by) or options.is_search
    if not is_cut_later and (ticket.limit is not None or ticket.offset is not None):
        raise InvalidInputError("the ticket has a limit or an offset, and no filter, order or search")
    options = replace(options, limit=ticket.limit, offset=ticket.offset)
    return replace(plan, options=options).with_fragment_scans(ticket.fragment_scans)
