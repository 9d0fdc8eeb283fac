"""Pages of a B-tree: what `page_lookup.lance` says of the rows in `page_data.lance`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

PAGE_ROWS = 4096
"""Default number of rows in a page."""


class PageTable:
    """Pages of a B-tree, described while their rows are written."""

    def __init__(self, page_rows: int, schema: pa.Schema) -> None:
        self._page_rows = page_rows
        self._schema = schema
        self._waiting: list[pa.Array] = []
        """Values that do not fill a page yet."""
        self._num_waiting = 0
        self._described: list[pa.RecordBatch] = []

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass the batches on, and describe their full pages."""
        for batch in batches:
            self._waiting.append(batch.column(0))
            self._num_waiting += batch.num_rows
            if self._num_waiting >= self._page_rows:
                self._describe(self._num_waiting // self._page_rows * self._page_rows)
            yield batch

    def finish(self) -> list[pa.RecordBatch]:
        """Return the rows of the lookup file."""
        if self._num_waiting:
            self._describe(self._num_waiting)
        return self._described

    def _describe(self, num_rows: int) -> None:
        """Describe the pages of the first `num_rows` waiting rows."""
        values = pa.concat_arrays(self._waiting)
        firsts = np.arange(0, num_rows, self._page_rows)
        lasts = np.minimum(firsts + self._page_rows, num_rows) - 1
        null_counts = np.zeros(len(firsts), np.uint32)
        if values.null_count:
            is_null = np.asarray(values.is_null())[:num_rows].astype(np.uint32)
            null_counts = np.add.reduceat(is_null, firsts).astype(np.uint32)
        number = sum(batch.num_rows for batch in self._described)
        columns = [
            values.take(pa.array(firsts)),
            values.take(pa.array(lasts)),
            pa.array(null_counts),
            pa.array(np.arange(number, number + len(firsts), dtype=np.uint32)),
        ]
        self._described.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._waiting = [values.slice(num_rows)]
        self._num_waiting -= num_rows
