"""Side files: larger blobs of a 2.2 file, in a directory named like the data file without `.lance`.

A small value stays in the data file, a larger value goes to a shared side file, and the largest values have a
side file each. The name of a side file is the 32 bits of its id, lowest first, and `.blob`. Side files are
complete before their data file and are removed with it. Source: docs/format.md, "Blobs".
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
"""Key of the schema metadata of a data file. Its value is the number of the global buffer with the checksums
of the side files.
"""

_SIZES = "lance-encoding:blob-{}-size-threshold"
_CHECKSUM = struct.Struct("<IIQ")
_SEAL = struct.Struct("<I")
_READ_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class BlobSizes:
    """Limits in bytes that decide which file a blob is written to."""

    inline: int = 64 << 10
    """Largest value in the data file, in bytes."""
    shared: int = 4 << 20
    """Largest value in a shared side file, in bytes."""
    pack: int = 1 << 30
    """Largest size of a shared side file, in bytes."""

    def __str__(self) -> str:
        """Describe the limits for messages."""
        return f"inline {self.inline}, dedicated {self.shared}, pack file {self.pack}"

    @classmethod
    def of(cls, field: Field, pack_bytes: int | None = None) -> Self:
        """Return the limits in the metadata of a field, or the defaults. `pack_bytes` overrides the size of a
        shared file.

        Raises:
            InvalidInputError: a limit in the metadata is not a number, or is too small.
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
            _SIZES.format(name), column=field.name, expected=f"a number of at least {least}", found=repr(text)
        )
    return int(text)


class BlobPlace(NamedTuple):
    """Location of a value in a side file."""

    kind: int
    """1 in a shared side file, 2 in a side file of its own."""
    position: int
    blob_id: int


@dataclass(slots=True)
class _Pack:
    """The shared side file that is being written."""

    blob_id: int
    file: WritableFile
    most_bytes: int
    crc: int = 0


class SideFiles:
    """The side files of one data file that is being written. For one thread."""

    def __init__(self, storage: Storage, data_file: str, *, sync: bool) -> None:
        """Prepare side files for the data file at the path `data_file`. A side file is created with its first
        value.
        """
        self._storage = storage
        self._directory = side_directory(data_file)
        self._sync = sync
        self._pack: _Pack | None = None
        self._last_id = 0
        self._checksums: list[tuple[int, int, int]] = []

    def write(self, data: Bytes, sizes: BlobSizes) -> BlobPlace:
        """Write a value that is too large for the data file. Return its location.

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
        """Complete the side files, before the data file is completed.

        Returns:
            A key of the schema metadata of the data file, and the content of the global buffer for it; None
                if
            there are no side files.
        """
        self._end_pack()
        if not self._last_id:
            return None
        if self._sync:
            self._storage.sync_directory(self._directory)
        content = b"".join(_CHECKSUM.pack(*each) for each in sorted(self._checksums))
        return CHECKSUMS_KEY, content + _SEAL.pack(kernels.crc32c(content))

    def abort(self) -> None:
        """Remove the side files. A side file that cannot be removed is a harmless orphan."""
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
    """Return the directory of the side files of the data file with this path."""
    return posixpath.splitext(data_file)[0]


def side_file_name(blob_id: int) -> str:
    """Return the name of a side file."""
    return f"{f'{blob_id:032b}'[::-1]}.blob"


def delete_data_file(storage: Storage, path: str) -> None:
    """Remove a data file that belongs to no version, and its side files. Errors are those of the storage."""
    storage.delete_file(path)
    storage.delete_directory(side_directory(path))


def read_checksums(content: Bytes, file: str) -> Mapping[int, tuple[int, int]]:
    """Return the CRC-32C and the size of each side file by its id. `file` is the data file, for messages.

    Raises:
        CorruptFileError: the buffer is damaged.
    """
    data = memoryview(content).cast("B")
    body = data[: max(len(data) - _SEAL.size, 0)]
    if len(data) % _CHECKSUM.size != _SEAL.size or _SEAL.pack(kernels.crc32c(body)) != data[len(body) :]:
        raise CorruptFileError("checksums of the side files are damaged", file=file)
    return {blob_id: (crc, size) for blob_id, crc, size in _CHECKSUM.iter_unpack(body)}


def verify_side_file(file: ReadableFile, expected: tuple[int, int]) -> None:
    """Check the checksum and the size of a side file. Reads all its bytes.

    Raises:
        CorruptFileError: they differ from the expected ones.
    """
    crc = 0
    for start in range(0, file.size, _READ_BYTES):
        crc = kernels.crc32c(file.read(start, min(_READ_BYTES, file.size - start)), crc)
    if (crc, file.size) != expected:
        raise CorruptFileError(
            "side file has another checksum or size",
            file=file.name,
            expected=f"{expected[0]:08x}, {expected[1]} bytes",
            found=f"{crc:08x}, {file.size} bytes",
        )
