"""One more data file for a fragment that exists: other columns of the same rows.

A file of a fragment has a row for every physical row. Rows that are deleted get a null, or where none can
be a copy of their neighbour: nobody reads them.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.encodings.values import take_values
from lance_core.errors import InvalidInputError, StorageError, UnsupportedFeatureError
from lance_core.file.data_file import open_data_file
from lance_core.file.footer import FileVersion
from lance_core.file.side_files import SideFiles, delete_data_file
from lance_core.file.v0_1.reader import LegacyFile
from lance_core.file.writer import DataFileWriter, open_writer
from lance_core.file.writer_options import WriteOptions
from lance_core.proto import table_pb2
from lance_core.schema import Schema
from lance_core.statistics.page_recorder import FilePageRecorder
from lance_core.storage import Storage
from lance_core.table.fragment import Fragment
from lance_core.table.snapshot import Snapshot
from lance_core.write.batch_sources import slices
from lance_core.write.fragments import DIRECTORY, describe_file, new_file_name


class ColumnFileWriter:
    """Writes columns of the rows of one fragment from batches that are pushed; for one thread."""

    def __init__(
        self,
        snapshot: Snapshot,
        fragment: Fragment,
        schema: Schema,
        *,
        with_deleted_rows: bool = False,
        sync: bool = True,
    ) -> None:
        """Begin a file with the fields of `schema`.

        Args:
            snapshot: the version that has the fragment.
            fragment: whose rows these are.
            schema: the columns, with the ids that they have or get in the table.
            with_deleted_rows: the batches have all physical rows, not only those that are not deleted.
            sync: make the file durable before `finish` returns.

        Raises:
            UnsupportedFeatureError: a type that files of the table's version cannot hold.
            StorageError: the storage failed.
        """
        self._storage = snapshot.storage
        self._physical_rows = fragment.physical_rows
        deleted = np.empty(0, np.uint32) if with_deleted_rows else snapshot.read_deletions(fragment)
        self._deleted = deleted.astype(np.int64)
        self._last: pa.RecordBatch | None = None
        """The row before, while rows are deleted."""
        self._name = new_file_name()
        version, options = _version_and_options(snapshot, fragment)
        keeps_nulls = version >= FileVersion.V2_1  # the others have none of some types
        self._nullable = [keeps_nulls and field.nullable for field in schema.fields]
        path = f"{DIRECTORY}/{self._name}"
        side_files = SideFiles(snapshot.storage, path, sync=sync)
        file = snapshot.storage.create_file(path, sync=sync)
        try:
            self._file: DataFileWriter = open_writer(file, schema, version, options, side_files)
        except BaseException:
            file.abort()
            raise

    @property
    def num_rows(self) -> int:
        """Rows of the file so far, deleted ones included."""
        return self._file.num_rows

    @property
    def num_rows_left(self) -> int:
        """Rows that `write` still takes."""
        ahead = len(self._deleted) - int(np.searchsorted(self._deleted, self.num_rows))
        return self._physical_rows - self.num_rows - ahead

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; columns and types are those of the schema, as `Conformer.conform` gives them.

        Raises:
            InvalidInputError: more rows than the fragment has.
            LanceError: the writer of the file refused a value, or the storage failed. Then `abort` it.
        """
        if batch.num_rows > self.num_rows_left:
            raise InvalidInputError(
                "more rows than the fragment has", expected=self.num_rows_left, found=batch.num_rows
            )
        for piece in slices(batch):
            if piece.num_rows:
                self._file.write(self._among_deleted(piece) if len(self._deleted) else piece)

    def finish(self) -> table_pb2.DataFile:
        """Complete the file; it belongs to no version yet, and its name is durable when the directory is.

        Raises:
            InvalidInputError: fewer rows than the fragment has.
        """
        if self.num_rows_left:
            raise InvalidInputError(
                "fewer rows than the fragment has",
                expected=self.num_rows + self.num_rows_left,
                found=self.num_rows,
            )
        rest = self._physical_rows - self.num_rows
        if rest:
            if self._last is None:
                raise InvalidInputError("all rows of the fragment are deleted")
            self._file.write(self._filled(self._last, np.zeros(rest, np.int64), np.ones(rest, np.bool_)))
        written = self._file.finish()
        return describe_file(self._name, written)

    def abort(self) -> None:
        """Remove the file."""
        self._file.abort()
        delete_files(self._storage, [self._name])

    def _among_deleted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch at their places, after and between those that are deleted."""
        self._last = batch.slice(batch.num_rows - 1)
        start = self.num_rows
        # Deleted rows in front of each row that is not, beginning with the next row of the file.
        deleted = self._deleted[np.searchsorted(self._deleted, start) :]
        live_before = deleted - start - np.arange(len(deleted))
        places = np.arange(batch.num_rows)
        places += np.searchsorted(live_before, places, side="right")
        end = int(places[-1]) + 1
        if end == batch.num_rows:
            return batch
        sources = np.searchsorted(places, np.arange(end))
        is_deleted = np.ones(end, np.bool_)
        is_deleted[places] = False
        return self._filled(batch, sources, is_deleted)

    def _filled(
        self, batch: pa.RecordBatch, sources: npt.NDArray[np.int64], is_deleted: npt.NDArray[np.bool_]
    ) -> pa.RecordBatch:
        """Rows of a batch by their numbers, those of deleted rows null where that is allowed."""
        copied, nulled = pa.array(sources), pa.array(sources, mask=is_deleted)
        arrays = [
            take_values(array, nulled if nullable else copied)
            for array, nullable in zip(batch.columns, self._nullable, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def delete_files(storage: Storage, names: Iterable[str]) -> None:
    """Remove data files that belong to no version; what cannot be removed is an orphan, and harmless."""
    for name in names:
        with suppress(StorageError):
            delete_data_file(storage, f"{DIRECTORY}/{name}")


def _version_and_options(snapshot: Snapshot, fragment: Fragment) -> tuple[FileVersion, WriteOptions]:
    """Return the version of the files of a fragment, and how another one is written."""
    options = WriteOptions(recorder=FilePageRecorder)
    for file in fragment.files:
        if file.version == FileVersion.V0_1:
            return file.version, replace(options, batch_rows=_batch_rows(snapshot, fragment))
        return file.version, options
    return FileVersion.from_name(snapshot.manifest.data_storage_version), options


def _batch_rows(snapshot: Snapshot, fragment: Fragment) -> int:
    """Rows of the batches of 0.1 files: readers expect all files of a fragment to have the same batches."""
    data_file = fragment.files[0]
    with snapshot.storage_of(data_file.base_id).open_file(data_file.path) as file:
        reader = open_data_file(file, data_file.version)
        assert isinstance(reader, LegacyFile)
        rows = np.diff(reader.batch_offsets)
    if (rows[:-1] != rows[0]).any() or rows[-1] > rows[0]:
        raise UnsupportedFeatureError(
            "adding columns to a 0.1 file whose batches differ in size", file=data_file.path
        )
    return int(rows[0])
