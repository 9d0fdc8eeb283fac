"""Readers of the columns of data files: one interface for all versions."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from lance_core.encodings.picking import Picking
from lance_core.errors import UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.file.metadata import FileMetadata
from lance_core.file.page_ranges import PageRange, PlainValues
from lance_core.file.row_runs import Rows
from lance_core.file.v2_1 import reader as v2_1
from lance_core.kernels import ColumnPages, PlainPages
from lance_core.schema.fields import Field
from lance_core.storage.base import ReadableFile


class ColumnReader(Protocol):
    """One top-level column of one data file. Thread-safe."""

    @property
    def num_rows(self) -> int:
        """Number of rows of the file."""

    @property
    def page_rows(self) -> Sequence[int]:
        """First row of each page of the widest leaf, and the number of rows at the end."""

    @property
    def bytes_per_row(self) -> float:
        """Estimated bytes of a decoded row."""

    @property
    def dense_share(self) -> float:
        """Share of the rows of a block from which on decoding all of it costs less than picking rows."""

    @property
    def known_bytes(self) -> int:
        """Estimated memory that the open column takes: pages, indices, dictionaries, in bytes."""

    def read(self, start: int, end: int) -> list[pa.Array]:
        """Return the rows `[start, end)` as arrays of the field's storage type, in order.

        Raises:
            CorruptFileError: the bytes contradict the format.
            StorageError: the storage failed.
        """

    def page_ranges(self, start: int, end: int) -> list[PageRange] | None:
        """Return the page ranges of rows `[start, end)`, for `decode_page_ranges` of several columns.

        Returns None if the column has to be read on its own. Raises the errors of `read`.
        """

    def plain_values(self, start: int, end: int) -> PlainValues | None:
        """Return the place of the values of rows `[start, end)`, for kernels that use them in the file.

        Returns None if they have to be read: the file is remote, the values are encoded, or they are in more
        than one page. Raises the errors of `read`.
        """

    def plain_pages(self) -> PlainPages | None:
        """Return the places of all pages, for kernels that use single values in the file.

        Returns None if values have to be taken; see `plain_values`.
        """

    def pages_at(self, rows: Rows) -> ColumnPages | None:
        """Return the pages that have `rows`, for one take of several columns with `kernels.take_rows`.

        The rows may be in any order. Returns None if they have to be taken from this column on its own.
        Raises the errors of `read`.
        """

    def take(self, rows: Rows) -> list[pa.Array]:
        """Return the values at `rows`, which are strictly ascending, as arrays of the storage type, in order.

        Little more than these rows is decoded. Errors are those of `read`.
        """

    def pick(self, rows: Rows) -> Picking[list[pa.Array]]:
        """Return a picking that takes rows like `take`. The caller reads the ranges of several columns
        together.

        Raises:
            OffsetOverflow: one array cannot hold the values; `take` returns several arrays then.
        """


def open_column(
    file: ReadableFile, metadata: FileMetadata, field: Field, columns: Mapping[int, int]
) -> ColumnReader:
    """Return the reader of a top-level column.

    Args:
        file: the data file.
        metadata: the metadata of the file.
        field: the column. If it has fewer children than the column in the file, only these are read.
        columns: column index in the file for each field id that owns a column. A field without an index is
            read as null.

    Raises:
        UnsupportedFeatureError: a file version or a kind of column that is not supported.
        CorruptFileError: pages that contradict each other or the file.
    """
    if metadata.version in (FileVersion.V2_1, FileVersion.V2_2):
        return v2_1.ColumnReader(file, metadata, field, columns)
    if metadata.version == FileVersion.V2_0:
        from lance_core.file.v2_0 import (
            reader as v2_0,  # not needed by most processes, which start sooner without it
        )

        return v2_0.ColumnReader(file, metadata, field, columns)
    raise UnsupportedFeatureError(
        "columns of this file version are not read yet",
        file=file.name,
        column=field.name,
        found=metadata.version,
    )
