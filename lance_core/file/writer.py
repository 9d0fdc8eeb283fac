"""Data files being written, whatever the version: record batches in, one file out."""

from typing import Protocol

import pyarrow as pa

from lance_core.file.footer import FileVersion
from lance_core.file.side_files import SideFiles
from lance_core.file.v0_1 import writer as v0_1_writer
from lance_core.file.v0_1.dictionaries import Dictionaries
from lance_core.file.v2_0 import writer as v2_0_writer
from lance_core.file.v2_1 import writer as v2_1_writer
from lance_core.file.written import WriteOptions, WrittenFile
from lance_core.schema import Schema
from lance_core.storage.base import WritableFile


class DataFileWriter(Protocol):
    """One data file in the making; for one thread. Memory is bounded by columns times page size."""

    @property
    def num_rows(self) -> int:
        """Rows written so far."""

    @property
    def num_bytes(self) -> int:
        """About how large the file is so far: what is on disk, and what is still to be encoded."""

    def reaches(self, num_bytes: int) -> bool:
        """Return whether the file has so many bytes, rows that wait counted as they came.

        The same rows get the same answer, however fast pages are encoded.
        """

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows. Columns are those of the schema, in its order, with its types.

        Raises:
            InvalidInputError: columns or types that are not the schema's, nulls where it allows none.
            UnsupportedFeatureError: values that a file of this version cannot hold.
            StorageError: the storage failed.
        """

    def finish(self) -> WrittenFile:
        """Write what is left and the metadata, and close the file: it appears, whole, under its name."""

    def abort(self) -> None:
        """Drop the file. Does nothing to one that is finished."""


def open_writer(
    file: WritableFile,
    schema: Schema,
    version: FileVersion,
    options: WriteOptions | None = None,
    side_files: SideFiles | None = None,
    dictionaries: Dictionaries | None = None,
) -> DataFileWriter:
    """Start a data file.

    Args:
        file: where it goes; the writer closes it.
        schema: the columns, with the field ids they have in the table.
        version: of the file.
        options: the defaults where not given.
        side_files: where larger blobs of version 2 go, completed and aborted with the file; None: into it.
        dictionaries: the values of dictionary columns of 0.1 files; None: they are refused.

    Raises:
        UnsupportedFeatureError: a version that is not written, or a type that this version cannot hold;
            the message names them.
    """
    options = options or WriteOptions()
    if version in (FileVersion.V2_1, FileVersion.V2_2):
        return v2_1_writer.FileWriter(file, schema, version, options, side_files)
    if version == FileVersion.V2_0:
        return v2_0_writer.FileWriter(file, schema, options)
    return v0_1_writer.FileWriter(file, schema, options, dictionaries)
