"""The files below one directory, with the names and arguments of the reference library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from lance_core.api.file.streams import LanceFileReader, LanceFileWriter
from lance_core.api.names.namespaces import refuse_namespaces
from lance_core.arguments import named_arguments
from lance_core.errors import (
    FileMissingError,
    InvalidInputError,
    LanceError,
    StorageError,
)
from lance_core.storage import Storage, storage_for

if TYPE_CHECKING:
    from lance_core.api.file.blob_descriptors import DedicatedBlobWriter, PackedBlobWriter

_PIECE_BYTES = 8 << 20


@dataclass
class ListResult:
    """The content of one directory."""

    common_prefixes: list[str]
    """Paths of its directories."""
    objects: list[str]
    """Paths of its files."""


@named_arguments
class LanceFileSession:
    """Readers and writers of the files below one directory. All paths are relative to this directory."""

    def __init__(
        self,
        base_path: str | PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        namespace_client: object = None,
        table_id: list[str] | None = None,
    ) -> None:
        """Open a directory, which need not exist yet.

        Args:
            base_path: Path or URL of the directory.
            storage_options: Settings of the storage that the URL names.
            namespace_client, table_id: Not supported.

        Raises:
            InvalidInputError: The path or an option is not valid.
            UnsupportedFeatureError: The scheme of the URL is unknown.
        """
        refuse_namespaces(namespace_client, table_id)
        self._storage = storage_for(fspath(base_path), storage_options)

    @classmethod
    def of_storage(cls, storage: Storage) -> Self:
        """Return a session for the files of a storage."""
        session = cls.__new__(cls)
        session._storage = storage
        return session

    def open_reader(self, path: str, columns: list[str] | None = None) -> LanceFileReader:
        """Return a reader of a data file; errors are those of `LanceFileReader`."""
        return LanceFileReader.of_storage(self._storage, _relative(path), columns)

    def open_writer(
        self,
        path: str,
        *,
        schema: pa.Schema | None = None,
        data_cache_bytes: int | None = None,
        version: str | None = None,
        keep_original_array: bool | None = None,
        max_page_bytes: int | None = None,
    ) -> LanceFileWriter:
        """Return a writer of a data file; other arguments and errors are those of `LanceFileWriter`."""
        return LanceFileWriter.of_storage(
            self._storage, _relative(path), schema, data_cache_bytes, version, max_page_bytes
        )

    def open_packed_blob_writer(self, path: str, blob_id: int) -> PackedBlobWriter:
        """Return a writer of a side file with several blobs.

        Args:
            path: Path of the data file that will describe the blobs. It ends with `.lance`.
            blob_id: Id of the side file, from 1 on. Each side file of a data file has another.

        Raises:
            InvalidInputError: The path or the id is not valid.
        """
        from lance_core.api.file.blob_descriptors import PackedBlobWriter  # late: it is rarely needed

        return PackedBlobWriter(self._storage, _relative(path), blob_id)

    def open_dedicated_blob_writer(self, path: str, blob_id: int) -> DedicatedBlobWriter:
        """Return a writer of a side file with one blob; arguments and errors are those of
        `open_packed_blob_writer`.
        """
        from lance_core.api.file.blob_descriptors import DedicatedBlobWriter  # late, too

        return DedicatedBlobWriter(self._storage, _relative(path), blob_id)

    def contains(self, path: str) -> bool:
        """Return whether there is a file at a path."""
        return self._storage.exists(_relative(path))

    def list(self, path: str | None = None) -> list[str]:
        """Return the paths of all files below a directory; without a path, of all files.

        The order is not defined. There are none if the directory is missing.
        """
        return [file.path for file in self._storage.list_files(_relative(path or ""))]

    def list_with_delimiter(self, path: str | None = None) -> ListResult:
        """Return the files and directories in a directory. Both are empty if the directory is missing."""
        directory = _relative(path or "")
        try:
            entries = self._storage.list_directory(directory)
        except FileMissingError:
            return ListResult([], [])
        prefix = f"{directory}/" if directory else ""
        directories = [prefix + entry.name for entry in entries if entry.is_directory]
        return ListResult(directories, [prefix + entry.name for entry in entries if not entry.is_directory])

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Return the bytes `[offset, offset + length)` of a file.

        Raises:
            CorruptFileError: The range exceeds the file. It is an OSError.
            StorageError: The file is missing, or the storage failed.
        """
        with self._storage.open_file(_relative(path)) as file:
            return bytes(memoryview(file.read(offset, length)))

    def delete_file(self, path: str) -> None:
        """Remove a file.

        Raises:
            StorageError: The file is missing, or the storage failed.
        """
        name = _relative(path)
        if not self._storage.exists(name):
            raise FileMissingError("no such file", file=name)
        self._storage.delete_file(name)

    def upload_file(self, local_path: str | PathLike[str], remote_path: str) -> None:
        """Copy a local file to a path of this session. It replaces an existing file when it is complete.

        Raises:
            StorageError: The local file cannot be read, or the storage failed.
        """
        name = _relative(remote_path)
        try:
            with open(local_path, "rb") as source, self._storage.create_file(name, replace=True) as target:
                while piece := source.read(_PIECE_BYTES):
                    target.write(piece)
        except LanceError:
            raise
        except OSError as error:
            raise StorageError(f"local file cannot be read: {error.strerror}", file=str(local_path)) from None

    def download_file(self, remote_path: str, local_path: str | PathLike[str]) -> None:
        """Copy a file of this session to a local path. It replaces an existing file.

        Raises:
            StorageError: The file is missing, the local file cannot be written, or the storage failed.
        """
        with self._storage.open_file(_relative(remote_path)) as source:
            try:
                with open(local_path, "wb") as target:
                    for start in range(0, source.size, _PIECE_BYTES):
                        target.write(source.read(start, min(_PIECE_BYTES, source.size - start)))
            except LanceError:
                raise
            except OSError as error:
                found = f"local file cannot be written: {error.strerror}"
                raise StorageError(found, file=str(local_path)) from None


def _relative(path: str) -> str:
    """Return a path below the session's directory. Slashes at both ends do not count.

    Raises:
        InvalidInputError: The path leads out of the directory.
    """
    relative = path.strip("/")
    if ".." in relative.split("/"):
        raise InvalidInputError("path leaves the directory of the session", found=repr(path))
    return relative
