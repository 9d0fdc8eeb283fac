"""Columns of data files, whatever the version: one way in, one reader per generation of the format."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from lance_core.encodings.picking import Picking
from lance_core.errors import UnsupportedFeatureError
from lance_core.file.direct import Piece
from lance_core.file.footer import FileVersion
from lance_core.file.metadata import FileMetadata
from lance_core.file.row_runs import Rows
from lance_core.file.v2_1 import reader as v2_1
from lance_core.kernels import ColumnPages
from lance_core.schema.fields import Field
from lance_core.storage.base import ReadableFile


class ColumnReader(Protocol):
    """One top-level column of one data file; thread-safe."""

    @property
    def num_rows(self) -> int:
        """Rows of the file."""

    @property
    def page_rows(self) -> Sequence[int]:
        """Row numbers at which pages of the widest leaf begin, and the number of rows at the end."""

    @property
    def bytes_per_row(self) -> float:
        """About how many bytes a decoded row takes."""

    @property
    def known_bytes(self) -> int:
        """About how much memory is taken by what is kept of the column: pages, indices, dictionaries."""

    def read(self, start: int, end: int) -> list[pa.Array]:
        """Rows `[start, end)` as arrays of the field's storage type, in order.

        Raises:
            CorruptFileError: bytes that contradict the format.
            StorageError: the storage failed.
        """

    def pieces(self, start: int, end: int) -> list[Piece] | None:
        """Return the pieces of rows `[start, end)`, for reads of several columns at once with `read_pieces`.

        None if the column can only be read by itself. Raises the errors of `read`.
        """

    def known_pages(self) -> ColumnPages | None:
        """Return all pages, for takes of several columns at once with `kernels.take_rows`.

        None if rows can only be taken from this column by itself, or if the indices of some pages are not
        read yet.
        """

    def take(self, rows: Rows) -> list[pa.Array]:
        """Return the values at `rows`, which are strictly ascending, as arrays of the storage type, in
        order.

        Decodes little more than these rows. Errors are those of `read`.
        """

    def pick(self, rows: Rows) -> Picking[list[pa.Array]]:
        """Like `take`, as a picking, for callers that read the ranges of several columns of the file
        together.

        Raises:
            OffsetOverflow: the values need offsets of more than 32 bits; `take` then gives several arrays.
        """


def open_column(
    file: ReadableFile, metadata: FileMetadata, field: Field, columns: Mapping[int, int]
) -> ColumnReader:
    """Return the reader of a top-level column.

    Args:
        file: the data file.
        metadata: its metadata.
        field: the column; its children may be a part of what the file has, and then only these are read.
        columns: column index in the file for each field id that owns a column; fields without one read as
            null.

    Raises:
        UnsupportedFeatureError: a file version or a kind of column that is not read.
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
