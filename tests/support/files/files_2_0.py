"""2.0 files written by hand: any tree of array encodings over any bytes, read by us and by the reference."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from google.protobuf import any_pb2
from google.protobuf.message import Message
from lance.file import LanceFileReader

from lance_core.file.data_file import open_data_file
from lance_core.proto import encodings_v2_0_pb2 as pb
from lance_core.proto import file2_pb2, file_pb2
from lance_core.schema import Field, nodes
from lance_core.storage.local import LocalStorage

NAME = "data.lance"


class Page:
    """A page in the making: encodings whose buffers are kept as they are made."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.buffers: list[bytes] = []
        self.encoding = pb.ArrayEncoding()

    def buffer(self, data: bytes) -> pb.Buffer:
        """Return a page buffer of these bytes."""
        self.buffers.append(data)
        return pb.Buffer(buffer_index=len(self.buffers) - 1)

    def flat(self, values: np.ndarray | bytes, bits: int = 0, scheme: str = "") -> pb.ArrayEncoding:
        """Values as they are; bytes may be compressed already, and then need `bits`."""
        data = values if isinstance(values, bytes) else values.tobytes()
        width = bits or (8 if isinstance(values, bytes) else values.dtype.itemsize * 8)
        compression = pb.Compression(scheme=scheme) if scheme else None
        flat = pb.Flat(bits_per_value=width, buffer=self.buffer(data), compression=compression)
        return pb.ArrayEncoding(flat=flat)

    def bits(self, flags: Sequence[int]) -> pb.ArrayEncoding:
        """Return a bitmap."""
        return self.flat(np.packbits(np.array(flags, np.uint8), bitorder="little"), 1)

    def binary(self, ends: Sequence[int], data: bytes, adjustment: int) -> pb.ArrayEncoding:
        """Strings."""
        indices = no_nulls(self.flat(np.array(ends, np.uint64)))
        return pb.ArrayEncoding(
            binary=pb.Binary(indices=indices, bytes=self.flat(data), null_adjustment=adjustment)
        )

    def lists(self, ends: Sequence[int], num_items: int, adjustment: int) -> pb.ArrayEncoding:
        """Ends of lists."""
        offsets = no_nulls(self.flat(np.array(ends, np.uint64)))
        return pb.ArrayEncoding(
            list=pb.List(offsets=offsets, null_offset_adjustment=adjustment, num_items=num_items)
        )

    def of(self, encoding: pb.ArrayEncoding) -> Page:
        """This page with its encoding."""
        self.encoding = encoding
        return self


def no_nulls(values: pb.ArrayEncoding) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(nullable=pb.Nullable(no_nulls=pb.Nullable.NoNull(values=values)))


def some_nulls(validity: pb.ArrayEncoding, values: pb.ArrayEncoding) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(
        nullable=pb.Nullable(some_nulls=pb.Nullable.SomeNull(validity=validity, values=values))
    )


def all_nulls() -> pb.ArrayEncoding:
    return pb.ArrayEncoding(nullable=pb.Nullable(all_nulls=pb.Nullable.AllNull()))


def struct_page(length: int) -> Page:
    return Page(length).of(pb.ArrayEncoding(struct=pb.SimpleStruct()))


@dataclass
class ColumnPages:
    """One column: its pages, its own buffers, its encoding."""

    pages: Sequence[Page]
    buffers: Sequence[bytes] = ()
    encoding: pb.ColumnEncoding = field(
        default_factory=lambda: pb.ColumnEncoding.FromString(b"\x0a\x00")  # values {}
    )


@dataclass(frozen=True)
class HandWritten:
    """A file in a folder, with the number of its rows and its top-level fields."""

    folder: Path

    def ours(self, start: int = 0, end: int | None = None) -> pa.Table:
        """Rows as we read them."""
        with LocalStorage(str(self.folder)).open_file(NAME) as file:
            opened = open_data_file(file)
            fields = opened.schema.fields
            columns = _columns(fields)
            end = opened.num_rows if end is None else end
            arrays = [
                pa.chunked_array(opened.open_column(top, columns).read(start, end), top.arrow_type)
                for top in fields
            ]
            return pa.table(arrays, names=[top.name for top in fields])

    def reference(self) -> pa.Table:
        """All rows as the reference reads them."""
        return LanceFileReader(str(self.folder / NAME)).read_all().to_table()


def _columns(fields: Sequence[Field]) -> dict[int, int]:
    owners = [owner.id for top in fields for owner in nodes(top)]
    return {owner: index for index, owner in enumerate(owners)}


def write_file(
    folder: Path, fields: Sequence[file_pb2.Field], columns: Sequence[ColumnPages], num_rows: int
) -> HandWritten:
    """Write a 2.0 file; nothing in it is aligned."""
    out = bytearray(b"\xa5")

    def put(data: bytes) -> int:
        position = len(out)
        out.extend(data)
        return position

    metadata = []
    for column in columns:
        message = file2_pb2.ColumnMetadata(encoding=_direct("ColumnEncoding", column.encoding))
        for page in column.pages:
            message.pages.add(
                buffer_offsets=[put(data) for data in page.buffers],
                buffer_sizes=[len(data) for data in page.buffers],
                length=page.length,
                encoding=_direct("ArrayEncoding", page.encoding),
            )
        message.buffer_offsets.extend(put(data) for data in column.buffers)
        message.buffer_sizes.extend(len(data) for data in column.buffers)
        metadata.append(message.SerializeToString())
    descriptor = file_pb2.FileDescriptor(schema=file_pb2.Schema(fields=fields), length=num_rows)
    global_buffer = (put(descriptor.SerializeToString()), descriptor.ByteSize())
    metadata_start = len(out)
    ranges = [(put(data), len(data)) for data in metadata]
    table_start = len(out)
    put(b"".join(struct.pack("<QQ", *entry) for entry in ranges))
    global_start = put(struct.pack("<QQ", *global_buffer))
    put(struct.pack("<QQQIIHH4s", metadata_start, table_start, global_start, 1, len(columns), 0, 3, b"LANC"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_bytes(out)
    return HandWritten(folder)


def _direct(kind: str, message: Message) -> file2_pb2.Encoding:
    wrapped = any_pb2.Any(type_url=f"/lance.encodings.{kind}", value=message.SerializeToString())
    return file2_pb2.Encoding(direct=file2_pb2.DirectEncoding(encoding=wrapped.SerializeToString()))


def leaf(name: str, logical_type: str, number: int = 0, parent: int = -1) -> file_pb2.Field:
    """Return a field of a schema."""
    return file_pb2.Field(name=name, id=number, parent_id=parent, logical_type=logical_type, nullable=True)


def write_column(folder: Path, logical_type: str, *pages: Page, buffers: Sequence[bytes] = ()) -> HandWritten:
    """Return a file of one column without children."""
    rows = sum(page.length for page in pages)
    return write_file(folder, [leaf("c", logical_type)], [ColumnPages(pages, buffers)], rows)
