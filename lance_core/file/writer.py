"""Writers of data files: one interface for all versions. Record batches become one file."""

from typing import Protocol

import pyarrow as pa

from lance_core.file.footer import FileVersion
from lance_core.file.side_files import SideFiles
from lance_core.file.v0_1 import writer as v0_1_writer
from lance_core.file.v0_1.dictionaries import Dictionaries
from lance_core.file.v2_0 import writer as v2_0_writer
from lance_core.file.v2_1 import writer as v2_1_writer
from lance_core.file.writer_options import WriteOptions, WrittenFile
from lance_core.schema import Schema
from lance_core.storage.base import WritableFile


class DataFileWriter(Protocol):
    """One data file that is being written. For one thread. Memory is bounded by the number of columns times
    the page size.
    """

    @property
    def num_rows(self) -> int:
        """Number of rows written so far."""

    @property
    def num_bytes(self) -> int:
        """Estimated size of the file so far, including rows that are not encoded yet, in bytes."""

    def reaches(self, num_bytes: int) -> bool:
        """Return whether the file has at least `num_bytes`. Rows that are not encoded count with their plain
        size.

        The same rows give the same answer, however fast pages are encoded.
        """

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows. The batch has the columns of the schema, in its order and with its types.

        Raises:
            InvalidInputError: other columns or types than the schema's, or nulls in a required column.
            UnsupportedFeatureError: values that a file of this version cannot hold.
            StorageError: the storage failed.
        """

    def finish(self) -> WrittenFile:
        """Write the remaining rows and the metadata, and close the file. Only then the file appears under its
        name.
        """

    def abort(self) -> None:
        """Discard the file. Does nothing if the file is finished."""


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
        file: destination; the writer closes it.
        schema: the columns, with their field ids in the table.
        version: version of the file.
        options: None for the defaults.
        side_files: destination of larger blobs of version 2. It is finished and aborted with the file. None
            writes all blobs to the data file.
        dictionaries: values of the dictionary columns of 0.1 files; None refuses such columns.

    Raises:
        UnsupportedFeatureError: a version that is not written, or a type that this version cannot hold;
            the message names it.
    """
    options = options or WriteOptions()
    if version in (FileVersion.V2_1, FileVersion.V2_2):
        return v2_1_writer.FileWriter(file, schema, version, options, side_files)
    if version == FileVersion.V2_0:
        return v2_0_writer.FileWriter(file, schema, options)
    return v0_1_writer.FileWriter(file, schema, options, dictionaries)
