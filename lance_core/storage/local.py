"""Storage of the local machine, with positional reads.

Arrays never point into a mapped file: if a mapped file is truncated, the next access kills the process. Only
single values are copied out of a map, under a guard (`kernels/files/file_map.hpp`), after many of them were
requested.
"""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Self
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from lance_core import kernels
from lance_core.errors import (
    AlreadyExistsError,
    CorruptFileError,
    FileMissingError,
    PutUnknownError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_core.kernels import CorruptData, PieceReader, close_unused_descriptors
from lance_core.storage.base import ByteRanges, Bytes, Entry, ReadableFile, Storage, StoredFile, WritableFile
from lance_core.storage.descriptor import Descriptor, storage_error, sync_descriptor
from lance_core.storage.local_state import directory_state
from lance_core.storage.local_write import NewLocalFile, replace_file
from lance_core.storage.paths import contained_path

_MAX_GAP = 4096
_MAX_MERGED_READ = 1 << 20
_TOO_MANY = (errno.EMFILE, errno.ENFILE)
_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""Without O_NONBLOCK, opening a pipe inside the dataset would block until somebody writes to it."""
_FAULT_BYTES = 64 << 10
"""Bytes that the system maps on the first access to a page of a mapped file."""


class LocalStorage(Storage):
    """A directory of the local file system."""

    def __init__(self, uri: str, *, follow_links: bool = False, is_resolved: bool = False) -> None:
        """Open the directory at `uri`, a path or a `file://` URL.

        Args:
            uri: path of the directory.
            follow_links: accept links that leave the root.
            is_resolved: the path is absolute and has no links. It is not resolved again, so nothing outside
                is read even if the directory is replaced by a link.
        """
        self._root = uri if is_resolved else os.path.abspath(_local_path(uri))
        self._below = os.path.join(self._root, "")
        self._real_root = self._root if is_resolved else os.path.realpath(self._root)
        self._follow_links = follow_links
        self._later: list[Callable[[], None]] | None = None
        self.uri = self._root

    def below(self, path: str) -> "LocalStorage":
        storage = LocalStorage(self._absolute(path), follow_links=self._follow_links)
        storage._real_root = self._real_root
        return storage

    def open_file(self, path: str, size: int | None = None) -> ReadableFile:
        file = LocalFile(path, self._open(path, os.O_RDONLY).detach(), self._absolute(path))
        if size and size != file.size:
            raise CorruptFileError("file has the wrong size", file=path, expected=size, found=file.size)
        return file

    def read_files(
        self, directory: str, names: Sequence[str], sizes: Sequence[int] | None = None
    ) -> list[bytes | None]:
        # Faster than one after the other: no path is looked up, and nothing else runs between the calls.
        try:
            opened = self._open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except FileMissingError:
            return [None] * len(names)
        wanted = [None] * len(names) if sizes is None else sizes
        return [
            self._read_in(opened.number, directory, name, size)
            for name, size in zip(names, wanted, strict=True)
        ]

    def _read_in(self, opened: int, directory: str, name: str, wanted: int | None) -> bytes | None:
        """Return the bytes of a file in the directory with the descriptor `opened`, None if it is missing, or
        does not have the `wanted` size.
        """
        contained_path(name)
        try:
            number = os.open(name, _READ_FLAGS | os.O_NOFOLLOW, dir_fd=opened)
            try:
                size = _size(os.fstat(number), name)
                if wanted is not None and wanted != size:
                    return None
                data = os.read(number, size)
            finally:
                os.close(number)
        except OSError:
            data = None
        if data is None or len(data) < size:  # a link, an error, or a file too large for one call
            return self.read_if_there(f"{directory}/{name}", wanted)
        kernels.count_read(size)
        return data

    def identify(self, path: str) -> str | None:
        absolute = self._absolute(path)
        try:
            return _identity(os.stat(absolute))
        except OSError:
            return None

    def directory_state(self, path: str) -> Hashable | None:
        absolute = self._absolute(path)
        try:
            return directory_state(absolute)
        except OSError:
            return None

    def list_directory(self, path: str) -> list[Entry]:
        descriptor = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(descriptor.number) as entries:
                return [Entry(entry.name, entry.is_dir()) for entry in entries]
        except OSError as error:
            raise storage_error(error, path) from None

    def list_names(self, path: str) -> list[str]:
        descriptor = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return os.listdir(descriptor.number)
        except OSError as error:
            raise storage_error(error, path) from None

    def list_files(self, path: str) -> Iterator[StoredFile]:
        try:
            descriptor = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileMissingError:
            return
        directories: list[str] = []
        try:
            with os.scandir(descriptor.number) as entries:
                for entry in entries:
                    name = f"{path}/{entry.name}" if path else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(name)
                    elif entry.is_file(follow_symlinks=False):
                        with suppress(FileNotFoundError):
                            status = entry.stat(follow_symlinks=False)
                            yield StoredFile(name, status.st_size, status.st_mtime, status.st_ctime)
        except OSError as error:
            raise storage_error(error, path) from None
        for directory in directories:
            yield from self.list_files(directory)

    def exists(self, path: str) -> bool:
        return os.path.isfile(self._absolute(path))

    def create_file(self, path: str, *, sync: bool = True, replace: bool = False) -> WritableFile:
        contained_path(path)
        parent, _, name = path.rpartition("/")
        directory = self._directory(parent, sync)
        if not replace and os.access(name, os.F_OK, dir_fd=directory.number, follow_symlinks=False):
            raise AlreadyExistsError("file exists", file=path)
        return NewLocalFile(path, directory, sync=sync, replace=replace, later=self._later)

    def put_if_absent(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        self.prepare_put(path, data, sync=sync)()

    def prepare_put(self, path: str, data: Bytes, *, sync: bool = True) -> Callable[[], None]:
        directory = self._directory(contained_path(path).rpartition("/")[0], sync)
        file = NewLocalFile(path, directory, sync=sync)
        file.write(data)
        file.complete()

        def publish() -> None:
            file.close()  # raises if a file exists
            if sync:
                try:
                    self.sync_directory(path.rpartition("/")[0])
                except StorageError as error:
                    raise PutUnknownError("name of a new file could not be synced", file=path) from error

        return publish

    def put(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        parent = contained_path(path).rpartition("/")[0]
        replace_file(path, self._directory(parent, sync), data, sync=sync)

    def delete_file(self, path: str) -> None:
        parent, _, name = contained_path(path).rpartition("/")
        try:
            directory = self._open(parent, os.O_RDONLY | os.O_DIRECTORY)
            os.unlink(name, dir_fd=directory.number)
        except FileNotFoundError:  # the file or its directory is missing
            pass
        except OSError as error:
            raise storage_error(error, path) from None

    def delete_directory(self, path: str) -> None:
        try:
            self._open(contained_path(path), os.O_RDONLY | os.O_DIRECTORY)
            shutil.rmtree(self._absolute(path))  # rmtree follows no links
        except FileMissingError:
            pass
        except OSError as error:
            raise storage_error(error, path) from None

    def delete_root(self) -> None:
        with suppress(OSError):  # not empty, a link, or gone
            os.rmdir(self._root)

    def sync_directory(self, path: str) -> None:
        self._sync_directory(self._open(path, os.O_RDONLY | os.O_DIRECTORY), path)

    def syncing_later(self, syncs: list[Callable[[], None]]) -> Self:
        storage = self._copy()
        storage._later = syncs
        return storage

    def _sync_directory(self, directory: Descriptor, path: str) -> None:
        if self._later is None:
            sync_descriptor(directory, path)
        else:
            self._later.append(partial(sync_descriptor, directory, path))

    def _directory(self, path: str, sync: bool) -> Descriptor:
        """Open a directory. It is created with its parents if it is missing."""
        try:
            return self._open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileMissingError:
            pass
        try:
            if path:
                parent, _, name = path.rpartition("/")
                above = self._directory(parent, sync)
                with suppress(FileExistsError):  # another writer was faster, and may not have synced it yet
                    os.mkdir(name, dir_fd=above.number)
                if sync:
                    self._sync_directory(above, parent)
            else:
                _make_root(self._root, sync)
        except OSError as error:
            raise storage_error(error, path) from None
        return self._open(path, os.O_RDONLY | os.O_DIRECTORY)

    def _absolute(self, path: str) -> str:
        return self._below + contained_path(path) if path else self._root

    def _open(self, path: str, flags: int) -> Descriptor:
        """Open a path below the root. The open file is checked, not the path, so that no link can be swapped
        in between.
        """
        try:
            descriptor = _opened(self._absolute(path), flags)
            if not self._follow_links and not self._is_below_root(descriptor.number):
                raise StorageError("link leaves the dataset", file=path)
        except OSError as error:
            raise storage_error(error, path) from None
        return descriptor

    def _is_below_root(self, descriptor: int) -> bool:
        real_path = os.readlink(f"/proc/self/fd/{descriptor}")
        return real_path == self._real_root or real_path.startswith(self._real_root.rstrip("/") + "/")


class LocalFile(ReadableFile):
    """A local file that is read through its descriptor."""

    max_gap = _MAX_GAP
    max_merged_read = _MAX_MERGED_READ

    def __init__(self, name: str, number: int, path: str) -> None:
        """Take the open descriptor `number` of the file at the absolute `path`; `name` is for messages."""
        descriptor = kernels.Descriptor(number, os.fsencode(path))
        status = os.fstat(number)
        self.name = name
        self.size = _size(status, name)
        self.identity = _identity(status)
        self._ranges: PieceReader | None = PieceReader(
            descriptor, self.size, _MAX_GAP, 1 + self.size // _FAULT_BYTES
        )

    def range_reader(self) -> PieceReader | None:
        return self._ranges

    def read(self, offset: int, length: int) -> pa.Buffer:
        self.check_range(offset, length)
        block, error, end = self._open.read_range(offset, length)
        self._check_read(error, end)
        return pa.py_buffer(block)

    def read_joined(self, parts: Sequence[ByteRanges]) -> list[pa.Buffer]:
        try:
            data, error, end = self._open.read(parts)
        except CorruptData as problem:
            raise CorruptFileError(
                "read outside the file",
                file=self.name,
                expected=f"ranges within {self.size} bytes",
                found=str(problem),
            ) from None
        self._check_read(error, end)
        return [pa.py_buffer(block) for block in data]

    def close(self) -> None:
        self._ranges = None

    @property
    def _open(self) -> PieceReader:
        """The reader; its descriptor cannot be closed while it is in use."""
        reader = self._ranges
        if reader is None:
            raise StorageError("file is closed", file=self.name)
        return reader

    def _check_read(self, error: int, end: int) -> None:
        """Raise an error unless `error`, an errno, is 0, and `end`, where the file ended too early, is -1."""
        if error:
            raise storage_error(OSError(error, os.strerror(error)), self.name)
        if end >= 0:
            raise CorruptFileError(
                "file was truncated while open", file=self.name, expected=self.size, found=end
            )


def _opened(path: str, flags: int) -> Descriptor:
    flags |= _READ_FLAGS
    try:
        return Descriptor(os.open(path, flags))
    except OSError as error:
        if error.errno not in _TOO_MANY or not close_unused_descriptors():
            raise
    return Descriptor(os.open(path, flags))


def _size(status: os.stat_result, name: str) -> int:
    """Return the bytes of a file, which must be a regular one."""
    if not stat.S_ISREG(status.st_mode):
        raise StorageError("not a regular file", file=name)
    return status.st_size


def _identity(status: os.stat_result) -> str:
    return f"{status.st_dev}-{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"


def _make_root(path: str, sync: bool) -> None:
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        _make_root(parent, sync)
    with suppress(FileExistsError):  # another writer was faster, and may not have synced it yet
        os.mkdir(path)
    if sync:
        above = Descriptor(os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        os.fsync(above.number)


def expand_home(path: str) -> str:
    """Return a path with the user's home directory in place of a leading `~`."""
    return os.path.expanduser(path) if path.split("/", 1)[0] == "~" else path


def _local_path(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise UnsupportedFeatureError("file URL names another host", found=parts.netloc)
        return unquote(parts.path)
    return expand_home(uri)
