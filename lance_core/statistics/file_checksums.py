"""Checks of every byte of a 2.x file of ours against the checksums in the file.

    page buffers                  CRC-32C per page, in the page statistics
    blobs in the file             part of the checksum of the page that describes them, before its buffers
    blobs in side files           CRC-32C per side file, in a buffer that ends with its own checksum
    page statistics               CRC-32C at their end
    descriptor to footer          CRC-32C in the seal before the footer
    everything between these      zero

A file of another writer has no seal and none of these checksums.

Source: docs/format.md, "Page statistics and checksums".
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_core import kernels
from lance_core.encodings.values import flatten_lists
from lance_core.errors import CorruptFileError
from lance_core.file.column_readers import ColumnReader, open_column
from lance_core.file.footer import (
    FOOTER_BYTES,
    SEAL,
    SEAL_TAG,
    TABLE_ENTRY_BYTES,
    FileVersion,
    parse_footer,
)
from lance_core.file.metadata import BufferRange, FileMetadata, read_file_metadata
from lance_core.file.side_files import CHECKSUMS_KEY, read_checksums, verify_side_file
from lance_core.number_sets import distinct
from lance_core.proto import file_pb2
from lance_core.schema import Field, leaves, nodes
from lance_core.schema.blobs import describe_blobs
from lance_core.statistics.file_buffer import METADATA_KEY, FilePageStatistics, buffer_of, from_buffer
from lance_core.storage.base import ReadableFile

_READ_BYTES = 1 << 20
_IN_THE_FILE = 0
"""Kind of a blob whose bytes are in the data file itself."""
_TOP = -1
"""Parent id of top-level fields."""


class _StoredField(NamedTuple):
    """Field that a column of a file stores."""

    top: Field
    """Top-level field with which the column is read."""
    leaf: Field


def verify_file(file: ReadableFile, open_side_file: Callable[[int], ReadableFile] | None = None) -> bool:
    """Check all bytes of a 2.x file against its checksums; return False if the file has none.

    If `open_side_file` is given, it opens side files by number, and side files with checksums are checked,
    too.

    Raises:
        CorruptFileError: a byte differs; the message names column and page if it is in one.
        UnsupportedFeatureError: the file has a version that is not read.
        StorageError: the storage failed.
    """
    checksums = FileChecksums(file, read_file_metadata(file))
    return checksums.verify_all(open_side_file)


class FileChecksums:
    """Checksums that a file contains for itself, read once; thread-safe."""

    def __init__(self, file: ReadableFile, metadata: FileMetadata) -> None:
        self.file = file
        self.metadata = metadata
        self._lock = threading.RLock()
        self._columns: dict[int, ColumnChecksums] = {}

    @property
    def is_there(self) -> bool:
        """Whether the file has checksums. If so, its metadata has been checked.

        Raises:
            CorruptFileError: the metadata differs from its checksum.
            StorageError: the storage failed.
        """
        with self._lock:
            return self._has_seal

    def column(self, index: int) -> ColumnChecksums:
        """Return the checksums of the pages of one column of a file with checksums.

        Raises:
            CorruptFileError: the page statistics are damaged, or lack a page.
            StorageError: the storage failed.
        """
        with self._lock:
            known = self._columns.get(index)
            if known is None:
                known = self._columns[index] = self._column(index)
            return known

    def verify_all(self, open_side_file: Callable[[int], ReadableFile] | None = None) -> bool:
        """Check all bytes of the file, see `verify_file`."""
        if not self.is_there:
            return False
        known: list[BufferRange] = []
        for index in range(self.metadata.num_columns):
            column = self.column(index)
            name = self._fields[index].leaf.name if index < len(self._fields) else index
            for number in range(column.num_pages):
                known += column.verify_page(number, name)
        if self._place is not None:
            known.append(self._place)
        place = self._buffer(CHECKSUMS_KEY)
        if place is not None:
            known.append(place)
            for blob_id in self._side_files if open_side_file else ():
                assert open_side_file is not None
                with open_side_file(blob_id) as side_file:
                    self.verify_side_file(blob_id, side_file)
        _verify_gaps(self.file, known, self.metadata.global_buffers[0][0])
        return True

    def verify_side_file(self, blob_id: int, side_file: ReadableFile) -> None:
        """Check all bytes of a side file. A side file without a checksum is not checked.

        Raises:
            CorruptFileError: the side file differs from its checksum or size, or the checksums are damaged.
            StorageError: the storage failed.
        """
        with self._lock:
            expected = self._side_files.get(blob_id)
        if expected is not None:
            verify_side_file(side_file, expected)

    def _column(self, index: int) -> ColumnChecksums:
        pages = self.metadata.column(index).pages
        expected = self._statistics.checksums(index) if self._statistics is not None else ()
        if len(expected) != len(pages):
            raise CorruptFileError(
                "pages without checksums",
                file=self.file.name,
                column=index,
                expected=len(pages),
                found=len(expected),
            )
        stored = self._fields[index] if index < len(self._fields) else None
        return ColumnChecksums(self.file, self.metadata, index, expected, stored)

    @cached_property
    def _has_seal(self) -> bool:
        return _verify_seal(self.file, self.metadata)

    @cached_property
    def _fields(self) -> Sequence[_StoredField]:
        """Field of each column of the file. The hidden columns come last and are left out."""
        schema = self.metadata.schema
        if self.metadata.version == FileVersion.V2_0:
            # A column of 2.0 can be read without its parents.
            return [_StoredField(node, node) for top in schema.fields for node in nodes(top)]
        return [_StoredField(top, leaf) for top in schema.fields for leaf in leaves(top)]

    @cached_property
    def _place(self) -> BufferRange | None:
        return self._buffer(METADATA_KEY)

    def _buffer(self, key: str) -> BufferRange | None:
        metadata = self.metadata
        return buffer_of(metadata.schema.metadata, metadata.global_buffers, self.file.name, key)

    @cached_property
    def _statistics(self) -> FilePageStatistics | None:
        return None if self._place is None else from_buffer(self.file.read(*self._place), self.file.name)

    @cached_property
    def _side_files(self) -> Mapping[int, tuple[int, int]]:
        """Checksum and size of each side file by its number."""
        place = self._buffer(CHECKSUMS_KEY)
        return {} if place is None else read_checksums(self.file.read(*place), self.file.name)


class ColumnChecksums:
    """Checksums of the pages of one column of a file; thread-safe."""

    def __init__(
        self,
        file: ReadableFile,
        metadata: FileMetadata,
        index: int,
        expected: Sequence[int],
        stored: _StoredField | None,
    ) -> None:
        """Store the CRC-32C `expected` of each page of column number `index`.

        `stored` is the field of the column; None for a hidden column.
        """
        self._file = file
        self._metadata = metadata
        self._index = index
        self._expected = expected
        self._stored = stored
        self._pages = metadata.column(index).pages
        self._lock = threading.Lock()

    @property
    def num_pages(self) -> int:
        return len(self._pages)

    def pages_of(self, first_row: int, end_row: int) -> range:
        """Return the numbers of the pages with the top-level rows `[first_row, end_row)`.

        All pages are returned for 2.0 columns below lists, because their pages count items instead of rows.
        """
        starts = self._starts
        if starts is None:
            return range(self.num_pages)
        return range(bisect_right(starts, first_row) - 1, bisect_left(starts, end_row))

    def pages_at(self, rows: npt.NDArray[np.int64]) -> Iterable[int]:
        """Return the numbers of the pages with the given top-level rows; see `pages_of`."""
        starts = self._starts
        if starts is None:
            return range(self.num_pages)
        found: list[int] = (distinct(np.searchsorted(starts, rows, "right")) - 1).tolist()
        return found

    def verify_page(self, number: int, column: str | int) -> Sequence[BufferRange]:
        """Check one page, and the blobs in the file that it describes.

        Args:
            number: number of the page.
            column: name of the column for messages.

        Returns:
            The ranges of the file that were checked.

        Raises:
            CorruptFileError: the page differs from its checksum; the message names file, column and page.
            StorageError: the storage failed.
        """
        expected = self._expected[number]
        ranges = [*self._blobs(number), *self._pages[number].buffers]
        for start, size in ranges:
            if start + size > self._file.size:
                raise CorruptFileError(
                    "page describes bytes outside the file",
                    file=self._file.name,
                    column=column,
                    page=number,
                    expected=f"a range within {self._file.size} bytes",
                    found=f"[{start}, {start + size})",
                )
        found = page_checksum(self._file, ranges)
        if found != expected:
            raise CorruptFileError(
                "page does not match its checksum",
                file=self._file.name,
                column=column,
                page=number,
                expected=f"{expected:08x}",
                found=f"{found:08x}",
            )
        return ranges

    def _blobs(self, number: int) -> list[BufferRange]:
        """Return the ranges of the file with the values of the blobs that a page describes."""
        with self._lock:
            reader = self._descriptors
        if reader is None:
            return []
        assert self._stored is not None
        start = sum(page.num_rows for page in self._pages[:number])
        ranges: list[BufferRange] = []
        for array in reader.read(start, start + self._pages[number].num_rows):
            descriptors = _descend(*self._stored, array)
            if descriptors.type.get_field_index("kind") >= 0:
                descriptors = descriptors.filter(pc.equal(descriptors.field("kind"), _IN_THE_FILE))
            position, size = (
                pc.fill_null(descriptors.field(name), 0).to_pylist() for name in ("position", "size")
            )
            ranges += [place for place in zip(position, size, strict=True) if place[1]]
        return ranges

    @cached_property
    def _descriptors(self) -> ColumnReader | None:
        """Reader of the positions of blobs; None for a column without blobs."""
        stored, metadata = self._stored, self._metadata
        if stored is None or not (stored.leaf.is_blob or stored.leaf.is_blob_v2):
            return None
        if metadata.version == FileVersion.V2_0:  # a 2.0 column below lists has its own number of values
            num_values = sum(page.num_rows for page in self._pages)
            metadata = replace(metadata, descriptor=file_pb2.FileDescriptor(length=num_values))
        return open_column(self._file, metadata, describe_blobs(stored.top), {stored.leaf.id: self._index})

    @cached_property
    def _starts(self) -> list[int] | None:
        """First top-level row of each page, followed by the number of rows; None if it cannot be derived."""
        num_rows = self._metadata.num_rows
        ends = [0, *accumulate(page.num_rows for page in self._pages)]
        if self._metadata.version == FileVersion.V2_0:
            is_top = self._stored is not None and self._stored.leaf.parent_id == _TOP
            return ends if is_top and ends[-1] == num_rows else None
        # Below fixed-size lists of structs, every row has the same number of slots.
        if not num_rows or ends[-1] % num_rows:
            return None
        slots = ends[-1] // num_rows
        return [end // slots for end in ends] if slots else None


def page_checksum(file: ReadableFile, ranges: Sequence[BufferRange]) -> int:
    """Return the CRC-32C of ranges of a file, one after the other."""
    crc = 0
    for position, size in ranges:
        for data in _contents(file, position, size):
            crc = kernels.crc32c(data, crc)
    return crc


def _verify_seal(file: ReadableFile, metadata: FileMetadata) -> bool:
    start = metadata.global_buffers[0][0]
    tail = memoryview(file.read(start, file.size - start))
    footer = bytes(tail[-FOOTER_BYTES:])
    parsed = parse_footer(footer, file.size, file.name)
    end = parsed.global_table_start + TABLE_ENTRY_BYTES * parsed.num_global_buffers
    gap = file.size - FOOTER_BYTES - end
    if gap == 0:
        return False
    described = tail[: end - start]
    seal = bytes(tail[end - start : end - start + gap])
    if gap == SEAL.size:
        expected, tag = SEAL.unpack(seal)
        if tag == SEAL_TAG:
            found = kernels.crc32c(footer, kernels.crc32c(described))
            if found != expected:
                raise CorruptFileError(
                    "metadata does not match its checksum",
                    file=file.name,
                    expected=f"{expected:08x}",
                    found=f"{found:08x}",
                )
            return True
    raise CorruptFileError("unknown bytes before the footer", file=file.name, found=seal[:16].hex())


def _descend(field: Field, leaf: Field, array: pa.Array) -> pa.StructArray:
    """Return the values of the field `leaf`, which is inside structs and lists of `field`."""
    if field is leaf:
        return array
    below = array.flatten() if pa.types.is_struct(array.type) else [flatten_lists(array)]
    for child, values in zip(field.children, below, strict=True):
        if leaf in tuple(child.walk()):
            return _descend(child, leaf, values)
    raise CorruptFileError("a blob that is not in its column", column=leaf.name)


def _verify_gaps(file: ReadableFile, known: list[BufferRange], end: int) -> None:
    """Raise `CorruptFileError` unless all bytes up to `end` outside the known ranges are zero."""
    position = 0
    for start, size in sorted(known):
        if start > position:
            for data in _contents(file, position, start - position):
                if np.frombuffer(data, np.uint8).any():
                    raise CorruptFileError("padding is not zero", file=file.name, found=f"at {position}")
        position = max(position, start + size)
    if position < end and np.frombuffer(file.read(position, end - position), np.uint8).any():
        raise CorruptFileError("padding is not zero", file=file.name, found=f"at {position}")


def _contents(file: ReadableFile, position: int, size: int) -> Iterator[memoryview]:
    """Yield `size` bytes of a file from `position` on, in reads of at most `_READ_BYTES`."""
    for start in range(position, position + size, _READ_BYTES):
        yield memoryview(file.read(start, min(_READ_BYTES, position + size - start)))
