"""One open data file: its parsed metadata, its column readers and, on request, its checksums."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from lance_core.file.column_readers import ColumnReader
from lance_core.file.data_file import DataFileReader, ModernFile
from lance_core.schema.fields import Field
from lance_core.storage.base import ReadableFile

if TYPE_CHECKING:
    from lance_core.statistics.file_checksums import FileChecksums

# Memory of an open file besides its metadata: the descriptor, the memory map, the entry of the cache.
_FILE_BYTES = 8 << 10
# Memory of one of its columns in a projection that is kept.
_PROJECTED_BYTES = 256


class OpenedFile(Protocol):
    """One data file that is open; thread-safe."""

    @property
    def file(self) -> ReadableFile:
        """The file."""

    @property
    def reader(self) -> DataFileReader:
        """The reader of the file, with its parsed metadata."""

    @property
    def checksums(self) -> FileChecksums | None:
        """Checksums that pages are compared with; None if the file has none, or if reads are not checked."""

    @property
    def projected(self) -> ProjectedColumns:
        """The opened columns of projections that were read last."""

    def column(self, field: Field, columns: Mapping[int, int]) -> ColumnReader:
        """Return the reader of `field`.

        Versions of a table may give one column of a file different fields.

        Args:
            field: the column as the table has it.
            columns: the column of the file for each field id at or below `field`.

        Raises:
            LanceError: the column cannot be opened.
        """


class ProjectedColumns:
    """Opened columns of one file, for the few projections that scans repeat. Thread-safe.

    A list of columns has None for each column that is not open yet. Projections, and the fields that a
    fragment holds of the file, are compared by identity: comparing their values takes as long as opening the
    columns.
    """

    _MOST = 4

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], tuple[object, object, list[Any]]] = {}

    def get(self, projection: object, held: object) -> list[Any] | None:
        """Return the columns that were kept for a projection; None if there are none."""
        kept = self._kept.get((id(projection), id(held)))
        return None if kept is None else kept[2]

    def keep(self, projection: object, held: object, columns: list[Any]) -> None:
        """Keep the columns of a projection."""
        if len(self._kept) >= self._MOST:
            self._kept = {}
        self._kept[id(projection), id(held)] = projection, held, columns

    @property
    def known_bytes(self) -> int:
        """About how many bytes the columns take."""
        return sum(_PROJECTED_BYTES * len(columns) for _, _, columns in list(self._kept.values()))


class _ColumnReaders:
    """The column readers of one file, made when they are first needed; thread-safe."""

    def __init__(self, open_column: Callable[[Field, Mapping[int, int]], ColumnReader]) -> None:
        self._open_column = open_column
        self._readers: dict[tuple[Field, tuple[tuple[int, int], ...]], ColumnReader] = {}
        self._lock = threading.Lock()

    def get(self, field: Field, columns: Mapping[int, int]) -> ColumnReader:
        """Return the reader of `field`; see `OpenedFile.column`."""
        key = (field, tuple(columns.items()))
        with self._lock:
            reader = self._readers.get(key)
            if reader is None:
                reader = self._readers[key] = self._open_column(field, columns)
            return reader

    @property
    def known_bytes(self) -> int:
        """About how many bytes the column readers keep."""
        readers = list(self._readers.values())  # without the lock: its owner may be reading from the file
        return sum(reader.known_bytes for reader in readers)


class OpenFile:
    """One data file with its parsed metadata and the column readers made from it so far; thread-safe."""

    checksums = None

    def __init__(self, file: ReadableFile, reader: DataFileReader) -> None:
        self.file = file
        self.reader = reader
        self._columns = _ColumnReaders(reader.open_column)
        self.projected = ProjectedColumns()
        self.num_uses = 0
        """Number of times that the cache returned the file."""
        self.kept_bytes = 0
        """Bytes when the cache measured the file last."""
        self._kept_verified: OpenedFile | None = None

    @property
    def known_bytes(self) -> int:
        """About how many bytes the file and its metadata take. This grows as columns are read."""
        parts = (self.reader, self._columns, self.projected)
        return _FILE_BYTES + sum(part.known_bytes for part in parts)

    def column(self, field: Field, columns: Mapping[int, int]) -> ColumnReader:
        """Return the reader of `field`; see `OpenedFile`."""
        return self._columns.get(field, columns)

    def verified(self) -> OpenedFile:
        """Return the same file for reads that compare every page with its checksum before they decode it.

        The result remembers the pages that it has checked. A file without checksums is returned as it is.

        Raises:
            CorruptFileError: the metadata of the file differs from its checksum.
            StorageError: the storage failed.
        """
        checksums = self._own_checksums
        if checksums is None or not checksums.is_there:
            return self
        return VerifiedFile(self.file, self.reader, checksums, self._columns)

    @cached_property
    def _own_checksums(self) -> FileChecksums | None:
        if not isinstance(self.reader, ModernFile):
            return None
        from lance_core.statistics.file_checksums import FileChecksums  # late: most processes check nothing

        return FileChecksums(self.file, self.reader.metadata)

    def kept_verified(self) -> OpenedFile:
        """Return one result of `verified` for all reads of this file, so that each page is checked once."""
        if self._kept_verified is None:
            verified = self.verified()
            if verified is self:  # keeping it would make a cycle, and the file would be closed late
                return self
            self._kept_verified = verified
        return self._kept_verified


class VerifiedFile:
    """An open data file with checksums, whose pages are checked before they are decoded; thread-safe."""

    def __init__(
        self, file: ReadableFile, reader: DataFileReader, checksums: FileChecksums, columns: _ColumnReaders
    ) -> None:
        """Check what `columns`, the readers without checks, read."""
        self.file = file
        self.reader = reader
        self.checksums = checksums

        def open_column(field: Field, stored: Mapping[int, int]) -> ColumnReader:
            from lance_core.scan.files.verified import VerifiedColumn  # late, as the checksums

            return VerifiedColumn(columns.get(field, stored), checksums, field, stored)

        self._columns = _ColumnReaders(open_column)
        self.projected = ProjectedColumns()

    def column(self, field: Field, columns: Mapping[int, int]) -> ColumnReader:
        """Return the reader of `field`; see `OpenedFile`.

        Raises CorruptFileError also if the checksums are damaged.
        """
        return self._columns.get(field, columns)
