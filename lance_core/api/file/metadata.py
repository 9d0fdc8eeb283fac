"""Descriptions of data files as plain data, with the names of the reference library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from lance_core.file.footer import FileVersion
from lance_core.file.metadata import BufferRange, ColumnMetadata, FileMetadata, PageMetadata
from lance_core.proto import encodings_v2_0_pb2, encodings_v2_1_pb2

_LAYOUTS: dict[str, Any] = {
    "lance.encodings.ArrayEncoding": encodings_v2_0_pb2.ArrayEncoding,
    "lance.encodings21.PageLayout": encodings_v2_1_pb2.PageLayout,
}

_SHOWN_BYTES = 16
"""Largest value of bytes that a description shows. Of longer ones, such as symbol tables, it has the size."""


@dataclass(frozen=True)
class LanceBufferDescriptor:
    """Location of a buffer."""

    position: int
    """Position in the file."""
    size: int
    """Bytes."""


@dataclass(frozen=True)
class LancePageMetadata:
    """One page of a column."""

    buffers: list[LanceBufferDescriptor]
    encoding: str
    """Description of the encoding: the text of a protobuf message, with the types of its parts."""


@dataclass(frozen=True)
class LanceColumnMetadata:
    """One column of a file. Structs and lists have columns of their own in 2.0 files only."""

    column_buffers: list[LanceBufferDescriptor]
    """Buffers of the whole column."""
    pages: list[LancePageMetadata]


@dataclass(frozen=True)
class LanceFileMetadata:
    """The metadata of a file."""

    schema: pa.Schema
    num_rows: int
    major_version: int
    """Major number in the footer: 0 for 2.0 files."""
    minor_version: int
    """Minor number in the footer: 3 for 2.0 files."""
    num_data_bytes: int
    """Bytes before the metadata of the columns, without global buffers."""
    num_column_metadata_bytes: int
    num_global_buffer_bytes: int
    global_buffers: list[LanceBufferDescriptor]
    """Buffer 0 is the descriptor of the file."""
    columns: list[LanceColumnMetadata]


@dataclass(frozen=True)
class LanceColumnStatistics:
    """Size of a column."""

    num_pages: int
    size_bytes: int
    """Bytes of all pages."""


@dataclass(frozen=True)
class LanceFileStatistics:
    """Sizes of the columns of a file."""

    columns: list[LanceColumnStatistics]


def describe(metadata: FileMetadata, schema: pa.Schema) -> LanceFileMetadata:
    """Return the metadata of a file with all columns; `schema` is the schema that users see.

    Raises:
        LanceError: The metadata of a column cannot be read.
    """
    major, minor = (0, 3) if metadata.version == FileVersion.V2_0 else metadata.version.in_manifest
    return LanceFileMetadata(
        schema=schema,
        num_rows=metadata.num_rows,
        major_version=major,
        minor_version=minor,
        num_data_bytes=metadata.num_data_bytes,
        num_column_metadata_bytes=metadata.num_column_metadata_bytes,
        num_global_buffer_bytes=metadata.num_global_buffer_bytes,
        global_buffers=_buffers(metadata.global_buffers),
        columns=[_column(metadata.column(index)) for index in range(metadata.num_columns)],
    )


def sizes(metadata: FileMetadata) -> LanceFileStatistics:
    """Return the size of each column. Errors are those of `describe`."""
    columns = []
    for index in range(metadata.num_columns):
        pages = metadata.column(index).pages
        num_bytes = sum(size for page in pages for _, size in page.buffers)
        columns.append(LanceColumnStatistics(len(pages), num_bytes))
    return LanceFileStatistics(columns)


def _column(column: ColumnMetadata) -> LanceColumnMetadata:
    return LanceColumnMetadata(_buffers(column.buffers), [_page(page) for page in column.pages])


def _page(page: PageMetadata) -> LancePageMetadata:
    layout = _LAYOUTS.get(page.encoding_type)
    if layout is None:
        text = f"{page.encoding_type.rpartition('.')[2]} {{}}"
    else:
        text = "\n".join(_lines(layout.FromString(page.encoding)))
    return LancePageMetadata(_buffers(page.buffers), text)


def _lines(message: Message) -> Iterator[str]:
    """Yield a message as text: its type, and indented the fields that are set."""
    if not message.DESCRIPTOR.fields:
        yield message.DESCRIPTOR.name
        return
    yield f"{message.DESCRIPTOR.name} {{"
    for field, found in message.ListFields():
        for value in found if field.is_repeated else (found,):
            first, *rest = _lines(value) if isinstance(value, Message) else (_value_text(field, value),)
            yield f"  {field.name}: {first}"
            yield from (f"  {line}" for line in rest)
    yield "}"


def _value_text(field: FieldDescriptor, value: object) -> str:
    if isinstance(value, bytes):
        return value.hex() if len(value) <= _SHOWN_BYTES else f"{len(value)} bytes"
    if field.enum_type is not None and isinstance(value, int):
        named = field.enum_type.values_by_number.get(value)
        return str(value) if named is None else named.name
    return str(value)


def _buffers(ranges: tuple[BufferRange, ...]) -> list[LanceBufferDescriptor]:
    return [LanceBufferDescriptor(position, size) for position, size in ranges]
