"""Small 2.x files in memory, of which a column of all files is decoded at once.

To open a file and its columns costs more than to decode some hundred rows. So the metadata of all files are
parsed together, and pages with the same layout are decoded as one page. The versions differ in the columns
of a field, in how pages are described, and in how they are decoded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_core.encodings.file_pages import FilePages
from lance_core.encodings.picking import Int64s
from lance_core.encodings.values import concat_arrays, take_values
from lance_core.errors import UnsupportedFeatureError
from lance_core.file.footer import FOOTER_BYTES, TABLE_ENTRY_BYTES, FileVersion, parse_footers, version_bytes
from lance_core.kernels import Block, CorruptData
from lance_core.proto import file_pb2
from lance_core.schema.arrow_values import array_of
from lance_core.schema.fields import Field


class AlikePages(NamedTuple):
    """Pages of one column, of one file each, with the same layout.

    Attributes:
        kind: The number of the field of the description that has the layout.
        layout: The layout, without the counts of single pages.
    """

    kind: int
    layout: bytes
    pages: FilePages


class Places(NamedTuple):
    """Bytes of files, where each file lies in them, and where the metadata of one of its columns lies."""

    data: bytes
    starts: Int64s
    sizes: Int64s
    metadata: Int64s
    metadata_sizes: Int64s


class JoinedFiles(ABC):
    """Files of one version, one behind the other. Their rows are numbered in the order of the files.

    Errors name no file: a caller reads the files one by one to raise the error that does. Files that
    contradict the format raise CorruptData.
    """

    def __init__(
        self, contents: Sequence[bytes | memoryview], num_rows: Int64s, version: FileVersion
    ) -> None:
        """Join the bytes of files, which have `num_rows` rows each.

        Raises:
            CorruptData: a file is too short, or its footer or its descriptor is not that of such a file.
        """
        self._num_rows = num_rows
        self._version = version
        self._sizes = np.array([len(content) for content in contents], np.int64)
        if (self._sizes < FOOTER_BYTES).any():
            raise CorruptData("a file that is too short for a footer")
        self._data = b"".join(contents)
        self._bytes = np.frombuffer(self._data, np.uint8)
        ends = np.cumsum(self._sizes)
        self._starts = ends - self._sizes
        footers = parse_footers(self._bytes, ends)
        if not np.isin(footers["version"], version_bytes(version)).all():
            raise CorruptData("a file of another version")
        self._num_columns = int(footers["num_columns"].min())
        self._metadata, tables = footers["column_metadata_start"], footers["column_table_start"]
        globals_ = footers["global_table_start"]
        entry = np.uint64(TABLE_ENTRY_BYTES)
        table_bytes = footers["num_columns"].astype(np.uint64) * entry
        global_bytes = footers["num_global_buffers"].astype(np.uint64) * entry
        room = (self._sizes - FOOTER_BYTES).astype(np.uint64)
        if (global_bytes > room).any() or (globals_ > room - global_bytes).any() or not global_bytes.all():
            raise CorruptData("a table of global buffers outside its file")
        if (table_bytes > globals_).any() or (tables > globals_ - table_bytes).any():
            raise CorruptData("a table of columns outside its part of the file")
        self._tables = tables
        self._entries = self._starts + tables.astype(np.int64)
        self._check_descriptors(self._starts + globals_.astype(np.int64), footers["num_global_buffers"])

    def some(self, numbers: Int64s) -> JoinedFiles:
        """Return the files with these numbers."""
        data = memoryview(self._data)
        ends = self._starts + self._sizes
        contents = [data[self._starts[number] : ends[number]] for number in numbers]
        return type(self)(contents, self._num_rows[numbers], self._version)

    def read(self, field: Field, columns: Mapping[int, int], most_bytes: int) -> pa.Array:
        """Return a top-level column of all files as one array of the field's storage type.

        `columns` has the column of each field at and below `field`, which is the same in all files.

        Raises:
            CorruptData: a file contradicts the format.
            UnsupportedFeatureError: the column has to be read file by file.
            OffsetOverflow, pyarrow.ArrowCapacityError: the values do not fit into one array.
            TooManyBytes: the estimated size of the decoded values is above `most_bytes`.
        """
        owners = [owner for owner in self._owners(field) if owner in columns]
        if not owners:
            raise UnsupportedFeatureError("column without any stored leaf", column=field.name)
        found = {owner: self._pages(columns[owner]) for owner in owners}
        arrays, order = [], []
        room = most_bytes
        for files in _alike([pages for _, pages in found.values()]):
            alike = {
                owner: AlikePages(*layouts[int(pages.layout[files[0]])], pages.some(files))
                for owner, (layouts, pages) in found.items()
            }
            array = self._decode(field, alike, self._num_rows[files], room)
            room -= array.get_total_buffer_size()
            arrays.append(array)
            order.append(files)
        if len(arrays) == 1:
            return arrays[0]
        return take_values(concat_arrays(arrays), array_of(_in_order(np.concatenate(order), self._num_rows)))

    @staticmethod
    @abstractmethod
    def _owners(field: Field) -> Sequence[int]:
        """Return the ids of the fields at or below `field` that own a column."""

    @staticmethod
    @abstractmethod
    def _parse(places: Places) -> tuple[list[tuple[int, bytes]], Block]:
        """Return the layouts and the records of the pages of a column, if each file has one page."""

    @staticmethod
    @abstractmethod
    def _decode(field: Field, pages: Mapping[int, AlikePages], num_rows: Int64s, most_bytes: int) -> pa.Array:
        """Return a column of files whose pages have the same layouts.

        Args:
            field: the column.
            pages: the pages of each field that owns a column.
            num_rows: number of rows of each file.
            most_bytes: see `read`.
        """

    def _check_descriptors(self, tables: Int64s, num_buffers: npt.NDArray[np.uint32]) -> None:
        """Check the tables of global buffers. The first buffer is the descriptor, with the number of rows."""
        counts = num_buffers.astype(np.int64)
        firsts = np.cumsum(counts) - counts
        among_all = np.repeat(tables - firsts * TABLE_ENTRY_BYTES, counts)
        positions, sizes = self._table(among_all + np.arange(int(counts.sum())) * TABLE_ENTRY_BYTES)
        ends = np.repeat(self._sizes - FOOTER_BYTES, counts).astype(np.uint64)
        if (positions > ends).any() or (sizes > ends - positions).any():
            raise CorruptData("a global buffer outside its file")
        begins = self._starts + positions[firsts].astype(np.int64)
        ranges = zip(begins.tolist(), (begins + sizes[firsts].astype(np.int64)).tolist(), strict=True)
        descriptors = [self._data[begin:end] for begin, end in ranges]
        try:
            num_rows = {each: file_pb2.FileDescriptor.FromString(each).length for each in set(descriptors)}
        except DecodeError:
            raise CorruptData("a file descriptor that does not decode") from None
        if [num_rows[each] for each in descriptors] != self._num_rows.tolist():
            raise CorruptData("a file with another number of rows")

    def _table(self, entries: Int64s) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Return the positions and the sizes in entries of tables, which begin at `entries` in memory."""
        table = self._bytes[entries[:, np.newaxis] + np.arange(TABLE_ENTRY_BYTES)].view("<u8")
        return table[:, 0], table[:, 1]

    def _pages(self, column: int) -> tuple[list[tuple[int, bytes]], FilePages]:
        """Return the layouts of the pages of a column, and the pages, one of each file."""
        if not 0 <= column < self._num_columns:
            raise CorruptData(f"no column {column}")
        positions, sizes = self._table(self._entries + column * TABLE_ENTRY_BYTES)
        if (positions < self._metadata).any() or (positions > self._tables).any():
            raise CorruptData("metadata of a column outside its part of the file")
        if (sizes > self._tables - positions).any():
            raise CorruptData("metadata of a column outside its part of the file")
        starts = self._starts + positions.astype(np.int64)
        places = Places(self._data, self._starts, self._sizes, starts, sizes.astype(np.int64))
        layouts, records = self._parse(places)
        return layouts, FilePages.parse(self._data, memoryview(records))


def _alike(columns: Sequence[FilePages]) -> list[Int64s]:
    """Return the numbers of the files, in groups whose pages have the same layout in each of the columns."""
    layouts = np.stack([pages.layout for pages in columns], axis=1)
    if (layouts == layouts[0]).all():
        return [np.arange(len(layouts))]
    _, group = np.unique(layouts, axis=0, return_inverse=True)
    group = group.reshape(-1)
    return [np.flatnonzero(group == number) for number in range(int(group.max()) + 1)]


def _in_order(files: Int64s, num_rows: Int64s) -> npt.NDArray[np.int64]:
    """Return the places of the rows in the order of the files. They lie in the order of `files`."""
    begins = np.empty(len(files), np.int64)
    begins[files] = np.cumsum(num_rows[files]) - num_rows[files]
    firsts = np.cumsum(num_rows) - num_rows
    return np.repeat(begins - firsts, num_rows) + np.arange(int(num_rows.sum()))
