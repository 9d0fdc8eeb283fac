"""Reads of stored rows for changes. They check every page against its checksum, whatever the session says.

A change writes values again, with new and valid checksums. Damage of a page could not be found after that,
and damaged keys or filter columns would choose wrong rows. So modules of this package read through this
module, never through `lance_core.scan.scanner`. Files without checksums have nothing to check.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import project
from lance_core.scan.scanner import (
    LanceScanner,
    address_batches,
    batches_at,
    bounded_batches,
    matching_batches,
    stored_batches,
)
from lance_core.scan.session import session_of
from lance_core.scan.take.address_finder import AddressFinder
from lance_core.scan.take.row_taker import RowTaker
from lance_core.schema import Field
from lance_core.table.row_ids import RowIds
from lance_core.table.snapshot import Snapshot


def scan_for_change(snapshot: Snapshot, options: ScanOptions) -> LanceScanner:
    """Return a scan whose reads raise `CorruptFileError` if a page differs from its checksum."""
    return LanceScanner(snapshot, replace(options, verify_checksums=True))


def bounded_rows_for_change(
    snapshot: Snapshot, options: ScanOptions, most_bytes: int, *, decodes_ahead: bool = True
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a scan for a change; see `lance_core.scan.scanner.bounded_batches`.

    Errors are those of `addresses_for_change`.
    """
    checked = replace(options, verify_checksums=True)
    return bounded_batches(snapshot, checked, most_bytes, decodes_ahead=decodes_ahead)


def addresses_for_change(snapshot: Snapshot, options: ScanOptions) -> Iterator[RowIds]:
    """Yield the row addresses of a scan for a change; see `lance_core.scan.scanner.address_batches`.

    Raises:
        CorruptFileError: A page that is read differs from its checksum.
        LanceError: Something else cannot be read, or the filter cannot be computed for a row.
    """
    return address_batches(snapshot, replace(options, verify_checksums=True))


def rows_for_change(snapshot: Snapshot, options: ScanOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a scan for a change; see `lance_core.scan.scanner.matching_batches`.

    Errors are those of `addresses_for_change`.
    """
    return matching_batches(snapshot, replace(options, verify_checksums=True))


def rows_at(snapshot: Snapshot, options: ScanOptions, addresses: RowIds) -> Iterator[pa.RecordBatch]:
    """Yield rows at addresses for a change; see `lance_core.scan.scanner.batches_at`.

    Errors are those of `addresses_for_change`.
    """
    return batches_at(snapshot, replace(options, verify_checksums=True), addresses)


def address_finder(snapshot: Snapshot) -> AddressFinder:
    """Return the finder of row addresses. It reads row ids and deletions only, which have no checksums."""
    nothing = project(snapshot.manifest.schema, ScanOptions(columns=()))
    return RowTaker(snapshot, nothing, session_of(snapshot).files).addresses


def stored_for_change(
    snapshot: Snapshot, fragment_ids: Iterable[int], fields: Sequence[Field], *, batch_rows: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield rows in the form of data files; see `lance_core.scan.run.stored_scan.scan_stored`.

    Raises:
        CorruptFileError: A page differs from its checksum.
        LanceError: Something else cannot be read.
    """
    return stored_batches(snapshot, fragment_ids, fields, batch_rows=batch_rows, verify_checksums=True)
