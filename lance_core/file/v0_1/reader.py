"""Reader of 0.1 ("legacy") files: a matrix of pages, one row per field and one column per batch of rows.

    pages ... | page table | statistics | dictionary values | manifest | metadata | footer (16 bytes)

Only the footer has a fixed position: u64 position of the metadata, u16 major, u16 minor, "LANC". The manifest
(the schema of the file) and the metadata are protobuf messages after a u32 length. A cell of the page table
is (i64 position, i64 items). Its first row belongs to the smallest field id of the file. The encoding of a
page follows from the type of its field. Source: docs/format.md, "0.1".
"""

import struct
from collections.abc import Mapping
from functools import cached_property
from typing import TypeVar

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError, Message

from lance_core.encodings.picking import Picking
from lance_core.encodings.v0_1.describe import PageDescription, describe_pages
from lance_core.encodings.v0_1.dictionary import DictionaryReader, read_values
from lance_core.encodings.v0_1.nested import ListReader, NullReader, StructReader
from lance_core.encodings.v0_1.pages import Numbers, Pages, Reader, Run
from lance_core.encodings.v0_1.plain import PlainReader
from lance_core.encodings.v0_1.var_binary import BlobReader, VarBinaryReader
from lance_core.encodings.values import offset_bits
from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion, parse_version
from lance_core.file.metadata import COLUMN_BYTES, METADATA_GROWTH
from lance_core.file.row_runs import read_rows
from lance_core.kernels import OffsetOverflow
from lance_core.proto import file_pb2, table_pb2
from lance_core.schema import Schema
from lance_core.schema.fields import Field
from lance_core.storage.base import ReadableFile

_FOOTER = struct.Struct("<Q8x")
_LENGTH = struct.Struct("<I")
_CELL_BYTES = 16
_TAIL_BYTES = 64 << 10
_Message = TypeVar("_Message", bound=Message)
_LISTS = ("list", "list.struct", "large_list", "large_list.struct")


class LegacyFile:
    """One open 0.1 file; see `lance_core.file.data_file.DataFileReader`."""

    version = FileVersion.V0_1

    def __init__(self, file: ReadableFile) -> None:
        """Read the metadata and the schema of a file.

        Raises:
            CorruptFileError: the bytes contradict the format, or the file has another version.
            StorageError: the storage failed.
        """
        self.file = file
        start = max(file.size - _TAIL_BYTES, 0)
        tail = memoryview(file.read(start, file.size - start))
        if (version := parse_version(bytes(tail[-8:]), file.name)) != FileVersion.V0_1:
            raise CorruptFileError(
                "the file version differs from the one in the manifest",
                file=file.name,
                expected=FileVersion.V0_1,
                found=version,
            )
        end = file.size - _FOOTER.size
        if end < 0:
            raise CorruptFileError(
                "file is too short for a footer", file=file.name, expected=16, found=file.size
            )
        (position,) = _FOOTER.unpack(tail[-_FOOTER.size :])
        self.metadata = self._message(file_pb2.Metadata, position, end, start, tail)
        self._manifest = table_pb2.Manifest()
        if self.metadata.manifest_position:
            position = self.metadata.manifest_position
            self._manifest = self._message(table_pb2.Manifest, position, end, start, tail)
        self.batch_offsets = np.array(self.metadata.batch_offsets or [0], np.int64)
        if self.batch_offsets[0] != 0 or (np.diff(self.batch_offsets) < 0).any():
            raise CorruptFileError("batches do not follow each other", file=file.name)
        self.num_rows = int(self.batch_offsets[-1])
        self.pages = PageTable(file, self.metadata.page_table_position, len(self.batch_offsets) - 1)

    @cached_property
    def schema(self) -> Schema:
        """Schema in the file itself, without dictionary values. (A table has its own values.)"""
        manifest = self._manifest
        return Schema(manifest.fields, manifest.schema_metadata, file=self.file.name)

    @property
    def known_bytes(self) -> int:
        """Estimated memory of the metadata without columns, in bytes."""
        return METADATA_GROWTH * self.metadata.ByteSize()

    def open_column(self, field: Field, columns: Mapping[int, int]) -> "ColumnReader":
        """Return the reader of a column. `columns` counts fields from the smallest field id of the file
        on.
        """
        rows = {field_id: number + self._rows_before for field_id, number in columns.items()}
        return ColumnReader(self.pages, self.batch_offsets, field, rows)

    def page_descriptions(self, field: Field) -> list[PageDescription]:
        """Describe the pages of a field of the file's own schema. Structs have no pages."""
        if field.logical_type == "struct":
            return []
        row = field.id - min(message.id for message in self._manifest.fields) + self._rows_before
        return describe_pages(self.pages.pages(row, field), field.arrow_type)

    @cached_property
    def _rows_before(self) -> int:
        """Number of empty rows of the page table before the row of the smallest field id.

        Releases before 0.8 began the table at field id 0. They wrote no statistics, so the manifest is at
        least as far behind the table as such a table is long.
        """
        ids = [message.id for message in self._manifest.fields]
        smallest = min(ids, default=0)
        if not smallest or self.metadata.HasField("statistics") or not self.pages.num_batches:
            return 0
        room = (self.metadata.manifest_position - self.pages.position) // self.pages.row_bytes
        if room <= max(ids) or any(self.pages.cells(row).any() for row in range(smallest)):
            return 0
        return smallest

    def _message(
        self, kind: type[_Message], position: int, end: int, tail_start: int, tail: memoryview
    ) -> _Message:
        """Return the message at `position`, where its length is. It is read from `tail` if it lies there."""
        name = kind.DESCRIPTOR.name.lower()
        start = position + _LENGTH.size
        if start > end:
            raise CorruptFileError(
                f"{name} is outside the file", file=self.file.name, expected=end, found=position
            )
        if position < tail_start:
            tail_start, tail = position, memoryview(self.file.read(position, end - position))
        (length,) = _LENGTH.unpack_from(tail, position - tail_start)
        if start + length > end:
            raise CorruptFileError(
                f"{name} reaches into the footer", file=self.file.name, expected=end, found=start + length
            )
        try:
            return kind.FromString(bytes(tail[start - tail_start : start - tail_start + length]))
        except DecodeError:
            raise CorruptFileError(f"{name} does not decode", file=self.file.name) from None


