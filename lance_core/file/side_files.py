"""Files beside a data file of 2.2 for its larger blobs, in a directory that has its name without `.lance`.

A value up to one size stays in the data file, a larger one goes into a file that several share, and above
another size each has a file of its own. The name is the number's 32 bits, lowest first, and `.blob`. They
live and die with the data file.
Source: docs/format.md, "Blobs".
"""

from __future__ import annotations

import posixpath
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Self

from lance_core import kernels
from lance_core.errors import CorruptFileError, InvalidInputError, StorageError
from lance_core.schema import Field
from lance_core.storage import Storage
from lance_core.storage.base import Bytes, ReadableFile, WritableFile

CHECKSUMS_KEY = "lance_flight:side_files"
"""In the schema metadata of a data file: the number of the global buffer with checksums of its side files."""

_SIZES = "lance-encoding:blob-{}-size-threshold"
_CHECKSUM = struct.Struct("<IIQ")
_SEAL = struct.Struct("<I")
_PIECE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class BlobSizes:
    """Limits in bytes that decide which file a blob is written to."""

    inline: int = 64 << 10
    """Largest value in the data file."""
    shared: int = 4 << 20
    """Largest value in a shared file."""
    pack: int = 1 << 30
    """Largest shared file."""

    @classmethod
    def of(cls, field: Field, pack_bytes: int | None = None) -> Self:
        """Return the limits in the metadata of a field, or the defaults; `pack_bytes` overrides the limit
        of a shared file.

        Raises:
            InvalidInputError: a size is no number.
        """
        return cls(
            _size(field, "inline", cls().inline, least=0),
            _size(field, "dedicated", cls().shared, least=1),
            _size(field, "pack-file", cls().pack, least=1) if pack_bytes is None else pack_bytes,
        )


def _size(field: Field, name: str, default: int, least: int) -> int:
    text = field.metadata.get(_SIZES.format(name))
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or not least <= int(text) < 1 << 64:
        raise InvalidInputError(
            _SIZES.format(name), column=field.name, expected=f"a number from {least} on", found=repr(text)
        )
    return int(text)


class BlobPlace(NamedTuple):
    """Location of a value, from its descriptor."""

    kind: int
    """1 in a file that values share, 2 in one of its own."""
    position: int
    blob_id: int


@dataclass(slots=True)
class _Pack:
    """The shared file that is being written."""

    blob_id: int
    file: WritableFile
    most_bytes: int
    crc: int = 0


class SideFiles:
    """The side files of one data file in the making; for one thread."""

    def __init__(self, storage: Storage, data_file: str, *, sync: bool) -> None:
        """`data_file` is the path of the data file. Nothing is made before there is a value for it."""
        self._storage = storage
        self._directory = side_directory(data_file)
        self._sync = sync
        self._pack: _Pack | None = None
        self._last_id = 0
        self._checksums: list[tuple[int, int, int]] = []

    def write(self, data: Bytes, sizes: BlobSizes) -> BlobPlace:
        """Write a value that is too large for the data file.

        Raises:
            StorageError: the storage failed.
        """
        if memoryview(data).nbytes > sizes.shared:
            blob_id, file = self._create()
            with file:
                file.write(data)
            self._checksums.append((blob_id, kernels.crc32c(data), file.position))
            return BlobPlace(2, 0, blob_id)
        pack = self._room_for(memoryview(data).nbytes, sizes.pack)
        position = pack.file.position
        pack.file.write(data)
        pack.crc = kernels.crc32c(data, pack.crc)
        return BlobPlace(1, position, pack.blob_id)

    def finish(self) -> tuple[str, bytes] | None:
        """Complete the files: they are there before the data file is.

        Returns:
            The key in the schema metadata of the data file, and the buffer that it names; None without files.
        """
        self._end_pack()
        if not self._last_id:
            return None
        if self._sync:
            self._storage.sync_directory(self._directory)
        content = b"".join(_CHECKSUM.pack(*each) for each in sorted(self._checksums))
        return CHECKSUMS_KEY, content + _SEAL.pack(kernels.crc32c(content))

    def abort(self) -> None:
        """Remove the files; what cannot be removed is an orphan, and harmless."""
        if self._pack is not None:
            self._pack.file.abort()
            self._pack = None
        if self._last_id:
            with suppress(StorageError):
                self._storage.delete_directory(self._directory)

    def _create(self) -> tuple[int, WritableFile]:
        self._last_id += 1
        path = f"{self._directory}/{side_file_name(self._last_id)}"
        return self._last_id, self._storage.create_file(path, sync=self._sync)

    def _room_for(self, num_bytes: int, most_bytes: int) -> _Pack:
        pack = self._pack
        if pack and (pack.most_bytes != most_bytes or pack.file.position + num_bytes > most_bytes):
            self._end_pack()
        if self._pack is None:
            self._pack = _Pack(*self._create(), most_bytes)
        return self._pack

    def _end_pack(self) -> None:
        if self._pack is not None:
            self._pack.file.close()
            self._checksums.append((self._pack.blob_id, self._pack.crc, self._pack.file.position))
            self._pack = None


def side_directory(data_file: str) -> str:
    """Return the directory of the side files of a data file, given by its path."""
    return posixpath.splitext(data_file)[0]


def side_file_name(blob_id: int) -> str:
    """Return the name of a side file."""
    return f"{f'{blob_id:032b}'[::-1]}.blob"


def delete_data_file(storage: Storage, path: str) -> None:
    """Remove a data file that belongs to no version, with its side files; errors are those of the storage."""
    storage.delete_file(path)
    storage.delete_directory(side_directory(path))


def read_checksums(content: Bytes, file: str) -> Mapping[int, tuple[int, int]]:
    """Return the CRC-32C and the size of each side file, by its number; `file` is the data file, for
    messages.

    Raises:
        CorruptFileError: the buffer is damaged.
    """
    data = memoryview(content).cast("B")
    body = data[: max(len(data) - _SEAL.size, 0)]
    if len(data) % _CHECKSUM.size != _SEAL.size or _SEAL.pack(kernels.crc32c(body)) != data[len(body) :]:
        raise CorruptFileError("checksums of the side files are damaged", file=file)
    return {blob_id: (crc, size) for blob_id, crc, size in _CHECKSUM.iter_unpack(body)}


def verify_side_file(file: ReadableFile, expected: tuple[int, int]) -> None:
    """Check all bytes of a side file against its checksum and size.

    Raises:
        CorruptFileError: they differ.
    """
    crc = 0
    for start in range(0, file.size, _PIECE_BYTES):
        crc = kernels.crc32c(file.read(start, min(_PIECE_BYTES, file.size - start)), crc)
    if (crc, file.size) != expected:
        raise CorruptFileError(
            "side file has another checksum or size",
            file=file.name,
            expected=f"{expected[0]:08x}, {expected[1]} bytes",
            found=f"{crc:08x}, {file.size} bytes",
        )
