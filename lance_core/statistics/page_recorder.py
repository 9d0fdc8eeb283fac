"""Recorder of the statistics and checksums of a file that is being written."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pyarrow as pa

from lance_core.statistics.collect import PageSummary, page_bounds, page_summary
from lance_core.statistics.file_buffer import METADATA_KEY, PageEntry, to_buffer


class FilePageRecorder:
    """Recorder of one data file; see `lance_core.file.writer_options.PageRecorder`."""

    def __init__(self) -> None:
        self._pages: defaultdict[int, list[PageEntry]] = defaultdict(list)

    def bounds(self, values: pa.Array) -> pa.RecordBatch:
        """Return the statistics of the values of a page of a 0.1 file."""
        return page_bounds(values)

    def summary(
        self,
        values: pa.Array,
        items: pa.Array | None = None,
        bounds: tuple[bytes, bytes] | None = None,
    ) -> PageSummary:
        """Return the summary of a page, see `PageRecorder.summary`."""
        if bounds is not None:
            return PageSummary(0, 0, *bounds)
        if items is None or pa.types.is_floating(values.type):  # NaN must be counted value by value
            return page_summary(values)
        return replace(page_summary(items), null_count=values.null_count)

    def add_page(
        self, column: int, first_row: int, num_rows: int, summary: PageSummary | None, crc32c: int
    ) -> None:
        """Record the next page of a column."""
        self._pages[column].append(PageEntry(first_row, num_rows, summary, crc32c))

    def finish(self) -> tuple[str, pa.Buffer]:
        """Return the key for the schema metadata, and the content of the global buffer."""
        return METADATA_KEY, to_buffer(self._pages)
