"""Files of a complete index segment, opened for reading whole files and ranges of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from lance_core.errors import CorruptFileError, FileMissingError, UnsupportedFeatureError
from lance_core.file.data_file import ModernFile, open_data_file
from lance_core.file.footer import FileVersion
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


@dataclass(frozen=True)
class SegmentFiles:
    """Files of one segment."""

    storage: Storage
    directory: str
    """Directory of the files, relative to the storage."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of the files by name; empty if the manifest does not say."""
    details: bytes = b""
    """Details of the segment in the manifest."""

    def has(self, name: str) -> bool:
        """Return whether the segment has a file of this name."""
        return name in self.sizes if self.sizes else self.storage.exists(f"{self.directory}/{name}")

    def names(self, subdirectory: str = "") -> list[str]:
        """Return the names of the files of the segment, or of a directory below it; none if it is missing."""
        try:
            return self.storage.list_names("/".join(filter(None, (self.directory, subdirectory))))
        except FileMissingError:
            return []

    def open(self, name: str) -> ReadableFile:
        """Open a file of the segment; errors are those of `Storage.open_file`."""
        return self.storage.open_file(f"{self.directory}/{name}", self.sizes.get(name))

    @contextmanager
    def source(self, name: str) -> Iterator[SourceFile]:
        """Open a file of the segment as rows.

        Raises:
            CorruptFileError: The file is damaged.
            UnsupportedFeatureError: The file has version 0.1.
            StorageError: The storage failed.
        """
        with self.open(name) as file:
            yield SourceFile(file)