class PageTable:
    """The page table: position and number of items of each page. Rows are read one by one, on request."""

    def __init__(self, file: ReadableFile, position: int, num_batches: int) -> None:
        self.file = file
        self.position = position
        self.num_batches = num_batches

    @property
    def row_bytes(self) -> int:
        return self.num_batches * _CELL_BYTES

    def pages(self, row: int, field: Field) -> Pages:
        """Return the pages of a field."""
        cells = self.cells(row, field.name)
        # The cell of a list counts offsets: one more than there are lists.
        lengths = cells[:, 1] - 1 if field.logical_type in _LISTS else cells[:, 1]
        return Pages(self.file, field.name, cells[:, 0], lengths)

    def cells(self, row: int, column: str | None = None) -> Numbers:
        """Return the (position, items) pairs of one row.

        Raises:
            CorruptFileError: the row is outside the file.
        """
        position = self.position + row * self.row_bytes
        if position < 0 or position + self.row_bytes > self.file.size:
            raise CorruptFileError(
                "page table is outside the file",
                file=self.file.name,
                column=column,
                expected=f"{self.row_bytes} bytes within {self.file.size}",
                found=position,
            )
        cells = np.frombuffer(self.file.read(position, self.row_bytes), "<i8").reshape(-1, 2)
        return cells.astype(np.int64, copy=False)


