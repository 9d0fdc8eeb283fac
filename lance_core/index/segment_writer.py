"""Files of a new index segment, in a directory of their own. Nothing refers to them before a commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self
from uuid import UUID, uuid4

import pyarrow as pa

from lance_core.errors import StorageError
from lance_core.file.footer import FileVersion
from lance_core.file.writer import open_writer
from lance_core.file.writer_options import PAGE_BYTES, FileTail, WriteOptions
from lance_core.proto import table_pb2
from lance_core.schema import Schema, schema_from_arrow
from lance_core.storage import Storage
from lance_core.storage.base import Bytes, ReadableFile, WritableFile
from lance_core.table.indices import DIRECTORY

FILE_VERSION = FileVersion.V2_2
"""Version of new index files, whatever the version of the data files is; the reference writes the same."""

SMALL_PAGE_BYTES = 1 << 20
"""Page size of files whose builders hold much besides, and of whose rows a search reads few at a time. The
values of about four pages of each column are in memory while the file is written.
"""

_COPY_BYTES = 4 << 20


class IndexFileWriter:
    """One index file that is being written. It appears under its name when the `with` block ends.

    If the block raises, the file is discarded. Memory is bounded by the number of columns times the page
    size, and all global buffers. For one thread.
    """

    def __init__(self, file: WritableFile, schema: Schema, version: FileVersion, page_bytes: int) -> None:
        self.num_rows = 0
        """Rows written so far."""
        self.num_bytes = 0
        """Size of the complete file in bytes."""
        self._metadata: dict[str, bytes] = {}
        self._buffers: list[Bytes] = []
        try:
            options = WriteOptions(page_bytes=page_bytes, tail=self._tail)
            self._writer = open_writer(file, schema, version, options)
        except BaseException:
            file.abort()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows with the columns of the schema. Errors are those of `DataFileWriter.write`."""
        if batch.num_rows:
            self._writer.write(batch)
            self.num_rows += batch.num_rows

    def add_metadata(self, entries: Mapping[str, str]) -> None:
        """Add entries to the metadata of the schema."""
        self._metadata |= {key: text.encode() for key, text in entries.items()}

    def add_tail(self, tail: FileTail) -> None:
        """Add metadata of the schema and global buffers."""
        self._metadata |= tail.metadata
        self._buffers += tail.buffers

    def add_buffer(self, data: Bytes) -> int:
        """Add a global buffer. Return its number in the file, from 1 on."""
        self._buffers.append(data)
        return len(self._buffers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._writer.abort()
            return
        try:
            self.num_bytes = self._writer.finish().num_bytes
        except BaseException:
            self._writer.abort()
            raise

    def _tail(self) -> FileTail:
        return FileTail(self._metadata, self._buffers)


class SegmentWriter:
    """Writer of the files of one index segment.

    Attributes:
        uuid: Uuid of the segment.
        directory: Directory of its files, relative to the dataset.
        files: Name and size in bytes of each complete file, for the manifest.
    """

    def __init__(
        self,
        storage: Storage,
        uuid: UUID | None = None,
        *,
        sync: bool = True,
        subdirectory: str = "",
        is_shared: bool = False,
    ) -> None:
        """Prepare a segment.

        Args:
            storage: Storage of the dataset.
            uuid: Uuid of the segment; None makes a new one.
            sync: Make the files durable.
            subdirectory: Directory of the files below that of the segment; "" means the segment's own.
            is_shared: Whether other writers have files in the directory. Then `discard` leaves their files,
                and a file takes the place of one that an earlier attempt wrote.
        """
        self.uuid = uuid or uuid4()
        self.directory = "/".join(filter(None, (DIRECTORY, str(self.uuid), subdirectory)))
        self.files: list[table_pb2.IndexFile] = []
        self._storage = storage
        self._sync = sync
        self._is_shared = is_shared
        self._names: list[str] = []
        self._written: list[tuple[str, IndexFileWriter]] = []

    def create(
        self,
        name: str,
        schema: pa.Schema | Schema,
        version: FileVersion = FILE_VERSION,
        *,
        page_bytes: int = PAGE_BYTES,
    ) -> IndexFileWriter:
        """Start a file of the segment; use the result in a `with` block.

        Args:
            name: Name of the file.
            schema: Columns of the file with their metadata.
            version: Version of the file.
            page_bytes: Bytes of values at which the page of a column is full.

        Raises:
            UnsupportedFeatureError: A file of this version cannot hold a type.
            StorageError: The storage failed.
        """
        if isinstance(schema, pa.Schema):
            schema = schema_from_arrow(schema, is_table=False)
        file = self._create(name)
        writer = IndexFileWriter(file, schema, version, page_bytes)
        self._written.append((name, writer))
        return writer

    def write(
        self,
        name: str,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        *,
        metadata: Mapping[str, str] | None = None,
        buffers: Mapping[str, Bytes] | None = None,
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        """Write a whole file of the segment.

        Args:
            name: Name of the file.
            schema: Columns of the file with their metadata.
            batches: All rows.
            metadata: Entries of the schema metadata.
            buffers: Global buffers. An entry of the schema metadata with the key contains the number of each.
            page_bytes: Bytes of values at which the page of a column is full.

        Raises:
            LanceError: Errors of `create` and `IndexFileWriter.write`, and those of `batches`.
        """
        with self.create(name, schema, page_bytes=page_bytes) as file:
            for batch in batches:
                file.write(batch)
            file.add_metadata(metadata or {})
            for key, data in (buffers or {}).items():
                file.add_metadata({key: str(file.add_buffer(data))})

    def copy_bytes(self, name: str, source: ReadableFile) -> None:
        """Write a file of the segment with the bytes of another file."""
        with self._create(name) as file:
            for start in range(0, source.size, _COPY_BYTES):
                file.write(source.read(start, min(_COPY_BYTES, source.size - start)))
        self.files.append(table_pb2.IndexFile(path=name, size_bytes=source.size))

    def finish(self) -> list[table_pb2.IndexFile]:
        """Make the names of the files durable, and return the entries for the manifest."""
        self.files += [
            table_pb2.IndexFile(path=name, size_bytes=writer.num_bytes) for name, writer in self._written
        ]
        self._written.clear()
        if self._sync and self.files:
            directory = self.directory
            while directory:
                self._storage.sync_directory(directory)
                directory = directory.rpartition("/")[0]
        return self.files

    def discard(self) -> None:
        """Remove the files. If one cannot be removed, a cleanup removes it later."""
        with suppress(StorageError):
            if not self._is_shared:
                self._storage.delete_directory(self.directory)
            for name in self._names if self._is_shared else ():
                self._storage.delete_file(f"{self.directory}/{name}")

    def _create(self, name: str) -> WritableFile:
        self._names.append(name)
        return self._storage.create_file(f"{self.directory}/{name}", sync=self._sync, replace=self._is_shared)
