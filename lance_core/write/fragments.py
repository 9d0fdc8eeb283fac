"""Writing fragments: batches become data files, each of which becomes a fragment. Limits start a new file."""

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
from lance_core.table.fragment import MAX_ROWS
from lance_core.write.batch_sources import slices
from lance_core.write.targets import WriteTarget


@dataclass(frozen=True)
class FileLimits:
    """Limits of a data file."""

    max_rows: int = 1 << 20
    max_bytes: int = 90 << 30
    """Approximate limit: rows that are encoded together stay in one file."""

    def __post_init__(self) -> None:
        if not 0 < self.max_rows < MAX_ROWS:
            raise InvalidInputError("max_rows_per_file", expected=f"1 to {MAX_ROWS - 1}", found=self.max_rows)
        if self.max_bytes < 0:
            raise InvalidInputError("max_bytes_per_file", expected="0 or more", found=self.max_bytes)


class FragmentObserver(Protocol):
    """Observer that is told when a fragment is begun and completed. The fragment's id is still 0."""

    def begin(self, fragment: table_pb2.DataFragment) -> None:
        """Handle the start of a data file. The fragment has no rows yet, its file no fields."""

    def complete(self, fragment: table_pb2.DataFragment) -> None:
        """Handle the end of a data file, which is not visible before the commit."""


class FragmentWriter:
    """Writer of a table's new fragments, for one thread. Its memory is bounded."""

    def __init__(
        self,
        storage: Storage,
        schema: Schema,
        version: FileVersion,
        *,
        limits: FileLimits | None = None,
        options: WriteOptions | None = None,
        progress: FragmentObserver | None = None,
        sync: bool = True,
        dictionaries: Dictionaries | None = None,
        targets: Sequence[WriteTarget] = (),
    ) -> None:
        """Prepare to write files of `version` with the columns of `schema` to `data/` in `storage`.

        If there are `targets`, each file is written to the next of them, and after the last to the first.
        Dictionary columns of 0.1 files need the `dictionaries` of the table.

        Raises:
            UnsupportedFeatureError: files of this version cannot store a type of the schema.
        """
        self._targets = targets or (WriteTarget(storage),)
        self._schema = schema
        self._version = version
        self._limits = limits or FileLimits()
        self._options = replace(options or WriteOptions(), recorder=FilePageRecorder)
        self._progress = progress
        self._sync = sync
        self._dictionaries = dictionaries
        self._file: DataFileWriter | None = None
        self._name = ""
        self._complete: list[table_pb2.DataFragment] = []
        self._complete_bytes = 0
        self.num_rows = 0
        """Rows written so far."""

    @property
    def num_bytes(self) -> int:
        """Estimated bytes of the files so far."""
        return self._complete_bytes + (self._file.num_bytes if self._file else 0)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows, whose columns and types are those of the schema, as `Conformer.conform` returns them.

        Raises:
            LanceError: the file writer refused a value, or the storage failed. Call `abort` afterwards.
        """
        for given in slices(batch):
            start = 0
            while start < given.num_rows:
                file = self._file or self._begin()
                room = self._limits.max_rows - file.num_rows
                part = given if given.num_rows <= room and not start else given.slice(start, room)
                file.write(part)
                start += part.num_rows
                self.num_rows += part.num_rows
                if file.num_rows >= self._limits.max_rows or file.reaches(self._limits.max_bytes):
                    self._end(file)

    def finish(self) -> Sequence[table_pb2.DataFragment]:
        """Complete the last file; return all fragments. They have no ids yet and are not visible before a
        commit.
        """
        if self._file is not None:
            self._end(self._file)
        for target in self._targets[: len(self._complete)] if self._sync else ():
            target.storage.sync_directory(target.directory)
        return self._complete

    def abort(self) -> None:
        """Remove all written files. A file that cannot be removed is unused, and harmless."""
        if self._file is not None:
            self._file.abort()
            self._file = None
        for number, fragment in enumerate(self._complete):
            target = self._target(number)
            for file in fragment.files:
                with suppress(StorageError):
                    delete_data_file(target.storage, target.path(file.path))
        self._complete.clear()

    def _target(self, number: int) -> WriteTarget:
        """Return the target of the file with this number."""
        return self._targets[number % len(self._targets)]

    def _begin(self) -> DataFileWriter:
        target = self._target(len(self._complete))
        self._name = new_file_name()
        path = target.path(self._name)
        side_files = SideFiles(target.storage, path, sync=self._sync)
        file = target.storage.create_file(path, sync=self._sync)
        try:
            self._file = open_writer(
                file, self._schema, self._version, self._options, side_files, self._dictionaries
            )
        except BaseException:
            file.abort()
            raise
        if self._progress is not None:
            major, minor = self._version.in_manifest
            begun = table_pb2.DataFile(
                path=self._name,
                file_major_version=major,
                file_minor_version=minor,
                base_id=target.base.id if target.base else None,
            )
            self._progress.begin(table_pb2.DataFragment(files=[begun]))
        return self._file

    def _end(self, file: DataFileWriter) -> None:
        written = file.finish()
        self._file = None
        message = describe_file(self._name, written)
        base = self._target(len(self._complete)).base
        if base is not None:
            message.base_id = base.id
        fragment = table_pb2.DataFragment(files=[message], physical_rows=written.num_rows)
        self._complete.append(fragment)
        self._complete_bytes += written.num_bytes
        if self._progress is not None:
            self._progress.complete(fragment)


def describe_file(name: str, written: WrittenFile) -> table_pb2.DataFile:
    """Return the manifest entry of the file `name` in `data/`."""
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
    """Return a unique name that begins with random binary digits, so that object stores
    distribute the files.
    """
    number = uuid4().bytes
    return f"{int.from_bytes(number[:3], 'big'):024b}{number[3:].hex()}.lance"
