"""Readers and writers of single data files; see `lance_core.api.file`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from lance_core.api.file.metadata import LanceFileMetadata, LanceFileStatistics, describe, sizes
from lance_core.api.names.namespaces import refuse_namespaces
from lance_core.errors import ArgumentTypeError, InvalidInputError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.scan.single_file import SingleFile
from lance_core.storage import Storage, storage_for
from lance_core.write.dataset_options import STABLE, file_version
from lance_core.write.single_file import SingleFileWriter

_PAGE_BYTES = 32 << 20
"""Default of the reference."""


class ReaderResults:
    """Rows of a file, as a stream or as a table."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self.reader = reader

    def to_batches(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches."""
        return self.reader

    def to_table(self) -> pa.Table:
        """Return the rows as a table."""
        return self.reader.read_all()


class LanceFileReader:
    """Reader of one 2.x data file. Threads may share it."""

    def __init__(
        self,
        path: str | PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        columns: list[str] | None = None,
        *,
        namespace_client: object = None,
        table_id: list[str] | None = None,
    ) -> None:
        """Open a file.

        Args:
            path: Path or URL of the file.
            storage_options: Settings of the storage that the URL names.
            columns: Names or dotted paths; None for all. A path narrows its column to the fields that paths
                lead to.
            namespace_client, table_id: Not supported.

        Raises:
            InvalidInputError: A column is missing.
            UnsupportedFeatureError: The file has version 0.1, or an unknown version.
            CorruptFileError: The bytes contradict the format.
            StorageError: The file is missing, or the storage failed.
        """
        refuse_namespaces(namespace_client, table_id)
        storage, name = located(path, storage_options)
        self._file = SingleFile(storage, name, columns)

    @classmethod
    def of_storage(cls, storage: Storage, name: str, columns: list[str] | None) -> Self:
        """Open the file `name` of a storage; errors are those of `__init__`."""
        reader = cls.__new__(cls)
        reader._file = SingleFile(storage, name, columns)
        return reader

    def read_all(self, *, batch_size: int = 1024, batch_readahead: int = 16) -> ReaderResults:
        """Return all rows.

        Args:
            batch_size: Rows of a batch.
            batch_readahead: Has no effect: a budget of bytes limits how much is decoded ahead.
        """
        return ReaderResults(self._file.batches(batch_rows=batch_size))

    def read_range(
        self, start: int, num_rows: int, *, batch_size: int = 1024, batch_readahead: int = 16
    ) -> ReaderResults:
        """Return the rows `[start, start + num_rows)`; other arguments are those of `read_all`.

        Raises:
            InvalidInputError: The range exceeds the file.
        """
        return ReaderResults(self._file.batches(start, num_rows, batch_size))

    def take_rows(self, indices: Any, *, batch_size: int = 1024, batch_readahead: int = 16) -> ReaderResults:
        """Return single rows; other arguments are those of `read_all`.

        Args:
            indices: Row numbers in strictly ascending order: a list, an Arrow array or a NumPy array.
            batch_size, batch_readahead: As for `read_all`.

        Raises:
            InvalidInputError: The numbers do not ascend, or a number is out of range.
            ArgumentTypeError: The numbers are no integers.
        """
        return ReaderResults(self._file.take(indices, batch_size))

    def metadata(self) -> LanceFileMetadata:
        """Return the metadata of the file, with all columns and pages."""
        return describe(self._file.metadata, self._file.schema)

    def file_statistics(self) -> LanceFileStatistics:
        """Return the number of pages and the bytes of each column."""
        return sizes(self._file.metadata)

    def read_global_buffer(self, index: int) -> bytes:
        """Return a global buffer; 0 is the descriptor of the file.

        Raises:
            InvalidInputError: There is no such buffer.
        """
        return self._file.global_buffer(index)

    def num_rows(self) -> int:
        """Return the number of rows."""
        return self._file.metadata.num_rows


class LanceFileWriter:
    """Writer of one 2.x data file. Threads may share it; the rows of a batch stay together.

    The file appears under its name when it is closed, complete, and replaces an older file. If a `with` block
    raises, or the writer is deleted without `close`, there is no new file.

    Attributes:
        closed: Whether `close` was called.
        size_bytes: Size of the file in bytes; None before `close`.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        schema: pa.Schema | None = None,
        *,
        data_cache_bytes: int | None = None,
        version: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        namespace_client: object = None,
        table_id: list[str] | None = None,
        max_page_bytes: int | None = None,
        keep_original_array: bool | None = None,
        sync: bool = True,
    ) -> None:
        """Start a file.

        Args:
            path: Path or URL of the file.
            schema: The columns; None for those of the first batch.
            data_cache_bytes: Bytes that may wait for a full page, in all columns together.
            version: 2.0, 2.1 or 2.2; None for `stable_version`.
            storage_options: Settings of the storage that the URL names.
            namespace_client, table_id: Not supported.
            max_page_bytes: Bytes of values at which the page of a column is full, 32 MiB if not given.
            keep_original_array: Has no effect.
            sync: Let the file survive a power failure when `close` returns.

        Raises:
            InvalidInputError: The schema or an argument is not valid.
            UnsupportedFeatureError: A version that is not written, or a type that the version cannot hold.
            StorageError: The storage failed.
        """
        refuse_namespaces(namespace_client, table_id)
        self._start(*located(path, storage_options), schema, data_cache_bytes, version, max_page_bytes, sync)

    @classmethod
    def of_storage(
        cls,
        storage: Storage,
        name: str,
        schema: pa.Schema | None,
        data_cache_bytes: int | None,
        version: str | None,
        max_page_bytes: int | None,
    ) -> Self:
        """Start the file `name` of a storage; arguments and errors are those of `__init__`."""
        writer = cls.__new__(cls)
        writer._start(storage, name, schema, data_cache_bytes, version, max_page_bytes, sync=True)
        return writer

    def _start(
        self,
        storage: Storage,
        name: str,
        schema: pa.Schema | None,
        data_cache_bytes: int | None,
        version: str | None,
        max_page_bytes: int | None,
        sync: bool,
    ) -> None:
        number = file_version(version, "version") or STABLE
        if number == FileVersion.V0_1:
            raise UnsupportedFeatureError("files of version 0.1 without a dataset", found=version)
        page_bytes = _PAGE_BYTES if max_page_bytes is None else max_page_bytes
        for argument, value in (("max_page_bytes", page_bytes), ("data_cache_bytes", data_cache_bytes)):
            if value is not None and value < 1:
                raise InvalidInputError(argument, expected="1 or more", found=value)
        self._writer = SingleFileWriter(
            storage, name, schema, number, page_bytes=page_bytes, cache_bytes=data_cache_bytes, sync=sync
        )
        self.closed = False
        self.size_bytes: int | None = None

    def write_batch(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows. Columns are matched by name; columns that the file lacks are left out.

        Raises:
            InvalidInputError: A column is missing or has another type, a required column has a null, or the
                file is closed.
            UnsupportedFeatureError: A file of this version cannot hold a type or a value.
            StorageError: The storage failed. There will be no file.
        """
        for part in _batches(batch):
            self._writer.write(part)

    def close(self) -> int | None:
        """Complete the file. Return its number of rows; None if it is closed already.

        Raises:
            InvalidInputError: There is neither a schema nor a batch.
            StorageError: The storage failed. There is no file.
        """
        if self.closed:
            return None
        self.closed = True
        written = self._writer.finish()
        self.size_bytes = written.num_bytes
        return written.num_rows

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Add an entry to the metadata of the schema. The file is not closed yet."""
        self._writer.add_metadata(key, value)

    def add_global_buffer(self, data: bytes) -> int:
        """Add a global buffer. Return its number for `read_global_buffer`, 1 for the first."""
        return self._writer.add_buffer(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.closed = True
            self._writer.abort()


def located(
    path: str | PathLike[str], storage_options: Mapping[str, str] | None = None
) -> tuple[Storage, str]:
    """Return the storage of the directory of a file, and the name of the file in it.

    Raises:
        InvalidInputError: The path names no file.
        UnsupportedFeatureError: The scheme of the URL is unknown.
    """
    directory, slash, name = fspath(path).rpartition("/")
    if not name:
        raise InvalidInputError("path of a file", found=repr(path))
    return storage_for(directory or slash or ".", storage_options), name


def _batches(rows: pa.RecordBatch | pa.Table) -> Iterator[pa.RecordBatch]:
    if isinstance(rows, pa.Table):
        yield from rows.to_batches()
    elif isinstance(rows, pa.RecordBatch):
        yield rows
    else:
        raise ArgumentTypeError(f"batch must be a RecordBatch or a Table, got {type(rows).__name__}")