class ColumnReader:
    """One top-level column of one file; see `lance_core.file.column_readers`."""

    dense_share = 3 / 4

    def __init__(
        self, table: PageTable, batch_offsets: Numbers, field: Field, rows: Mapping[int, int]
    ) -> None:
        """Open a field. `rows` maps the ids of the field and of the fields below it to rows of the page
        table.

        Raises:
            UnsupportedFeatureError: a type that 0.1 files cannot hold.
            CorruptFileError: the page table contradicts the file or its batches.
        """
        self._table = table
        self._batch_offsets = batch_offsets
        self._field = field
        self._rows = rows
        self._reader = self._open(field, np.diff(batch_offsets))
        self.num_rows = int(batch_offsets[-1])
        self.page_rows = tuple(batch_offsets.tolist())

    @cached_property
    def bytes_per_row(self) -> float:
        """Estimated bytes of a decoded row."""
        return self._reader.num_bytes / max(self.num_rows, 1)

    @property
    def known_bytes(self) -> int:
        """Estimated memory of the open column, in bytes. The page table belongs to the file."""
        return COLUMN_BYTES + self._table.row_bytes * len(self._rows)

    def read(self, start: int, end: int) -> list[pa.Array]:
        """Return the rows `[start, end)` as arrays of the field's storage type, in order.

        There is one array, unless its offsets would be too large.

        Raises:
            CorruptFileError: the bytes contradict the format.
            StorageError: the storage failed.
        """
        if not 0 <= start <= end <= self.num_rows:
            raise ValueError(f"rows [{start}, {end}) of {self.num_rows}")
        if start == end:
            return []
        try:
            return [self._reader.read(self._run(start, end))]
        except OffsetOverflow:
            if end - start == 1:
                raise self._corrupt("one row is larger than 32-bit offsets can address") from None
        except MemoryError:
            raise self._corrupt("pages need more memory than there is") from None
        except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
            raise self._corrupt(str(error)) from None
        middle = (start + end) // 2
        return self.read(start, middle) + self.read(middle, end)

    def take(self, rows: Numbers) -> list[pa.Array]:
        """Return the values at ascending rows; see `lance_core.file.column_readers`."""
        return read_rows(self, rows)

    def page_ranges(self, start: int, end: int) -> None:
        """Return None: the column is read on its own."""

    def plain_values(self, start: int, end: int) -> None:
        """Return None: values are always decoded."""

    def plain_pages(self) -> None:
        """Return None, as above."""

    def pages_at(self, rows: Numbers) -> None:
        """Return None: rows are taken from the column on its own."""

    def pick(self, rows: Numbers) -> Picking[list[pa.Array]]:
        """Take rows at once. The picking requests no ranges, because the column reads on its own."""
        return self.take(rows)
        yield []  # makes this method a generator

    def _run(self, start: int, end: int) -> Run:
        first = int(np.searchsorted(self._batch_offsets, start, side="right")) - 1
        last = int(np.searchsorted(self._batch_offsets, end))
        begins = self._batch_offsets[first:last]
        starts = np.maximum(begins, start) - begins
        counts = np.minimum(self._batch_offsets[first + 1 : last + 1], end) - begins - starts
        return Run(first, starts, counts)

    def _open(self, field: Field, num_items: Numbers | None) -> Reader:
        """Return the reader of a field with `num_items` items per batch. It is None below lists, whose
        offsets have the numbers.
        """
        kind, arrow_type = field.logical_type, field.arrow_type
        if not any(node.id in self._rows for node in field.walk()):
            return NullReader(arrow_type)
        if field.is_blob_descriptor:
            return BlobReader(self._pages(field, num_items), arrow_type)
        if kind == "struct":
            return StructReader(arrow_type, [self._open(child, num_items) for child in field.children])
        if field.id not in self._rows:
            raise self._corrupt(f"field {field.name!r} has no pages where those below it do")
        pages = self._pages(field, num_items)
        if kind in _LISTS:
            return ListReader(pages, arrow_type, self._open(field.children[0], None))
        if field.children:
            raise UnsupportedFeatureError(
                "type in a 0.1 file", file=self._table.file.name, column=field.name, found=kind
            )
        if pa.types.is_null(arrow_type):
            return NullReader(arrow_type, pages)
        if pa.types.is_dictionary(arrow_type):
            if field.dictionary is None:
                raise self._corrupt(f"dictionary field {field.name!r} has no values")
            values = read_values(field.dictionary, arrow_type.value_type, field.name)
            return DictionaryReader(pages, arrow_type, values)
        if offset_bits(arrow_type):
            return VarBinaryReader(pages, arrow_type, nullable=field.nullable)
        return PlainReader(pages, arrow_type)

    def _pages(self, field: Field, num_items: Numbers | None) -> Pages:
        """Return the pages of a field, after checking their items against the rows of the batches."""
        pages = self._table.pages(self._rows[field.id], field)
        if num_items is not None and (pages.lengths != num_items).any():
            page = int((pages.lengths != num_items).argmax())
            raise pages.corrupt(
                page, "page has a wrong number of items", num_items[page], pages.lengths[page]
            )
        return pages

    def _corrupt(self, message: str) -> CorruptFileError:
        return CorruptFileError(message, file=self._table.file.name, column=self._field.name)
