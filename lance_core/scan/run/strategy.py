"""Strategies of scans."""

from __future__ import annotations

from dataclasses import dataclass

from lance_core.scan.read.page_trace import Trace


@dataclass(frozen=True)
class Strategy:
    """Strategy for finding and decoding the rows of a filtered scan. The batches do not depend on it.

    Attributes:
        prune: Whether statistics leave out rows.
        dense_share: Share of wanted rows from which on a column is decoded whole: 0 always, above 1 never;
            None: that of the column.
        on_pages: Whether kernels may evaluate conditions on pages, without decoding the column.
        trace: Record of the pages that are read.
        is_stream: Whether a reader waits for the first batch.
        decodes_ahead: Whether worker threads decode ahead in scans of local files without a filter.
    """

    prune: bool = True
    dense_share: float | None = None
    on_pages: bool = True
    trace: Trace | None = None
    is_stream: bool = True
    decodes_ahead: bool = True
