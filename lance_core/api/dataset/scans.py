"""Scans by the arguments of the reference."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lance_core.errors import InvalidInputError
from lance_core.scan.arguments import scan_options
from lance_core.scan.scanner import LanceScanner
from lance_core.table.snapshot import Snapshot

_BATCH_ROWS = "LANCE_DEFAULT_BATCH_SIZE"
"""Environment variable of the reference with the rows of batches for scans without `batch_size`."""


def scan_of(snapshot: Snapshot, arguments: Mapping[str, Any]) -> LanceScanner:
    """Return the scan of a snapshot with the arguments of `scan_options`; errors are those of it.

    The argument `scan_stats_callback`, which belongs to the scan alone, is a function that gets the
    `ScanStatistics` after the last row of `to_table` or `to_batches`.

    Raises:
        InvalidInputError: Or the callback is no function.
    """
    others = dict(arguments)
    callback = others.pop("scan_stats_callback", None)
    if callback is not None and not callable(callback):
        raise InvalidInputError("Callback must be callable", found=repr(callback))
    if others.get("batch_size") is None and os.environ.get(_BATCH_ROWS):
        others["batch_size"] = _default_batch_rows()
    return LanceScanner(snapshot, scan_options(snapshot.manifest.schema, **others), callback)


def _default_batch_rows() -> int:
    text = os.environ[_BATCH_ROWS]
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise InvalidInputError(f"{_BATCH_ROWS} must be a positive number of rows", found=repr(text))
    return int(text)
