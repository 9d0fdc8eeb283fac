"""Commands and tickets as options and plans of a scan."""

from collections.abc import Mapping
from dataclasses import replace

from flight_server.requests.commands import ScanCommand
from flight_server.requests.tickets import Ticket
from lance_core.api.serving import (
    DEFAULT_BATCH_BYTES,
    ScanOptions,
    ScanPlan,
    Snapshot,
    bind_columns,
    bind_filter,
    plan_scan,
)
from lance_core.errors import InvalidInputError


def scan_options(asked: ScanCommand, snapshot: Snapshot) -> ScanOptions:
    """Return the scan options of a command; InvalidInputError names an option that cannot be used."""
    return replace(
        _output_options(asked, snapshot),
        limit=asked.limit,
        offset=asked.offset,
        fragments=asked.fragments,
    )


def _output_options(asked: ScanCommand | Ticket, snapshot: Snapshot) -> ScanOptions:
    """Return the options that commands and tickets share: the columns, the filter, the size of batches."""
    schema = snapshot.manifest.schema
    computed = None
    if isinstance(asked.columns, Mapping):
        computed = bind_columns(schema, asked.columns, repeatable=True)
    return ScanOptions(
        columns=None if isinstance(asked.columns, Mapping) else asked.columns,
        computed=computed,
        filter=bind_filter(schema, asked.filter, asked.substrait_filter, repeatable=True),
        with_row_id=asked.with_row_id,
        with_row_address=asked.with_row_address,
        batch_rows=asked.batch_rows,
        batch_bytes=DEFAULT_BATCH_BYTES if asked.batch_bytes is None else asked.batch_bytes,
        verify_checksums=asked.verify_checksums,
        blob_handling=asked.blob_handling,
    )


def plan_of(ticket: Ticket, snapshot: Snapshot) -> ScanPlan:
    """Return the plan a ticket stands for, its ranges checked against the manifest."""
    options = replace(
        _output_options(ticket, snapshot), fragments=tuple(scan.fragment_id for scan in ticket.fragment_scans)
    )
    plan = plan_scan(snapshot, options)
    num_rows = {scan.fragment_id: scan.end for scan in plan.fragment_scans}
    for scan in ticket.fragment_scans:
        if scan.end > num_rows.get(scan.fragment_id, 0):
            raise InvalidInputError(
                f"the ticket asks for row {scan.end - 1} of fragment {scan.fragment_id}, which has fewer rows"
            )
    if options.filter is None and (ticket.limit is not None or ticket.offset is not None):
        raise InvalidInputError("the ticket has a limit or an offset and no filter")
    options = replace(options, limit=ticket.limit, offset=ticket.offset)
    return replace(plan, options=options).with_fragment_scans(ticket.fragment_scans)
