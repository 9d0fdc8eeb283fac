"""Copies of index files with other row keys, in the same file version, with the same columns, metadata and
buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.file.data_file import ModernFile, open_data_file
from lance_core.file.footer import FileVersion
from lance_core.file.writer import open_writer
from lance_core.file.writer_options import FileTail, WriteOptions
from lance_core.proto import table_pb2
from lance_core.schema import Field, leaves, nodes
from lance_core.storage import Storage
from lance_core.storage.base import ReadableFile

_READ_BYTES = 4 << 20
"""Estimated bytes of the rows in memory at a time."""


class SourceFile:
    """File of an index segment, opened for reading."""

    def __init__(self, file: ReadableFile) -> None:
        self._file = file
        reader = open_data_file(file)
        if not isinstance(reader, ModernFile):
            raise UnsupportedFeatureError("index file of an old version", file=file.name, found="0.1")
        self._reader = reader
        columns = leaves if self._reader.version >= FileVersion.V2_1 else nodes
        owners = [node for top in self._reader.schema.fields for node in columns(top)]
        places = {owner.id: number for number, owner in enumerate(owners)}
        self._columns = [
            self._reader.open_column(top, _below(top, places)) for top in self._reader.schema.fields
        ]
        self.schema = self._reader.schema
        self.arrow_schema = pa.schema(
            [pa.field(top.name, top.arrow_type, top.nullable) for top in self.schema.fields]
        )
        self.num_rows = self._reader.num_rows

    @property
    def name(self) -> str:
        """Path of the file for messages."""
        return self._file.name

    @property
    def version(self) -> FileVersion:
        """Version of the file and of its copy."""
        return self._reader.version

    @property
    def metadata(self) -> Mapping[str, bytes]:
        """Metadata of the schema."""
        return self.schema.raw_metadata

    def require(self, *names: str) -> None:
        """Raise `CorruptFileError` unless the first columns of the file have these names."""
        found = self.arrow_schema.names[: len(names)]
        if found != list(names):
            raise CorruptFileError("columns of an index file", file=self.name, expected=names, found=found)

    def global_buffers(self) -> list[bytes]:
        """Return the global buffers 1, 2, ... of the file."""
        ranges = self._reader.metadata.global_buffers[1:]
        return [bytes(memoryview(self._file.read(*each))) if each[1] else b"" for each in ranges]

    def batches(self, rows_at_once: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order, `rows_at_once` at a time; None means as many as fit in a few MiB."""
        step = rows_at_once or self.rows_at_once
        for start in range(0, self.num_rows, step):
            yield self.read(start, min(start + step, self.num_rows))

    @property
    def rows_at_once(self) -> int:
        """Number of rows that fit in a few MiB."""
        return max(1, int(_READ_BYTES / max(1.0, sum(each.bytes_per_row for each in self._columns))))

    def read(self, start: int, end: int) -> pa.RecordBatch:
        """Return the rows `[start, end)`."""
        arrays = [
            pa.concat_arrays(column.read(start, end)) if start < end else pa.array([], top.type)
            for column, top in zip(self._columns, self.arrow_schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)


def _below(top: Field, places: Mapping[int, int]) -> dict[int, int]:
    return {node.id: places[node.id] for node in top.walk() if node.id in places}


@dataclass
class SegmentCopy:
    """Rewrite of an index segment: the directory of the old segment, and the directory of the new one."""

    source: Storage
    """Storage of the old segment."""
    source_directory: str
    target: Storage
    directory: str
    sizes: Mapping[str, int]
    """Bytes of the old files by name; empty if the manifest does not say."""
    sync: bool
    files: list[table_pb2.IndexFile] = field(default_factory=list)
    """Name and size of each file that was written."""

    def has(self, name: str) -> bool:
        """Return whether the old segment has a file of this name."""
        return name in self.sizes if self.sizes else self.source.exists(f"{self.source_directory}/{name}")

    def open(self, name: str) -> ReadableFile:
        """Open a file of the old segment; errors are those of `Storage.open_file`."""
        return self.source.open_file(f"{self.source_directory}/{name}", self.sizes.get(name))

    def copy(
        self,
        name: str,
        step: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
        tail: Callable[[SourceFile], FileTail] | None = None,
    ) -> None:
        """Write a new version of a file of the segment.

        Args:
            name: name of the file.
            step: returns the changed rows of a batch; None copies the rows.
            tail: returns changed metadata and the global buffers, after all rows; None copies both.
        """
        with self.open(name) as file:
            source = SourceFile(file)
            batches = source.batches() if step is None else map(step, source.batches())
            self.write(name, source, batches, tail)

    def copy_bytes(self, name: str) -> None:
        """Copy a file of the segment byte by byte."""
        with self.open(name) as source, self.target.create_file(self._path(name), sync=self.sync) as file:
            for start in range(0, source.size, _READ_BYTES):
                file.write(source.read(start, min(_READ_BYTES, source.size - start)))
        self.files.append(table_pb2.IndexFile(path=name, size_bytes=source.size))

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def write(
        self,
        name: str,
        source: SourceFile,
        batches: Iterable[pa.RecordBatch],
        tail: Callable[[SourceFile], FileTail] | None = None,
    ) -> None:
        """Write `batches` to a file with the columns and version of `source`; see `copy` for `tail`."""

        def ending() -> FileTail:
            return tail(source) if tail else FileTail(buffers=source.global_buffers())

        file = self.target.create_file(self._path(name), sync=self.sync)
        try:
            writer = open_writer(file, source.schema, source.version, WriteOptions(tail=ending))
        except BaseException:
            file.abort()
            raise
        try:
            for batch in batches:
                if batch.num_rows:
                    writer.write(batch)
            written = writer.finish()
        except BaseException:
            writer.abort()
            raise
        self.files.append(table_pb2.IndexFile(path=name, size_bytes=written.num_bytes))
