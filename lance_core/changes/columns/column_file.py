"""A further data file of an existing fragment, with other columns of the same rows.

A file of a fragment has one row per physical row. Deleted rows get a null, or a copy of a neighbouring row if
the
column or the file version allows no null: their values are never read.
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
from lance_core.file.external_blobs import ExternalBlobs
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
from lance_core.write.fragments import describe_file, new_file_name
from lance_core.write.targets import DIRECTORY


class ColumnFileWriter:
    """Writer of columns of the rows of one fragment, batch by batch; for one thread."""

    def __init__(
        self,
        snapshot: Snapshot,
        fragment: Fragment,
        schema: Schema,
        *,
        with_deleted_rows: bool = False,
        external_blobs: ExternalBlobs | None = None,
        sync: bool = True,
    ) -> None:
        """Begin a file with the fields of `schema`.

        Args:
            snapshot: The version that has the fragment.
            fragment: The fragment of the rows.
            schema: The columns, with the field ids that they have or get in the table.
            with_deleted_rows: Whether the batches have all physical rows, or only live rows.
            external_blobs: Rules about blobs that stay outside the dataset. By default there are none.
            sync: Make the file durable before `finish` returns.

        Raises:
            UnsupportedFeatureError: Files of the table's version cannot hold a type.
            StorageError: The storage failed.
        """
        self._storage = snapshot.storage
        self._physical_rows = fragment.physical_rows
        deleted = np.empty(0, np.uint32) if with_deleted_rows else snapshot.read_deletions(fragment)
        self._deleted = deleted.astype(np.int64)
        self._last: pa.RecordBatch | None = None
        """The last live row, for deleted rows after it."""
        self._name = new_file_name()
        version, options = _version_and_options(snapshot, fragment)
        if external_blobs is not None:
            bases = snapshot.manifest.base_paths.values()
            options = replace(options, external_blobs=external_blobs.with_bases(bases))
        keeps_nulls = version >= FileVersion.V2_1  # older files cannot hold nulls of some types
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
        """Number of rows in the file so far, deleted rows included."""
        return self._file.num_rows

    @property
    def num_rows_left(self) -> int:
        """Number of rows that `write` still accepts."""
        ahead = len(self._deleted) - int(np.searchsorted(self._deleted, self.num_rows))
        return self._physical_rows - self.num_rows - ahead

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows. Their columns and types are those of the schema, as `Conformer.conform` returns them.

        Raises:
            InvalidInputError: The fragment has fewer rows.
            LanceError: The file cannot hold a value, or the storage failed. Call `abort` then.
        """
        if batch.num_rows > self.num_rows_left:
            raise InvalidInputError(
                "more rows than the fragment has", expected=self.num_rows_left, found=batch.num_rows
            )
        for part in slices(batch):
            if part.num_rows:
                self._file.write(self._among_deleted(part) if len(self._deleted) else part)

    def finish(self) -> table_pb2.DataFile:
        """Complete the file. It belongs to no version yet. Its name is durable after a sync of the directory.

        Raises:
            InvalidInputError: The fragment has more rows, or no live row.
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
        """Return the rows of a batch with deleted rows before and between them."""
        self._last = batch.slice(batch.num_rows - 1)
        start = self.num_rows
        # The deleted rows from the next row of the file on, and the number of live rows before each.
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
        """Return rows of a batch by number. Deleted rows are null in columns that can hold nulls."""
        copied, nulled = pa.array(sources), pa.array(sources, mask=is_deleted)
        arrays = [
            take_values(array, nulled if nullable else copied)
            for array, nullable in zip(batch.columns, self._nullable, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def delete_files(storage: Storage, names: Iterable[str]) -> None:
    """Remove data files that belong to no version. If one cannot be removed, a cleanup removes it later."""
    for name in names:
        with suppress(StorageError):
            delete_data_file(storage, f"{DIRECTORY}/{name}")


def _version_and_options(snapshot: Snapshot, fragment: Fragment) -> tuple[FileVersion, WriteOptions]:
    """Return the file version of a fragment, and the options for another file of it."""
    options = WriteOptions(recorder=FilePageRecorder)
    for file in fragment.files:
        if file.version == FileVersion.V0_1:
            return file.version, replace(options, batch_rows=_batch_rows(snapshot, fragment))
        return file.version, options
    return FileVersion.from_name(snapshot.manifest.data_storage_version), options


def _batch_rows(snapshot: Snapshot, fragment: Fragment) -> int:
    """Return the batch size of a 0.1 file, in rows. All files of a fragment must have the same batches."""
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
