"""Small files of 2.1 and 2.2 in memory, of which a column of all files is decoded at once.

To open a file and its columns costs more than to decode some hundred rows. So the metadata of all files are
parsed together, and pages with the same layout are decoded as one page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.picking import Int64s
from lance_core.encodings.v2_1.file_pages import FilePages
from lance_core.encodings.v2_1.layout import decode_file_pages
from lance_core.encodings.values import concat_arrays, take_values
from lance_core.errors import UnsupportedFeatureError
from lance_core.file.footer import FOOTER_BYTES, TABLE_ENTRY_BYTES, FileVersion, parse_footers, version_bytes
from lance_core.file.v2_1.leaves import LeafField, assemble, leaf_fields
from lance_core.kernels import CorruptData
from lance_core.schema.arrow_values import array_of
from lance_core.schema.fields import Field
from lance_core.schema.physical_columns import owns_column


class JoinedFiles:
    """Files of one version, one behind the other. Their rows are numbered in the order of the files.

    Errors name no file: a caller reads the files one by one to raise the error that does. Files that
    contradict the format raise CorruptData.
    """

    def __init__(
        self, contents: Sequence[bytes | memoryview], num_rows: Int64s, version: FileVersion
    ) -> None:
        """Join the bytes of files, which have `num_rows` rows each.

        Raises:
            CorruptData: a file is too short, or its footer is not that of such a file.
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
        if (footers["version"] != version_bytes(version)).any():
            raise CorruptData("a file of another version")
        self._num_columns = int(footers["num_columns"].min())
        tables = footers["column_table_start"]
        table_bytes = footers["num_columns"].astype(np.uint64) * np.uint64(TABLE_ENTRY_BYTES)
        room = (self._sizes - FOOTER_BYTES).astype(np.uint64)
        if (table_bytes > room).any() or (tables > room - table_bytes).any():
            raise CorruptData("a table of columns outside its file")
        self._tables = self._starts + tables.astype(np.int64)

    def some(self, numbers: Int64s) -> JoinedFiles:
        """Return the files with these numbers."""
        data = memoryview(self._data)
        ends = self._starts + self._sizes
        contents = [data[self._starts[number] : ends[number]] for number in numbers]
        return JoinedFiles(contents, self._num_rows[numbers], self._version)

    def read(self, field: Field, columns: Mapping[int, int], most_bytes: int) -> pa.Array:
        """Return a top-level column of all files as one array of the field's storage type.

        `columns` has the column of each field at and below `field`, which is the same in all files.

        Raises:
            CorruptData: a file contradicts the format.
            UnsupportedFeatureError: the column has to be read file by file.
            OffsetOverflow, pyarrow.ArrowCapacityError: the values do not fit into one array.
            TooManyBytes: the estimated size of the decoded leaves is above `most_bytes`.
        """
        leaves = [leaf for leaf in leaf_fields(field) if leaf.field_id in columns]
        if not leaves:
            raise UnsupportedFeatureError("column without any stored leaf", column=field.name)
        found = [self._pages(leaf, columns[leaf.field_id]) for leaf in leaves]
        arrays, order = [], []
        room = most_bytes
        for files in _alike([pages for _, pages in found]):
            slices = {}
            for leaf, (layouts, pages) in zip(leaves, found, strict=True):
                kind, layout = layouts[int(pages.layout[files[0]])]
                slice_ = decode_file_pages(kind, layout, leaf.type, pages.some(files), room)
                room -= slice_.array.get_total_buffer_size()
                length = slice_.layers[-1].length if slice_.layers else len(slice_.array)
                if length != self._num_rows[files].sum():
                    raise CorruptData(f"pages of {length} rows")
                slices[leaf.field_id] = slice_
            if owns_column(field):
                arrays.append(slices[field.id].array)
            else:
                array, _ = assemble(field, slices)
                arrays.append(array)
            order.append(files)
        if len(arrays) == 1:
            return arrays[0]
        return take_values(concat_arrays(arrays), array_of(_in_order(np.concatenate(order), self._num_rows)))

    def _pages(self, leaf: LeafField, column: int) -> tuple[list[tuple[int, bytes]], FilePages]:
        """Return the layouts of the pages of a leaf, and the pages, one of each file."""
        if not 0 <= column < self._num_columns:
            raise CorruptData(f"no column {column}")
        entries = self._tables + column * TABLE_ENTRY_BYTES
        table = self._bytes[entries[:, np.newaxis] + np.arange(TABLE_ENTRY_BYTES)].view("<u8")
        if (table > self._sizes[:, np.newaxis].astype(np.uint64)).any():
            raise CorruptData("metadata of a column outside its file")
        positions, sizes = table.astype(np.int64).T
        if (positions + sizes > self._sizes).any():
            raise CorruptData("metadata of a column outside its file")
        layouts, records = kernels.parse_file_pages(
            self._data, self._starts, self._sizes, self._starts + positions, np.ascontiguousarray(sizes)
        )
        pages = FilePages.parse(self._data, memoryview(records))
        if (pages.num_rows != self._num_rows * leaf.num_slots_per_row).any():
            raise CorruptData("pages that do not add up to the rows of their file")
        return layouts, pages


def _alike(leaves: Sequence[FilePages]) -> list[Int64s]:
    """Return the numbers of the files, in groups whose pages have the same layout in each of the leaves."""
    layouts = np.stack([pages.layout for pages in leaves], axis=1)
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
