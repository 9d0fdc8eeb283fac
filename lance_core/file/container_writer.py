"""Writer of the container of 2.x files: first the buffers, then the metadata that describes them.

Descriptor, column metadata, CMO table, GBO table and footer follow each other, as readers require. Padding is
zero. A checksum of the metadata is in a gap that readers skip. So every byte of a file is known. Source:
docs/format.md, "Container" and "Page statistics and checksums".
"""

import struct
from collections.abc import Iterable

from google.protobuf import any_pb2
from google.protobuf.message import Message

from lance_core import kernels
from lance_core.file.footer import SEAL, SEAL_TAG, FileVersion
from lance_core.file.metadata import ALIGNMENT_BYTES
from lance_core.file.writer_options import FileTail
from lance_core.proto import file2_pb2, file_pb2
from lance_core.schema import Schema
from lance_core.storage.base import Bytes, WritableFile

_FOOTER = struct.Struct("<QQQIIHH4s")
_ENTRY = struct.Struct("<QQ")
_FOOTER_VERSION = {FileVersion.V2_0: (0, 3), FileVersion.V2_1: (2, 1), FileVersion.V2_2: (2, 2)}
_ZEROS = bytes(ALIGNMENT_BYTES)


class ContainerWriter:
    """One 2.x file that is being written."""

    def __init__(self, file: WritableFile, version: FileVersion) -> None:
        self._file = file
        self._version = version
        self._crc = 0

    @property
    def position(self) -> int:
        """Number of bytes written so far."""
        return self._file.position

    def add_buffer(self, data: Bytes) -> tuple[int, int]:
        """Write a buffer. Return its position in the file and its size. An empty buffer takes no space."""
        position, size = self._file.position, memoryview(data).nbytes
        if size:
            self._file.write(data)
            self._pad(size)
        return position, size

    def add_checked_buffers(self, buffers: Iterable[Bytes], crc: int) -> tuple[list[tuple[int, int]], int]:
        """Write buffers like `add_buffer`. Return their positions and sizes, and the CRC-32C of all their
        bytes.

        `crc` is the CRC-32C of the bytes before them.
        """
        places = []
        for data in buffers:
            position, size = self._file.position, memoryview(data).nbytes
            if size:
                crc = self._file.write_checked(data, crc)
                self._pad(size)
            places.append((position, size))
        return places, crc

    def finish(
        self,
        schema: Schema,
        num_rows: int,
        columns: Iterable[file2_pb2.ColumnMetadata],
        recorded: Iterable[tuple[str, Bytes]] = (),
        tail: FileTail | None = None,
    ) -> int:
        """Write the metadata of the file and close it. Return the size of the file in bytes.

        Args:
            schema: schema for the descriptor.
            num_rows: number of rows of the file.
            columns: metadata of each column.
            recorded: further global buffers. Each has a key of the schema metadata, whose value becomes the
                number of the buffer.
            tail: schema metadata and global buffers; these buffers come before those of `recorded`.
        """
        file, recorded, tail = self._file, list(recorded), tail or FileTail()
        global_ranges = [self.add_buffer(data) for data in (*tail.buffers, *(data for _, data in recorded))]
        descriptor = file_pb2.FileDescriptor(length=num_rows)
        descriptor.schema.fields.extend(schema.messages)
        for key, value in {**schema.raw_metadata, **tail.metadata}.items():
            descriptor.schema.metadata[key] = value
        for number, (key, _) in enumerate(recorded, 1 + len(tail.buffers)):
            descriptor.schema.metadata[key] = str(number).encode()
        self._crc = 0
        descriptor_range = self._add_message(descriptor)
        column_metadata_start = file.position
        column_ranges = [self._add_message(column) for column in columns]
        column_table_start = file.position
        self._add(b"".join(_ENTRY.pack(*each) for each in column_ranges))
        global_table_start = file.position
        global_ranges.insert(0, descriptor_range)
        self._add(b"".join(_ENTRY.pack(*each) for each in global_ranges))
        footer = _FOOTER.pack(
            column_metadata_start,
            column_table_start,
            global_table_start,
            len(global_ranges),
            len(column_ranges),
            *_FOOTER_VERSION[self._version],
            b"LANC",
        )
        file.write(SEAL.pack(kernels.crc32c(footer, self._crc), SEAL_TAG))
        file.write(footer)
        file.close()
        return file.position

    def _pad(self, size: int) -> None:
        if padding := -size % ALIGNMENT_BYTES:
            self._file.write(_ZEROS[:padding])

    def _add_message(self, message: Message) -> tuple[int, int]:
        data = message.SerializeToString(deterministic=True)
        position = self._file.position
        self._add(data)
        return position, len(data)

    def _add(self, data: bytes) -> None:
        """Write bytes that the seal covers."""
        self._file.write(data)
        self._crc = kernels.crc32c(data, self._crc)


def described(type_name: str, message: Message) -> file2_pb2.Encoding:
    """Return the description of a page or column, with the name of its message such as
    "lance.encodings21.PageLayout".
    """
    named = any_pb2.Any(type_url="/" + type_name, value=message.SerializeToString(deterministic=True))
    return file2_pb2.Encoding(direct=file2_pb2.DirectEncoding(encoding=named.SerializeToString()))
