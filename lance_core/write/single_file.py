"""Writing of one data file without a table."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.file.footer import FileVersion
from lance_core.file.writer import DataFileWriter, open_writer
from lance_core.file.writer_options import FileTail, WriteOptions, WrittenFile
from lance_core.schema import Schema, schema_from_arrow
from lance_core.statistics.page_recorder import FilePageRecorder
from lance_core.storage import Storage
from lance_core.write.batch_sources import MAX_BATCH_BYTES, slices
from lance_core.write.schema_conformer import Conformer


class SingleFileWriter:
    """One 2.x data file that is being written. Threads may share the writer; each batch stays together.

    The file appears under its name when `finish` returns, complete, or never. It replaces an older file.
    Memory: one page per column, and all global buffers.
    """

    def __init__(
        self,
        storage: Storage,
        name: str,
        schema: pa.Schema | None,
        version: FileVersion,
        *,
        page_bytes: int,
        cache_bytes: int | None = None,
        sync: bool = True,
    ) -> None:
        """Start the file `name` of a storage.

        Args:
            storage: The directory of the file.
            name: Path of the file.
            schema: The columns; None for those of the first batch.
            version: Version of the file, 2.0 or later.
            page_bytes: Bytes of values at which the page of a column is full.
            cache_bytes: Bytes that may wait for a full page in all columns together; None for no limit.
            sync: Let the file survive a power failure.

        Raises:
            InvalidInputError: The schema is not valid.
            UnsupportedFeatureError: A file of this version cannot hold a type.
            StorageError: The storage failed.
        """
        self._storage = storage
        self._name = name
        self._version = version
        self._page_bytes = page_bytes
        self._cache_bytes = cache_bytes
        self._slice_bytes = MAX_BATCH_BYTES
        self._sync = sync
        self._lock = Lock()
        self._metadata: dict[str, bytes] = {}
        self._buffers: list[bytes] = []
        self._conformer: Conformer | None = None
        self._file: DataFileWriter | None = None
        self._schema = Schema([], {})
        self._given: pa.Schema | None = None
        self._is_done = False
        if schema is not None:
            self._begin(schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows. Columns are matched by name; those that the file lacks are left out.

        Raises:
            InvalidInputError: A column is missing or has another type, or a required column has a null.
            UnsupportedFeatureError: A file of this version cannot hold a type or a value.
            StorageError: The storage failed. The file is discarded.
        """
        with self._lock:
            self._check_open()
            file = self._file or self._begin(batch.schema)
            rows = self._conform(batch)
            try:
                for part in slices(rows, self._slice_bytes):
                    file.write(part)
            except BaseException:
                self._abort()
                raise

    def add_metadata(self, key: str, value: str) -> None:
        """Add an entry to the metadata of the schema."""
        with self._lock:
            self._check_open()
            self._metadata[key] = value.encode()

    def add_buffer(self, data: bytes) -> int:
        """Add a global buffer. Return its number, from 1 on."""
        with self._lock:
            self._check_open()
            self._buffers.append(bytes(data))
            return len(self._buffers)

    def finish(self) -> WrittenFile:
        """Write the remaining rows and the metadata, and let the file appear under its name.

        Raises:
            InvalidInputError: There is neither a schema nor a batch.
            StorageError: The storage failed. The file is discarded.
        """
        with self._lock:
            self._check_open()
            self._is_done = True
            if self._file is None:
                raise InvalidInputError(
                    "Schema is unknown and file cannot be created", expected="a schema or a batch of rows"
                )
            try:
                written = self._file.finish()
                if self._sync:
                    self._storage.sync_directory(self._name.rpartition("/")[0])
            except BaseException:
                self._abort()
                raise
            return written

    def abort(self) -> None:
        """Discard the file. Does nothing after `finish`."""
        with self._lock:
            if not self._is_done:
                self._abort()

    def _abort(self) -> None:
        self._is_done = True
        if self._file is not None:
            self._file.abort()

    def _begin(self, schema: pa.Schema) -> DataFileWriter:
        self._schema = schema_from_arrow(schema, is_table=False)
        num_columns = max(1, len(self._schema.fields))
        page_bytes = self._page_bytes
        if self._cache_bytes is not None:
            page_bytes = max(1, min(page_bytes, self._cache_bytes // num_columns))
        if self._version == FileVersion.V2_0:  # this writer cuts pages between batches only
            self._slice_bytes = min(MAX_BATCH_BYTES, page_bytes * num_columns)
        options = WriteOptions(
            page_bytes=page_bytes, any_blobs=True, recorder=FilePageRecorder, tail=self._tail
        )
        file = self._storage.create_file(self._name, sync=self._sync, replace=True)
        try:
            self._file = open_writer(file, self._schema, self._version, options)
        except BaseException:
            file.abort()
            raise
        return self._file

    def _tail(self) -> FileTail:
        metadata: Mapping[str, bytes] = self._metadata
        return FileTail(metadata, self._buffers)

    def _conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = [field.name for field in self._schema.fields]
        for name in names:
            if name not in batch.schema.names:
                raise InvalidInputError("batch lacks a column of the file", column=name)
        if batch.schema.names != names:
            batch = batch.select(names)
        if self._conformer is None or self._given is None or not batch.schema.equals(self._given):
            conformer = Conformer(self._schema, batch.schema)
            missing = {message.id: message.name for message in self._schema.messages}
            for message in conformer.schema.messages:
                missing.pop(message.id)
            if missing:
                raise InvalidInputError(
                    "batch lacks a field of the file", column=next(iter(missing.values()))
                )
            self._conformer, self._given = conformer, batch.schema
        return self._conformer.conform(batch)

    def _check_open(self) -> None:
        if self._is_done:
            raise InvalidInputError("the file is closed", found=self._name)
