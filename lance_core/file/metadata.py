"""Metadata of a 2.x data file: schema, rows, columns, pages.

Opening a file reads its tail once. Only larger metadata needs another read. Columns are decoded on request,
so that a projection of few columns out of thousands is cheap. Source: docs/format.md, "Container".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError

from lance_core.errors import CorruptFileError
from lance_core.file.footer import FOOTER_BYTES, TABLE_ENTRY_BYTES, FileVersion, parse_footer
from lance_core.proto import file2_pb2, file_pb2
from lance_core.schema import Field, Schema, leaves, nodes
from lance_core.schema.blobs import without_descriptors
from lance_core.storage import ReadableFile

TAIL_BYTES = 64 << 10
MOST_METADATA_BYTES = 1 << 20
"""If the metadata of all columns is larger, it is read column by column; otherwise it is read at once."""
ALIGNMENT_BYTES = 64
"""Alignment of page buffers and global buffers, from version 2.1 on."""

COLUMN_BYTES = 2560
"""Estimated memory of an open column without its pages, in bytes (measured: 2 to 3 KiB)."""
METADATA_GROWTH = 4
"""Largest ratio between a parsed message in memory and its bytes in the file."""

BufferRange = tuple[int, int]
"""Position in the file and size, in bytes."""


class PageMetadata(NamedTuple):
    """One page of a column."""

    buffers: tuple[BufferRange, ...]
    num_rows: int
    encoding_type: str
    """Name of the message in `encoding`, such as "lance.encodings21.PageLayout"."""
    encoding: bytes
    priority: int
    """Number of the first row in the file. Readers treat it as a hint."""


@dataclass(frozen=True, slots=True)
class ColumnMetadata:
    """One column of a file."""

    index: int
    pages: tuple[PageMetadata, ...]
    buffers: tuple[BufferRange, ...]
    """Buffers that belong to the whole column."""
    encoding_type: str
    """Name of the message in `encoding`, such as "lance.encodings.ColumnEncoding"."""
    encoding: bytes


@dataclass(frozen=True)
class FileMetadata:
    """The metadata of one data file."""

    name: str
    size: int
    """Size of the file in bytes."""
    version: FileVersion
    num_columns: int
    global_buffers: tuple[BufferRange, ...]
    """Positions and sizes of the global buffers. The first buffer is the descriptor of the file."""
    descriptor: file_pb2.FileDescriptor = field(repr=False)
    _messages: "_Part" = field(repr=False)
    """The bytes with the metadata of the columns. Other bytes of the file are not kept."""
    _file: ReadableFile = field(repr=False)
    """The file, for reading metadata of columns that is not in `_messages`."""
    _ranges: npt.NDArray[np.uint64] = field(repr=False)
    """Position and size of the message of each column, one row per column. Checked when a column is decoded.
    """
    _columns_lie: BufferRange = field(repr=False)
    """Range of the file, from start to end, that contains these messages."""
    _columns: dict[int, ColumnMetadata] = field(default_factory=dict, repr=False)

    @property
    def num_rows(self) -> int:
        """Number of top-level rows in the descriptor."""
        return self.descriptor.length

    @property
    def known_bytes(self) -> int:
        """Estimated memory of the metadata without open columns, in bytes."""
        _, descriptor_bytes = self.global_buffers[0]
        return METADATA_GROWTH * (descriptor_bytes + len(self._messages.data) + self._ranges.nbytes)

    @cached_property
    def schema(self) -> Schema:
        """Schema in the file itself. The manifest of a table overrides it, because names and ids may have
        changed.
        """
        message = self.descriptor.schema
        return Schema(without_descriptors(message.fields), message.metadata, file=self.name)

    def column_fields(self) -> tuple[Field, ...]:
        """Return the field of each column, in the order of the columns, from the schema in the file. Hidden
        columns come after them and have no field.
        """
        owners = nodes if self.version == FileVersion.V2_0 else leaves
        return tuple(owner for top in self.schema.fields for owner in owners(top))

    @property
    def num_column_metadata_bytes(self) -> int:
        """Bytes of the metadata of all columns, with the table of their positions."""
        start, end = self._columns_lie
        return end - start + self.num_columns * TABLE_ENTRY_BYTES

    @property
    def num_global_buffer_bytes(self) -> int:
        """Bytes of all global buffers, with the descriptor of the file."""
        return sum(size for _, size in self.global_buffers)

    @property
    def num_data_bytes(self) -> int:
        """Bytes of pages: what lies before the metadata of the columns, less the global buffers there."""
        return self._columns_lie[0] - self.num_global_buffer_bytes

    def column(self, index: int) -> ColumnMetadata:
        """Return the metadata of one column. It is decoded by the first call.

        Raises:
            CorruptFileError: the file has no such column, or its metadata contradicts the format.
            StorageError: the storage failed, or the file was closed.
        """
        if known := self._columns.get(index):
            return known
        if not 0 <= index < self.num_columns:
            raise CorruptFileError(
                "no such column in the file",
                file=self.name,
                column=index,
                expected=f"below {self.num_columns}",
            )
        position, size = self._ranges[index].tolist()
        _check_entry("column metadata", index, position, size, self._columns_lie, self.name)
        if position >= self._messages.start:
            message = self._messages.get(position, size)
        else:
            message = bytes(memoryview(self._file.read(position, size)))
        column = _parse_column(self, index, message)
        # Two threads may decode the same column. Their results are equal, and the first one is kept.
        return self._columns.setdefault(index, column)


def read_file_metadata(file: ReadableFile) -> FileMetadata:
    """Read and check footer, tables and descriptor of a 2.x data file.

    Raises:
        CorruptFileError: the bytes contradict the format.
        UnsupportedFeatureError: another file version; the message names it.
        StorageError: the storage failed.
    """
    tail = _Part.end(file, file.size - TAIL_BYTES)
    footer = parse_footer(bytes(tail.data[-FOOTER_BYTES:]), file.size, file.name)
    if footer.column_table_start - footer.column_metadata_start > MOST_METADATA_BYTES:
        if footer.column_table_start < tail.start:
            tail = _Part.end(file, footer.column_table_start)
    elif footer.column_metadata_start < tail.start:
        # The descriptor is directly before the column metadata, and is mostly smaller than `TAIL_BYTES`.
        tail = _Part.end(file, footer.column_metadata_start - TAIL_BYTES)
    columns = tail.table(footer.column_table_start, footer.num_columns)
    global_buffers = tail.table(footer.global_table_start, footer.num_global_buffers).tolist()
    for index, (position, size) in enumerate(global_buffers):
        _check_entry("global buffer", index, position, size, (0, file.size - FOOTER_BYTES), file.name)
    position, size = global_buffers[0]
    part = tail if position >= tail.start else _Part(position, memoryview(file.read(position, size)))
    try:
        descriptor = file_pb2.FileDescriptor.FromString(part.get(position, size))
    except DecodeError:
        raise CorruptFileError("file descriptor does not decode", file=file.name) from None
    return FileMetadata(
        name=file.name,
        size=file.size,
        version=footer.version,
        num_columns=footer.num_columns,
        global_buffers=tuple((position, size) for position, size in global_buffers),
        descriptor=descriptor,
        _messages=tail.slice(max(footer.column_metadata_start, tail.start), footer.column_table_start),
        _file=file,
        _ranges=columns,
        _columns_lie=(footer.column_metadata_start, footer.column_table_start),
    )


@dataclass(frozen=True)
class _Part:
    """A range of a file, in memory."""

    start: int
    data: memoryview | bytes

    @staticmethod
    def end(file: ReadableFile, start: int) -> "_Part":
        """Read the end of a file from byte `start` on, or the whole file if `start` is negative."""
        start = max(start, 0)
        return _Part(start, memoryview(file.read(start, file.size - start)))

    def get(self, position: int, size: int) -> bytes:
        """Return the bytes `[position, position + size)` of the file."""
        return bytes(self.data[position - self.start : position - self.start + size])

    def slice(self, start: int, end: int) -> "_Part":
        """Return a copy of the bytes `[start, end)` of the file.

        Open files keep it. Views would be more objects for the collector of garbage to look at.
        """
        return _Part(start, self.get(start, end - start))

    def table(self, position: int, num_entries: int) -> npt.NDArray[np.uint64]:
        """Return the (position, size) pairs of an offset table, one row per entry."""
        entries = self.get(position, num_entries * TABLE_ENTRY_BYTES)
        return np.frombuffer(entries, dtype="<u8").reshape(-1, 2).copy()  # without a view, see `slice`


def _check_entry(what: str, index: int, position: int, size: int, within: tuple[int, int], file: str) -> None:
    """Check that an entry of an offset table lies in its section of the file."""
    low, high = within
    if not low <= position <= position + size <= high:
        raise CorruptFileError(
            f"{what} {index} is outside its section of the file",
            file=file,
            expected=f"within [{low}, {high})",
            found=(position, size),
        )


def _parse_column(metadata: FileMetadata, index: int, data: bytes) -> ColumnMetadata:
    try:
        message = file2_pb2.ColumnMetadata.FromString(data)
    except DecodeError:
        raise CorruptFileError("column metadata does not decode", file=metadata.name, column=index) from None
    encoding_type, encoding = _encoding(message.encoding, metadata.name, index)
    pages = []
    for number, page in enumerate(message.pages):
        page_type, page_encoding = _encoding(page.encoding, metadata.name, index, number)
        buffers = _buffers(page.buffer_offsets, page.buffer_sizes, metadata, index, number)
        pages.append(PageMetadata(buffers, page.length, page_type, page_encoding, page.priority))
    return ColumnMetadata(
        index=index,
        pages=tuple(pages),
        buffers=_buffers(message.buffer_offsets, message.buffer_sizes, metadata, index),
        encoding_type=encoding_type,
        encoding=encoding,
    )


def _encoding(
    encoding: file2_pb2.Encoding, file: str, column: int, page: int | None = None
) -> tuple[str, bytes]:
    """Return the name and the bytes of the message that describes a page or a column."""
    if not encoding.HasField("direct"):
        raise CorruptFileError(
            "encoding is not stored in the metadata of its page",
            file=file,
            column=column,
            page=page,
            expected="direct",
            found=encoding.WhichOneof("location"),
        )
    try:
        described = _unpacked(encoding.direct.encoding)
    except DecodeError:
        raise CorruptFileError("encoding does not decode", file=file, column=column, page=page) from None
    if described is None:
        raise CorruptFileError("encoding has no type", file=file, column=column, page=page)
    return described


@lru_cache(maxsize=512)
def _unpacked(message: bytes) -> tuple[str, bytes] | None:
    """Return the name and the bytes of the message in an `Any`; None without a name. Cached, because most
    small files have the same descriptions.
    """
    described = any_pb2.Any.FromString(message)
    _, slash, name = described.type_url.rpartition("/")
    return (name, described.value) if slash else None


def _buffers(
    offsets: Sequence[int],
    sizes: Sequence[int],
    metadata: FileMetadata,
    column: int,
    page: int | None = None,
) -> tuple[BufferRange, ...]:
    """Pair offsets with sizes. Check that each buffer lies in the file, and is aligned in files from 2.1
    on.
    """
    if not offsets and not sizes:
        return ()
    if len(offsets) != len(sizes):
        raise CorruptFileError(
            "buffers without a size",
            file=metadata.name,
            column=column,
            page=page,
            expected=f"{len(offsets)} sizes",
            found=len(sizes),
        )
    alignment = ALIGNMENT_BYTES if metadata.version >= FileVersion.V2_1 else 1
    buffers = tuple(zip(offsets, sizes, strict=True))
    for offset, size in buffers:
        if offset + size > metadata.size or (size and offset % alignment):
            raise CorruptFileError(
                "buffer is outside the file or not aligned",
                file=metadata.name,
                column=column,
                page=page,
                expected=f"within {metadata.size} bytes at a multiple of {alignment}",
                found=(offset, size),
            )
    return buffers
