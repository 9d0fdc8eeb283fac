"""Columns whose pages are compared with their checksums before they are decoded.

A reader remembers the pages that it has checked, so a scan checks each page once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from lance_core.encodings.picking import Picking
from lance_core.file.column_readers import ColumnReader
from lance_core.file.page_ranges import PageRange, PlainValues
from lance_core.file.row_runs import Rows
from lance_core.kernels import ColumnPages, PlainPages
from lance_core.schema.fields import Field
from lance_core.statistics.file_checksums import ColumnChecksums, FileChecksums


class VerifiedColumn:
    """Column of a file with checksums, read by another reader; see `lance_core.file.column_readers`.

    Every method that reads pages raises `CorruptFileError` if one of them differs from its checksum.
    """

    def __init__(
        self, reader: ColumnReader, checksums: FileChecksums, field: Field, columns: Mapping[int, int]
    ) -> None:
        """Read `field` with `reader`; `columns` gives the columns of the file by field id.

        Raises:
            CorruptFileError: the checksums themselves are damaged.
            StorageError: the storage failed.
        """
        self._reader = reader
        names = {node.id: node.name for node in field.walk()}
        self._leaves = [
            _CheckedPages(checksums.column(index), names.get(field_id, field.name))
            for field_id, index in columns.items()
        ]

    @property
    def num_rows(self) -> int:
        return self._reader.num_rows

    @property
    def page_rows(self) -> Sequence[int]:
        return self._reader.page_rows

    @property
    def bytes_per_row(self) -> float:
        return self._reader.bytes_per_row

    @property
    def dense_share(self) -> float:
        return self._reader.dense_share

    @property
    def known_bytes(self) -> int:
        return self._reader.known_bytes

    def read(self, start: int, end: int) -> list[pa.Array]:
        """Check the pages of rows `[start, end)`, then read them."""
        self._verify(start, end)
        return self._reader.read(start, end)

    def page_ranges(self, start: int, end: int) -> list[PageRange] | None:
        """Check the pages of rows `[start, end)`, then return their page ranges for a kernel."""
        self._verify(start, end)
        return self._reader.page_ranges(start, end)

    def plain_values(self, start: int, end: int) -> PlainValues | None:
        """Check the pages of rows `[start, end)`, then return their place."""
        self._verify(start, end)
        return self._reader.plain_values(start, end)

    def plain_pages(self) -> PlainPages | None:
        """Return the places of all pages if all of them are checked, since a kernel may use any row."""
        return self._reader.plain_pages() if all(leaf.are_all_checked for leaf in self._leaves) else None

    def pages_at(self, rows: Rows) -> ColumnPages | None:
        """Check the pages of rows, then return them for a kernel."""
        self._verify_rows(rows)
        return self._reader.pages_at(rows)

    def take(self, rows: Rows) -> list[pa.Array]:
        """Check the pages of ascending rows, then take them."""
        self._verify_rows(rows)
        return self._reader.take(rows)

    def pick(self, rows: Rows) -> Picking[list[pa.Array]]:
        """Check the pages of ascending rows, then take them."""
        self._verify_rows(rows)
        return (yield from self._reader.pick(rows))

    def _verify(self, start: int, end: int) -> None:
        if start < end:
            for leaf in self._leaves:
                leaf.verify(leaf.checksums.pages_of(start, end))

    def _verify_rows(self, rows: Rows) -> None:
        if len(rows):
            for leaf in self._leaves:
                leaf.verify(leaf.checksums.pages_at(rows))


class _CheckedPages:
    """The pages of one column of a file, and which of them were checked; thread-safe."""

    def __init__(self, checksums: ColumnChecksums, name: str) -> None:
        self.checksums = checksums
        self._name = name
        self._unchecked = set(range(checksums.num_pages))
        self._lock = threading.Lock()

    @property
    def are_all_checked(self) -> bool:
        return not self._unchecked

    def verify(self, pages: Iterable[int]) -> None:
        """Check the pages with these numbers, except those that were checked before."""
        if not self._unchecked:
            return
        # Other threads that need the same page wait: checking it twice would take longer.
        with self._lock:
            for number in pages:
                if number in self._unchecked:
                    self.checksums.verify_page(number, self._name)
                    self._unchecked.discard(number)
