"""Reader of top-level columns of 2.0 files, by row ranges.

Every node of a field's tree has its own column. The column of a struct is one page with only the number of
rows, the column of a list has the ends of its lists, the column of a leaf its values. Pages of different
columns end at different rows. Source: docs/format.md, "2.0".
"""

from bisect import bisect_left
from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lance_core.encodings.picking import Picking, pick, together
from lance_core.encodings.v2_0.range_requests import run
from lance_core.encodings.v2_1.layouts.page import PAGE_BYTES
from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.file.known_pages import KnownPages
from lance_core.file.metadata import COLUMN_BYTES, FileMetadata
from lance_core.file.page_ranges import PageRange, has_short_values
from lance_core.file.row_runs import Rows, read_rows
from lance_core.file.v2_0.nodes import Columns, Stored, check_length, open_node
from lance_core.kernels import ColumnPages, OffsetOverflow
from lance_core.schema.fields import Field
from lance_core.storage.base import ReadableFile

_LONG_BYTES = 256
"""Bytes of a long row."""
_NUMBERS_SHARE, _LISTS_SHARE = 1 / 32, 1 / 16
"""Dense shares of short values of one width, and of lists. One copy decodes a page of numbers."""


class ColumnReader:
    """One top-level column of one file; see `lance_core.file.column_readers`."""

    def __init__(
        self, file: ReadableFile, metadata: FileMetadata, field: Field, columns: Mapping[int, int]
    ) -> None:
        """See `lance_core.file.column_readers.open_column`."""
        self._field = field
        self._file = file
        self._metadata = metadata
        self._columns = tuple(columns.values())
        self._root = open_node(Columns(metadata, columns), field)
        self._stored = self._root if isinstance(self._root, Stored) else None
        self._known_pages: KnownPages | None = None
        self.num_rows = metadata.num_rows
        if self._root.num_rows is None:
            raise UnsupportedFeatureError("column without any stored leaf", file=file.name, column=field.name)
        check_length(self._root, self.num_rows, "rows of the file", metadata.name)

    @cached_property
    def page_rows(self) -> tuple[int, ...]:
        """First row of each page of the widest column, and the number of rows at the end."""
        widest = max(self._root.row_columns(), key=lambda column: column.decoded_bytes, default=None)
        return (0, self.num_rows) if widest is None else tuple(widest.starts)

    @cached_property
    def bytes_per_row(self) -> float:
        """Estimated bytes of a decoded row."""
        return self._root.decoded_bytes / max(self.num_rows, 1)

    @cached_property
    def dense_share(self) -> float:
        """Share of the rows of a block from which on the whole block is decoded."""
        # One copy decodes most pages. Picking copies each row by itself, which pays for long ones only.
        if self.bytes_per_row > _LONG_BYTES:
            return 3 / 4
        if has_short_values(self._field.arrow_type):
            return _NUMBERS_SHARE
        return _LISTS_SHARE if self._field.is_list else 1 / 8

    @property
    def known_bytes(self) -> int:
        """Estimated memory of the open column, in bytes."""
        return sum(
            COLUMN_BYTES + PAGE_BYTES * len(self._metadata.column(index).pages) for index in self._columns
        ) + sum(column.kept_bytes for column in self._root.row_columns())

    def read(self, start: int, end: int) -> list[pa.Array]:
        """Return the rows `[start, end)` as arrays of the field's storage type, in order.

        An array ends where a page of rows ends, or where its offsets would be too large.

        Raises:
            CorruptFileError: the bytes contradict the format.
            StorageError: the storage failed.
        """
        if not 0 <= start <= end <= self.num_rows:
            raise ValueError(f"rows [{start}, {end}) of {self.num_rows}")
        if start == end:
            return []
        cuts = {start, end}
        for column in self._root.row_columns():
            cuts.update(column.starts[bisect_left(column.starts, start) : bisect_left(column.starts, end)])
        arrays: list[pa.Array] = []
        for begin, stop in pairwise(sorted(cuts)):
            arrays += self._read_rows(begin, stop)
        return arrays

    def take(self, rows: Rows) -> list[pa.Array]:
        """Return the values at ascending rows; see `lance_core.file.column_readers`."""
        try:
            return pick(self.pick(rows), self._file.read_joined)
        except OffsetOverflow:
            return read_rows(self, rows)  # it divides rows into several arrays

    def page_ranges(self, start: int, end: int) -> list[PageRange] | None:
        """Return the page ranges that a kernel decodes for rows `[start, end)`, or None; see
        `lance_core.file.column_readers`.
        """
        reader, stored = self._file.range_reader(), self._stored
        if reader is None or stored is None or not 0 <= start < end <= self.num_rows:
            return None
        return stored.direct(reader, start, end)

    def plain_values(self, start: int, end: int) -> None:
        """Return None: values are always decoded."""

    def plain_pages(self) -> None:
        """Return None, as above."""

    def pages_at(self, rows: Rows) -> ColumnPages | None:
        """Return the pages for takes of the kernel, or None; see `lance_core.file.column_readers`."""
        reader, stored = self._file.range_reader(), self._stored
        if reader is None or stored is None or not self.num_rows:
            return None
        known = self._known_pages
        if known is None:
            starts = np.array(stored.starts, np.int64).data
            known = self._known_pages = KnownPages(starts, stored.page_to_take, reader)
        return known.at(rows)

    def pick(self, rows: Rows) -> Picking[list[pa.Array]]:
        """Return the values at ascending rows; see `lance_core.file.column_readers`."""
        if not len(rows):
            return []
        if rows[0] < 0 or rows[-1] >= self.num_rows:
            raise ValueError(f"rows {rows[0]} to {rows[-1]} of {self.num_rows}")
        picks = self._root.pick_by_page(rows)
        if picks is None:
            return read_rows(self, rows)
        return (yield from together(picks))

    def _read_rows(self, start: int, end: int) -> list[pa.Array]:
        """Return rows [start, end), which no page boundary of a column outside lists divides.

        The result is usually one array. It has more if 32-bit offsets cannot address the values.

        Raises:
            CorruptFileError: a single row is larger than 32-bit offsets can address.
        """
        try:
            return [run(self._root.read(start, end), self._file.read_ranges)]
        except OffsetOverflow:
            if end - start == 1:
                raise CorruptFileError(
                    "one row is larger than 32-bit offsets can address",
                    file=self._file.name,
                    column=self._field.name,
                ) from None
            middle = (start + end) // 2
            return self._read_rows(start, middle) + self._read_rows(middle, end)
