"""Reads of stored rows for changes: every page is checked, whatever scans are set to.

What a change writes gets checksums of its own. A page that was damaged before would be written again as if it
were whole, and damaged keys or filter columns would choose the wrong rows. So modules of this package read
through this one, never through `lance_core.scan.scanner`. Files without checksums have nothing to check.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.scanner import LanceScanner, stored_batches
from lance_core.schema import Field
from lance_core.table.snapshot import Snapshot


def scan_for_change(snapshot: Snapshot, options: ScanOptions) -> LanceScanner:
    """Return a scan whose reads raise `CorruptFileError` if a page differs from its checksum."""
    return LanceScanner(snapshot, replace(options, verify_checksums=True))


def stored_for_change(
    snapshot: Snapshot, fragment_ids: Iterable[int], fields: Sequence[Field], *, batch_rows: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Return rows in the form of files; see `lance_core.scan.run.stored_scan.scan_stored`.

    Raises:
        CorruptFileError: a page differs from its checksum.
        LanceError: something else cannot be read.
    """
    return stored_batches(snapshot, fragment_ids, fields, batch_rows=batch_rows, verify_checksums=True)
