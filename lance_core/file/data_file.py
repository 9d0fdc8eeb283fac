"""Data files, whatever the version: opened, described and read through one interface."""

from collections.abc import Mapping
from typing import Protocol

from lance_core.file.column_readers import ColumnReader, open_column
from lance_core.file.footer import FileVersion, read_version
from lance_core.file.metadata import read_file_metadata
from lance_core.schema import Schema
from lance_core.schema.fields import Field
from lance_core.storage.base import ReadableFile


class DataFileReader(Protocol):
    """One open data file; thread-safe."""

    @property
    def version(self) -> FileVersion:
        """Version by the footer."""

    @property
    def num_rows(self) -> int:
        """Top-level rows."""

    @property
    def schema(self) -> Schema:
        """The schema in the file itself. A table's manifest overrides it: names may have changed."""

    @property
    def known_bytes(self) -> int:
        """About how much memory the metadata takes, without the columns."""

    def open_column(self, field: Field, columns: Mapping[int, int]) -> ColumnReader:
        """Return the reader of a top-level column; see `lance_core.file.column_readers.open_column`.

        `columns` says where the fields at and below `field` are: the numbers that the table's manifest gives
        them (`DataFile.columns`).
        """


def open_data_file(file: ReadableFile, version: FileVersion | None = None) -> DataFileReader:
    """Read what a data file says about itself.

    Args:
        file: the file; it must stay open as long as columns are read.
        version: what is known of its version; saves a read.

    Raises:
        CorruptFileError: the bytes contradict the format, or `version`.
        UnsupportedFeatureError: a file version that is not read; names it.
        StorageError: the storage failed.
    """
    if (version or read_version(file)) == FileVersion.V0_1:
        from lance_core.file.v0_1.reader import LegacyFile  # not needed by most processes

        return LegacyFile(file)
    return ModernFile(file)


class ModernFile:
    """A 2.x file."""

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
