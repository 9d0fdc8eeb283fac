"""Writers of side files of blobs, and columns that describe blobs in such files.

A process that produces blobs long before their rows, or on another machine, writes the bytes first. The
descriptors of the blobs are then written as a column of a data file; see `LanceFileSession.open_writer`.

    files = LanceFileSession(f"{dataset.uri}/data")
    blobs = files.open_packed_blob_writer("new.lance", 1)
    blobs.write_blob(b"the bytes")
    column = BlobDescriptorArrayBuilder("image")
    column.extend(blobs.finish())
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_core.errors import ArgumentTypeError, InvalidInputError, UnsupportedFeatureError
from lance_core.file.prepared_blobs import DEDICATED, INLINE, PACKED, PREPARED
from lance_core.file.side_files import side_directory, side_file_name
from lance_core.schema.arrow_types import EXTENSION_NAME
from lance_core.schema.fields import BLOB_V2
from lance_core.storage import Storage
from lance_core.storage.base import WritableFile

__all__ = ["BlobDescriptor", "BlobDescriptorArrayBuilder", "DedicatedBlobWriter", "PackedBlobWriter"]

_LARGEST_ID = (1 << 32) - 1
_LARGEST = (1 << 64) - 1


@dataclass(frozen=True)
class BlobDescriptor:
    """Description of one blob. Writers of side files and the methods of a builder make descriptors.

    Attributes:
        kind: "inline", "packed" or "dedicated"; "null" for a missing value.
        blob_id: Id of the side file; None for a value in the data file and for null.
        position: Position of the first byte in a shared side file.
        size: Number of bytes.
        data: The bytes of a value in the data file.
    """

    kind: str
    blob_id: int | None = None
    position: int | None = None
    size: int | None = None
    data: bytes | None = None


_NULL = BlobDescriptor("null")
_KINDS = {"inline": INLINE, "packed": PACKED, "dedicated": DEDICATED}


class BlobDescriptorArrayBuilder:
    """Builder of a column of descriptors, one per row."""

    def __init__(self, name: str) -> None:
        """Start a column with this name."""
        self._name = name
        self._rows: list[BlobDescriptor] | None = []

    @property
    def field(self) -> pa.Field:
        """The field of the column, for the schema of a data file."""
        return _field(self._name)

    def append(self, value: BlobDescriptor) -> None:
        """Append a descriptor that a writer of a side file returned.

        Raises:
            ArgumentTypeError: It is none.
            InvalidInputError: The column is finished. All other methods raise this error, too.
        """
        if not isinstance(value, BlobDescriptor):
            raise ArgumentTypeError(f"value must be a BlobDescriptor, got {type(value).__name__}")
        self._open().append(value)

    def extend(self, values: Iterable[BlobDescriptor]) -> None:
        """Append descriptors; errors are those of `append`."""
        for value in list(values):
            self.append(value)

    def append_null(self) -> None:
        """Append a null."""
        self._open().append(_NULL)

    def append_inline(self, data: bytes | bytearray | memoryview) -> None:
        """Append a value whose bytes will be in the data file.

        Raises:
            ArgumentTypeError: `data` is no bytes.
        """
        content = bytes(_bytes(data))
        self._open().append(BlobDescriptor("inline", size=len(content), data=content))

    def append_dedicated(self, blob_id: int, size: int) -> None:
        """Append a value that is the whole side file with this id and of this size in bytes.

        Raises:
            InvalidInputError: The id or the size is out of range.
        """
        self._open().append(BlobDescriptor("dedicated", _blob_id(blob_id), size=_number("size", size)))

    def extend_packed(self, blob_id: int, offsets: Iterable[int], sizes: Iterable[int]) -> None:
        """Append values in a shared side file.

        Args:
            blob_id: Id of the side file.
            offsets: Position of the first byte of each value.
            sizes: Number of bytes of each value.

        Raises:
            InvalidInputError: A number is out of range, or there are not as many sizes as offsets.
        """
        positions, lengths = (_numbers(values) for values in (offsets, sizes))
        if len(positions) != len(lengths):
            raise InvalidInputError(
                "offsets and sizes must have the same length", found=f"{len(positions)} and {len(lengths)}"
            )
        number = _blob_id(blob_id)
        self._open().extend(
            BlobDescriptor("packed", number, _number("offset", position), _number("size", size))
            for position, size in zip(positions, lengths, strict=True)
        )

    def append_managed(self, uri: str, offset: int, size: int, *, base_id: int | None = None) -> None:
        """Raise UnsupportedFeatureError: the format has no blobs of this kind."""
        raise UnsupportedFeatureError("append_managed", expected="append_dedicated or extend_packed")

    def finish(self) -> pa.StructArray:
        """Return the column. Nothing can be appended any more."""
        rows, self._rows = self._open(), None
        return _column(rows)

    def _open(self) -> list[BlobDescriptor]:
        if self._rows is None:
            raise InvalidInputError("BlobDescriptorArrayBuilder is already finished")
        return self._rows


class _SideFileWriter:
    """A side file that is being written. It appears under its name when it is finished, complete, or never.

    Attributes:
        path: Path or URL of the side file.
        blob_id: Id of the side file.
    """

    def __init__(self, storage: Storage, data_file: str, blob_id: int) -> None:
        """Use `LanceFileSession.open_packed_blob_writer` or `open_dedicated_blob_writer`."""
        if not data_file.endswith(".lance"):
            raise InvalidInputError(
                "path of a data file", expected="a name that ends with .lance", found=data_file
            )
        self.blob_id = _blob_id(blob_id)
        self._directory = side_directory(data_file)
        self._name = f"{self._directory}/{side_file_name(self.blob_id)}"
        self.path = f"{storage.uri}/{self._name}"
        self._storage = storage
        self._file: WritableFile | None = None
        self._is_done = False

    def _write(self, data: memoryview) -> tuple[int, int]:
        """Append bytes. Return the position of the first byte, and their number."""
        self._check_open()
        file = self._file
        if file is None:
            file = self._file = self._storage.create_file(self._name, replace=True)
        position = file.position
        try:
            file.write(data)
        except BaseException:
            self._is_done = True
            file.abort()
            raise
        return position, file.position - position

    def _close(self) -> None:
        self._check_open()
        self._is_done = True
        if self._file is not None:
            self._file.close()
            self._storage.sync_directory(self._directory)

    def _check_open(self) -> None:
        if self._is_done:
            raise InvalidInputError(f"{type(self).__name__} is already finished")

    def __del__(self) -> None:
        file = getattr(self, "_file", None)
        if file is not None and not self._is_done:
            with suppress(Exception):  # the storage may be gone when the process ends
                file.abort()


class PackedBlobWriter(_SideFileWriter):
    """Writer of a side file with several blobs."""

    def __init__(self, storage: Storage, data_file: str, blob_id: int) -> None:
        """Use `LanceFileSession.open_packed_blob_writer`."""
        super().__init__(storage, data_file, blob_id)
        self._found: list[BlobDescriptor] = []
        self._field: pa.Field | None = None

    @property
    def field(self) -> pa.Field:
        """The field of the array that `finish_array` returned.

        Raises:
            InvalidInputError: `finish_array` was not called.
        """
        if self._field is None:
            raise InvalidInputError("PackedBlobWriter field is available after finish_array")
        return self._field

    def write_blob(self, data: bytes | bytearray | memoryview) -> None:
        """Append one blob.

        Raises:
            ArgumentTypeError: `data` is no bytes.
            InvalidInputError: The side file is finished.
            StorageError: The storage failed. There will be no side file.
        """
        self._found.append(BlobDescriptor("packed", self.blob_id, *self._write(_bytes(data))))

    def write_blobs(self, payloads: pa.Array | pa.ChunkedArray) -> None:
        """Append one blob per value of a binary array. A null gets a null descriptor, and no bytes.

        Raises:
            InvalidInputError: It is no binary array, or the side file is finished.
            StorageError: The storage failed. There will be no side file.
        """
        self._check_open()
        if not isinstance(payloads, pa.Array | pa.ChunkedArray):
            found = type(payloads).__name__
            raise InvalidInputError("payloads", expected="an array of binaries", found=found)
        if not any(is_kind(payloads.type) for is_kind in _BINARY):
            raise InvalidInputError("payloads", expected="an array of binaries", found=payloads.type)
        for value in payloads:
            if value.is_valid:
                self.write_blob(value.as_buffer())
            else:
                self._found.append(_NULL)

    def finish(self) -> list[BlobDescriptor]:
        """Complete the side file. Return a descriptor per blob; without any, there is no side file.

        Raises:
            InvalidInputError: The side file is finished already.
            StorageError: The storage failed. There is no side file.
        """
        self._close()
        return self._found

    def finish_array(self, field_name: str) -> pa.StructArray:
        """Complete the side file. Return a column of the descriptors, whose field is `field`.

        Args:
            field_name: Name of the column.

        Raises:
            LanceError: The errors of `finish`.
        """
        column = _column(self.finish())
        self._field = _field(field_name)
        return column


class DedicatedBlobWriter(_SideFileWriter):
    """Writer of a side file with one blob."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes to the blob; errors are those of `PackedBlobWriter.write_blob`."""
        self._write(_bytes(data))

    def finish(self) -> BlobDescriptor:
        """Complete the side file. Return the descriptor of the blob; errors are those of
        `PackedBlobWriter.finish`.
        """
        size, _ = self._write(memoryview(b""))  # an empty blob has a side file, too
        self._close()
        return BlobDescriptor("dedicated", self.blob_id, size=size)


