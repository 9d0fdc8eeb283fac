"""Blobs as a caller writes and reads them: values, columns of values, and files that are read on demand.

`blob_array` and `blob_field` make columns for `write_dataset`. `BlobFile` is what `LanceDataset.take_blobs`
returns.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from lance_core.errors import ArgumentTypeError, InvalidInputError, TooLargeError
from lance_core.scan.read.blobs import DEFAULT_BLOB_BUFFER_SIZE, BlobFile
from lance_core.schema.fields import BLOB_V2

__all__ = [
    "DEFAULT_BLOB_BUFFER_SIZE",
    "Blob",
    "BlobArray",
    "BlobColumn",
    "BlobFile",
    "BlobType",
    "blob_array",
    "blob_field",
]

_MEMBERS = (
    ("data", pa.large_binary()),
    ("uri", pa.utf8()),
    ("position", pa.uint64()),
    ("size", pa.uint64()),
)
_LARGEST = 2 * sys.maxsize + 1


@dataclass(frozen=True)
class Blob:
    """One value of a blob column: bytes, or a file at a URI, or a range of such a file.

    Null is `None`, not a `Blob`.

    Args:
        data: The bytes.
        uri: Absolute URI of the file with the bytes.
        position: Position of the first byte in the file.
        size: Number of bytes of the range. The range ends with the file if position and size are left out.

    Raises:
        InvalidInputError: There are both bytes and a URI, or neither; the URI is empty; only one of position
            and size is given, or without a URI; the range is empty.
    """

    data: bytes | None = None
    uri: str | None = None
    position: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if self.uri == "":
            raise InvalidInputError("Blob uri cannot be empty")
        if (self.data is None) == (self.uri is None):
            raise InvalidInputError("Blob must have either data or uri; use None for a null blob")
        if self.uri is None and (self.position is not None or self.size is not None):
            raise InvalidInputError("position and size of a Blob need a uri")
        if (self.position is None) != (self.size is None):
            raise InvalidInputError("Blob must have both position and size, or neither")
        if (self.position or 0) < 0 or (self.size is not None and self.size < 1):
            raise InvalidInputError(
                "range of a Blob",
                expected="a position of at least 0 and a size of at least 1",
                found=f"{self.position} and {self.size}",
            )

    @staticmethod
    def from_bytes(data: bytes | bytearray | memoryview) -> Blob:
        """Return a blob of these bytes."""
        return Blob(data=bytes(data))

    @staticmethod
    def from_uri(uri: str, position: int | None = None, size: int | None = None) -> Blob:
        """Return a blob whose bytes are in a file; the arguments are those of the class."""
        return Blob(uri=uri, position=position, size=size)

    @staticmethod
    def empty() -> Blob:
        """Return a blob of no bytes, which is not null."""
        return Blob(data=b"")


class BlobType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """Arrow type of blobs to be written: `struct<data, uri, position, size>`, or only the first two.

    A value has either data or a URI. Position and size are a range of the file at the URI. Scans return
    descriptors or bytes instead; see `blob_handling` of `LanceDataset.scanner`.
    """

    def __init__(self) -> None:
        super().__init__(pa.struct(_MEMBERS), BLOB_V2)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Self:
        """Return the type with this storage type.

        Raises:
            pyarrow.ArrowTypeError: The storage type is not one of the two.
        """
        fields = list(storage_type) if pa.types.is_struct(storage_type) else []
        members = tuple((field.name, field.type) for field in fields)
        if members not in (_MEMBERS, _MEMBERS[:2]) or not all(field.nullable for field in fields[:2]):
            raise pa.ArrowTypeError(f"{BLOB_V2} must be stored as {pa.struct(_MEMBERS)}, got {storage_type}")
        made = cls.__new__(cls)
        pa.ExtensionType.__init__(made, storage_type, BLOB_V2)
        return made

    def __arrow_ext_class__(self) -> type[BlobArray]:
        return BlobArray


class BlobArray(pa.ExtensionArray):  # type: ignore[misc]  # pyarrow has no types
    """Column of blobs to be written; made by `blob_array`."""

    @classmethod
    def from_pylist(cls, values: Iterable[Any]) -> BlobArray:
        """Return a column of these values; see `blob_array`."""
        members = [_members(value) for value in values]
        columns = [
            pa.array((each and each[number] for each in members), member, size=len(members))
            for number, (_, member) in enumerate(_MEMBERS)
        ]
        mask = pa.array((each is None for each in members), pa.bool_(), size=len(members))
        names = [name for name, _ in _MEMBERS]
        made: BlobArray = pa.ExtensionArray.from_storage(
            BlobType(), pa.StructArray.from_arrays(columns, names=names, mask=mask)
        )
        return made


def blob_array(values: Iterable[Any]) -> BlobArray:
    """Return a column of blobs.

    Args:
        values: Bytes, URIs as text, `Blob`s, and `None` for nulls.

    Raises:
        ArgumentTypeError: A value has another type.
        InvalidInputError: A URI is empty.
    """
    return BlobArray.from_pylist(values)


def blob_field(
    name: str,
    *,
    nullable: bool = True,
    inline_size_threshold: int | None = None,
    dedicated_size_threshold: int | None = None,
    pack_file_size_threshold: int | None = None,
) -> pa.Field:
    """Return the field of a blob column. The limits are in bytes and become metadata of the field.

    Args:
        name: Name of the column.
        nullable: Whether the column takes nulls.
        inline_size_threshold: Size of the largest value in the data file; 64 KiB unless given.
        dedicated_size_threshold: Size of the largest value that shares a side file; 4 MiB unless given. A
            larger value has a side file of its own, whatever `inline_size_threshold` is.
        pack_file_size_threshold: Largest size of a shared side file; 1 GiB unless given.

    Raises:
        ArgumentTypeError: A limit is no integer.
        InvalidInputError: A limit is too small.
        OverflowError: A limit has more than 64 bits.
    """
    metadata = {}
    for kind, value, least in (
        ("inline", inline_size_threshold, 0),
        ("dedicated", dedicated_size_threshold, 1),
        ("pack_file", pack_file_size_threshold, 1),
    ):
        if value is not None:
            _check_limit(f"{kind}_size_threshold", value, least)
            metadata[f"lance-encoding:blob-{kind.replace('_', '-')}-size-threshold"] = str(value)
    return pa.field(name, BlobType(), nullable, metadata or None)


class BlobColumn:
    """The values of a binary column as files, one after the other; null is None.

    This is for values that fit in memory. Large values belong in a blob column; see
    `LanceDataset.take_blobs`.
    """

    def __init__(self, blob_column: pa.Array | pa.ChunkedArray) -> None:
        """Wrap a column of type binary or large_binary; InvalidInputError for every other type."""
        if not isinstance(blob_column, pa.Array | pa.ChunkedArray):
            raise InvalidInputError(f"Expected an Arrow array, got {type(blob_column).__name__}")
        if blob_column.type not in (pa.binary(), pa.large_binary()):
            raise InvalidInputError(f"Expected a binary array, got {blob_column.type}")
        self.blob_column = blob_column

    def __iter__(self) -> Iterator[io.BytesIO | None]:
        for value in self.blob_column:
            yield io.BytesIO(value.as_buffer()) if value.is_valid else None


def _members(value: Any) -> tuple[Any, ...] | None:
    match value:
        case None:
            return None
        case Blob():
            return (value.data, value.uri, value.position, value.size)
        case str():
            return None, Blob(uri=value).uri, None, None
        case bytes() | bytearray() | memoryview():
            return bytes(value), None, None, None
        case _:
            raise ArgumentTypeError(
                f"a blob must be bytes, the text of a URI, a Blob or None, got {type(value).__name__}"
            )


def _check_limit(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(f"{name} must be an int, got {type(value).__name__}")
    if value < least:
        raise InvalidInputError(f"{name} must be {'positive' if least else 'non-negative'}", found=value)
    if value > _LARGEST:
        raise TooLargeError(f"{name} must fit in a Rust usize, got {value}")


with suppress(pa.ArrowKeyError):  # the reference registers a type of the same name
    pa.register_extension_type(BlobType())
