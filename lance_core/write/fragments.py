"""Batches to data files: each file becomes a fragment, and a new one is begun when a limit is reached."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol
from uuid import uuid4

import pyarrow as pa

from lance_core.errors import InvalidInputError, StorageError
from lance_core.file.footer import FileVersion
from lance_core.file.side_files import SideFiles, delete_data_file
from lance_core.file.v0_1.dictionaries import Dictionaries
from lance_core.file.writer import DataFileWriter, open_writer
from lance_core.file.writer_options import WriteOptions, WrittenFile
from lance_core.proto import table_pb2
from lance_core.schema import Schema
from lance_core.statistics.page_recorder import FilePageRecorder
from lance_core.storage import Storage
from lance_core.table.fragment import MAX_ROWS, Fragment
from lance_core.write.batch_sources import slices

DIRECTORY = "data"


@dataclass(frozen=True)
class FileLimits:
    """Limits of a data file."""

    max_rows: int = 1 << 20
    max_bytes: int = 90 << 30
    """Approximate: rows that are encoded together are not split."""

    def __post_init__(self) -> None:
        if not 0 < self.max_rows < MAX_ROWS:
            raise InvalidInputError("max_rows_per_file", expected=f"1 to {MAX_ROWS - 1}", found=self.max_rows)
        if self.max_bytes < 0:
            raise InvalidInputError("max_bytes_per_file", expected="0 or more", found=self.max_bytes)


class FragmentWriteProgress(Protocol):
    """Is told when a fragment is begun and when it is complete. Its id is not known yet: it is 0."""

    def begin(self, fragment: Fragment) -> None:
        """A data file is about to be written; the fragment has no rows yet."""

    def complete(self, fragment: Fragment) -> None:
        """The data file is complete, but nobody sees it before the commit."""


class FragmentWriter:
    """Writes fragments of one table from batches that are pushed. For one thread; memory is bounded."""

    def __init__(
        self,
        storage: Storage,
        schema: Schema,
        version: FileVersion,
        *,
        limits: FileLimits | None = None,
        options: WriteOptions | None = None,
        progress: FragmentWriteProgress | None = None,
        sync: bool = True,
        dictionaries: Dictionaries | None = None,
    ) -> None:
        """Write files of `version` with the columns of `schema` to `data/` in `storage`.

        Dictionary columns of 0.1 files need the `dictionaries` of the table.

        Raises:
            UnsupportedFeatureError: a type that files of this version cannot hold.
        """
        self._storage = storage
        self._schema = schema
        self._version = version
        self._limits = limits or FileLimits()
        self._options = replace(options or WriteOptions(), recorder=FilePageRecorder)
        self._progress = progress
        self._sync = sync
        self._dictionaries = dictionaries
        self._file: DataFileWriter | None = None
        self._path = ""
        self._complete: list[table_pb2.DataFragment] = []
        self._complete_bytes = 0
        self.num_rows = 0
        """Rows written so far."""

    @property
    def num_bytes(self) -> int:
        """About how many bytes the files have so far."""
        return self._complete_bytes + (self._file.num_bytes if self._file else 0)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; columns and types are those of the schema, as `Conformer.conform` gives them.

        Raises:
            LanceError: the writer of the file refused a value, or the storage failed. Then `abort` it.
        """
        for piece in slices(batch):
            start = 0
            while start < piece.num_rows:
                file = self._file or self._begin()
                room = self._limits.max_rows - file.num_rows
                part = piece if piece.num_rows <= room and not start else piece.slice(start, room)
                file.write(part)
                start += part.num_rows
                self.num_rows += part.num_rows
                if file.num_rows >= self._limits.max_rows or file.reaches(self._limits.max_bytes):
                    self._end(file)

    def finish(self) -> Sequence[table_pb2.DataFragment]:
        """Complete the last file. The fragments have no ids yet; nobody sees them before a commit."""
        if self._file is not None:
            self._end(self._file)
        if self._complete and self._sync:
            self._storage.sync_directory(DIRECTORY)
        return self._complete

    def abort(self) -> None:
        """Remove every file that was written; what cannot be removed is an orphan, and harmless."""
        if self._file is not None:
            self._file.abort()
            self._file = None
        for fragment in self._complete:
            for file in fragment.files:
                with suppress(StorageError):
                    delete_data_file(self._storage, f"{DIRECTORY}/{file.path}")
        self._complete.clear()

    def _begin(self) -> DataFileWriter:
        self._path = new_file_name()
        path = f"{DIRECTORY}/{self._path}"
        side_files = SideFiles(self._storage, path, sync=self._sync)
        file = self._storage.create_file(path, sync=self._sync)
        try:
            self._file = open_writer(
                file, self._schema, self._version, self._options, side_files, self._dictionaries
            )
        except BaseException:
            file.abort()
            raise
        if self._progress is not None:
            self._progress.begin(_view(table_pb2.DataFragment()))
        return self._file

    def _end(self, file: DataFileWriter) -> None:
        written = file.finish()
        self._file = None
        message = describe_file(self._path, written)
        fragment = table_pb2.DataFragment(files=[message], physical_rows=written.num_rows)
        self._complete.append(fragment)
        self._complete_bytes += written.num_bytes
        if self._progress is not None:
            self._progress.complete(_view(fragment))


def _view(fragment: table_pb2.DataFragment) -> Fragment:
    return Fragment(fragment, "new fragment", None, {})


def describe_file(name: str, written: WrittenFile) -> table_pb2.DataFile:
    """Return the entry in a manifest for a file of that name in `data/`."""
    major, minor = written.version.in_manifest
    return table_pb2.DataFile(
        path=name,
        fields=written.field_ids,
        column_indices=written.column_indices,
        file_major_version=major,
        file_minor_version=minor,
        file_size_bytes=written.num_bytes,
    )


def new_file_name() -> str:
    """Return a unique name that begins with binary digits, so that object stores spread the files of a
    table.
    """
    number = uuid4().bytes
    return f"{int.from_bytes(number[:3], 'big'):024b}{number[3:].hex()}.lance"