def _field(name: str) -> pa.Field:
    return pa.field(name, PREPARED, metadata={EXTENSION_NAME: BLOB_V2})


def _column(rows: list[BlobDescriptor]) -> pa.StructArray:
    def member(values: Iterator[Any], name: str) -> pa.Array:
        return pa.array(values, PREPARED.field(name).type, size=len(rows))

    columns = {
        "kind": member((_KINDS.get(row.kind) for row in rows), "kind"),
        "data": member((row.data for row in rows), "data"),
        "uri": pa.nulls(len(rows), pa.utf8()),
        "blob_id": member((row.blob_id for row in rows), "blob_id"),
        "blob_size": member((None if row.kind == "inline" else row.size for row in rows), "blob_size"),
        "position": member((row.position for row in rows), "position"),
    }
    mask = pa.array((row.kind == "null" for row in rows), pa.bool_(), size=len(rows))
    arrays = [columns[each.name] for each in PREPARED]
    return pa.StructArray.from_arrays(arrays, fields=list(PREPARED), mask=mask)


def _bytes(data: Any) -> memoryview:
    if isinstance(data, str) or data is None:
        raise ArgumentTypeError(f"data must be bytes, got {type(data).__name__}")
    return memoryview(data).cast("B")


def _blob_id(blob_id: int) -> int:
    if not 1 <= blob_id <= _LARGEST_ID:
        raise InvalidInputError("blob_id", expected=f"1 to {_LARGEST_ID}", found=blob_id)
    return blob_id


def _numbers(values: Iterable[Any]) -> list[int]:
    return values.to_pylist() if isinstance(values, pa.Array | pa.ChunkedArray) else list(values)


def _number(name: str, value: int) -> int:
    if not 0 <= value <= _LARGEST:
        raise InvalidInputError(name, expected=f"0 to {_LARGEST}", found=value)
    return int(value)


_BINARY = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
