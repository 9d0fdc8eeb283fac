"""Readers of data files: one interface for all versions."""

from collections.abc import Mapping
from typing import Protocol

from lance_core.file.column_readers import ColumnReader, open_column
from lance_core.file.footer import FileVersion, read_version
from lance_core.file.metadata import read_file_metadata
from lance_core.schema import Schema
from lance_core.schema.fields import Field
from lance_core.storage.base import ReadableFile


class DataFileReader(Protocol):
    """One open data file. Thread-safe."""

    @property
    def version(self) -> FileVersion:
        """Version in the footer."""

    @property
    def num_rows(self) -> int:
        """Number of top-level rows."""

    @property
    def schema(self) -> Schema:
        """Schema in the file itself. The manifest of a table overrides it, because columns may have been
        renamed.
        """

    @property
    def known_bytes(self) -> int:
        """Estimated memory of the metadata without columns, in bytes."""

    def open_column(self, field: Field, columns: Mapping[int, int]) -> ColumnReader:
        """Return the reader of a top-level column; see `lance_core.file.column_readers.open_column`.

        `columns` has the column of each field at and below `field`, as in the manifest (`DataFile.columns`).
        """


def open_data_file(file: ReadableFile, version: FileVersion | None = None) -> DataFileReader:
    """Read the metadata of a data file and return its reader.

    Args:
        file: the file. It must stay open as long as columns are read.
        version: the version of the file, if known. It saves a read.

    Raises:
        CorruptFileError: the bytes contradict the format, or `version`.
        UnsupportedFeatureError: a file version that is not supported; the message names it.
        StorageError: the storage failed.
    """
    if (version or read_version(file)) == FileVersion.V0_1:
        from lance_core.file.v0_1.reader import (
            LegacyFile,
        )  # imported here, because most processes read no 0.1 files

        return LegacyFile(file)
    return ModernFile(file)


class ModernFile:
    """Reader of a 2.x file."""

    def __init__(self, file: ReadableFile) -> None:
        self.file = file
        self.metadata = read_file_metadata(file)
        self.version = self.metadata.version
        self.num_rows = self.metadata.num_rows

    @property
    def schema(self) -> Schema:
        return self.metadata.schema

    @property
    def known_bytes(self) -> int:
        return self.metadata.known_bytes

    def open_column(self, field: Field, columns: Mapping[int, int]) -> ColumnReader:
        return open_column(self.file, self.metadata, field, columns)
