"""Storage of any other file system that fsspec supports."""

import contextlib
import io
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import IO, Any
from uuid import uuid4

import fsspec
import pyarrow as pa

from lance_core.errors import (
    AlreadyExistsError,
    CorruptFileError,
    FileMissingError,
    InvalidInputError,
    LanceError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_core.kernels import count_write
from lance_core.storage.base import Bytes, Entry, ReadableFile, Storage, StoredFile, WritableFile
from lance_core.storage.paths import contained_path
from lance_core.storage.remote import RemoteFile, aligned
from lance_core.storage.scoped_options import scoped_options

_SPOOLED = 16 << 20
"""Largest size of a file that is gathered in memory. A larger file goes to a temporary file."""
_COPIED_AT_ONCE = 1 << 20

_IDENTITY_KEYS = ("ETag", "etag", "mtime", "created", "LastModified", "last_modified")

_TIME_KEYS = ("LastModified", "last_modified", "mtime", "updated", "created")

_RENAMES_OVER = ("local", "file")
"""Schemes whose files can be renamed over other files, and are visible while they are written."""

_memory_lock = threading.Lock()


class FsspecStorage(Storage):
    """A directory of an fsspec file system."""

    is_remote = True

    def __init__(self, uri: str, options: Mapping[str, str] | None = None) -> None:
        """Open a directory. All `options` except `manifest_store` are arguments of the file system.

        Raises:
            UnsupportedFeatureError: the scheme is unknown, or its package is not installed.
            InvalidInputError: the file system does not accept the options.
        """
        scheme = uri.partition("://")[0]
        arguments = scoped_options(options or {}, None)
        self.manifest_store = arguments.pop("manifest_store", None)
        try:
            self._files, root = fsspec.core.url_to_fs(uri, **arguments)
        except ImportError as error:
            raise UnsupportedFeatureError(f"storage scheme {scheme}: {error}") from None
        except (TypeError, ValueError) as error:
            if scheme in fsspec.available_protocols():
                raise InvalidInputError(f"file system {scheme} does not accept these options") from error
            raise UnsupportedFeatureError("storage scheme", found=scheme) from None
        self._root = root.rstrip("/")
        self._scheme = scheme
        self.uri = uri.rstrip("/")
        self.options = dict(options or {})

    def open_file(self, path: str, size: int | None = None) -> ReadableFile:
        info = self._call(self._files.info, path)
        if info["type"] != "file":
            raise StorageError("not a regular file", file=path)
        if size and info["size"] != size:
            raise CorruptFileError("file has the wrong size", file=path, expected=size, found=info["size"])
        return FsspecFile(path, self._absolute(path), self._files, info)

    def list_directory(self, path: str) -> list[Entry]:
        self._call(self._files.invalidate_cache, path)  # other processes may have written
        infos = self._call(lambda where: self._files.ls(where, detail=True), path)
        if len(infos) == 1 and infos[0]["type"] == "file" and infos[0]["name"] == self._absolute(path):
            raise FileMissingError("no such file or directory", file=path)
        return [
            Entry(info["name"].rstrip("/").rpartition("/")[2], info["type"] == "directory") for info in infos
        ]

    def list_files(self, path: str) -> Iterator[StoredFile]:
        try:
            found = self._call(lambda where: self._files.find(where, detail=True), path)
        except FileMissingError:
            return
        skipped = len(self._root) + 1
        for name, info in found.items():
            if info["type"] == "file":
                yield StoredFile(name[skipped:], info["size"], _modified(info))

    def exists(self, path: str) -> bool:
        return bool(self._call(self._files.isfile, path))

    def below(self, path: str) -> "FsspecStorage":
        storage = FsspecStorage.__new__(FsspecStorage)
        storage._files, storage._scheme = self._files, self._scheme
        storage._root = self._absolute(path)
        storage.uri = f"{self.uri}/{path}"
        storage.options, storage.manifest_store = self.options, self.manifest_store
        return storage

    def create_file(self, path: str, *, sync: bool = True, replace: bool = False) -> WritableFile:
        if not replace and self.exists(path):
            raise AlreadyExistsError("file exists", file=path)
        return NewFsspecFile(path, self)

    def put_if_absent(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        if self._scheme != "memory":
            if self.needs_exclusive_puts:
                raise UnsupportedFeatureError(
                    f"storage scheme {self._scheme} cannot create files exclusively; versions need the"
                    " storage option manifest_store, or a commit lock"
                )
            # Without an exclusive put, a check is enough here: a lock or a manifest store decides who makes a
            # version, and names of other files are used once.
            if self.exists(path):
                raise AlreadyExistsError("file exists", file=path)
            self._send_complete(path, data)
            return
        with _memory_lock:
            if self.exists(path):
                raise AlreadyExistsError("file exists", file=path)
            self.send(path, io.BytesIO(data))

    def put(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        contained_path(path)
        if self._scheme in _RENAMES_OVER:
            self._send_complete(path, data)  # a reader of the file that is replaced sees one or the other
        else:
            self.send(path, io.BytesIO(data))

    def delete_file(self, path: str) -> None:
        with contextlib.suppress(FileMissingError):
            self._call(self._files.rm_file, path)

    def delete_directory(self, path: str) -> None:
        with contextlib.suppress(FileMissingError):
            self._call(lambda where: self._files.rm(where, recursive=True), contained_path(path))

    def sync_directory(self, path: str) -> None:
        """Do nothing: fsspec has no such operation."""

    def send(self, path: str, source: IO[bytes]) -> None:
        """Store a whole file."""
        parent = self._absolute(path).rpartition("/")[0]
        self._call(lambda _: self._files.makedirs(parent, exist_ok=True), path)

        def copy(where: str) -> None:
            with self._files.open(where, "wb") as target:
                shutil.copyfileobj(source, target, _COPIED_AT_ONCE)

        source.seek(0)
        self._call(copy, path)
        count_write(source.tell())

    def _send_complete(self, path: str, data: Bytes) -> None:
        """Store a whole file under a temporary name, and rename it.

        Readers do not hold the lock of a writer, and many file systems show a file while it is being written.
        """
        temporary = f"{path}-{uuid4().hex}"
        self.send(temporary, io.BytesIO(data))
        try:
            self._call(lambda where: self._files.mv(where, self._absolute(path)), temporary)
        except StorageError:
            with contextlib.suppress(StorageError):
                self.delete_file(temporary)
            raise

    def _absolute(self, path: str) -> str:
        return f"{self._root}/{contained_path(path)}" if path else self._root

    def _call(self, act: Any, path: str) -> Any:
        try:
            return act(self._absolute(path))
        except LanceError:
            raise
        except (FileNotFoundError, NotADirectoryError):
            raise FileMissingError("no such file or directory", file=path) from None
        except Exception as error:
            raise _failed(error, path) from None


class FsspecFile(RemoteFile):
    """A file that is read by ranges."""

    def __init__(self, name: str, absolute: str, files: Any, info: Mapping[str, Any]) -> None:
        super().__init__()
        self.name = name
        self.size = info["size"]
        self.identity = "-".join(str(info[key]) for key in ("size", *_IDENTITY_KEYS) if key in info)
        self._absolute = absolute
        self._files = files

    def fetch(self, offset: int, length: int) -> pa.Buffer:
        try:
            data = self._files.cat_file(self._absolute, start=offset, end=offset + length)
        except FileNotFoundError:
            raise FileMissingError("no such file or directory", file=self.name) from None
        except Exception as error:
            raise _failed(error, self.name) from None
        if len(data) != length:
            raise CorruptFileError(
                "file was truncated while open", file=self.name, expected=length, found=len(data)
            )
        return aligned(data)


class NewFsspecFile(WritableFile):
    """A file that is gathered here and sent to the file system when it is complete.

    Many file systems show a file while it is being written.
    """

    def __init__(self, path: str, storage: FsspecStorage) -> None:
        self.name = path
        self.position = 0
        self._storage = storage
        self._is_closed = False
        self._gathered: Any = tempfile.SpooledTemporaryFile(_SPOOLED)  # noqa: SIM115, closed by abort

    def write(self, data: Bytes) -> None:
        self._check_open()
        try:
            self._gathered.write(memoryview(data))
        except OSError as error:
            self.abort()
            raise _failed(error, self.name) from None
        self.position += memoryview(data).nbytes

    def close(self) -> None:
        if self._is_closed:
            return
        self._check_open()
        try:
            self._storage.send(self.name, self._gathered)
        finally:
            self.abort()
        self._is_closed = True

    def abort(self) -> None:
        if self._gathered is not None:
            self._gathered.close()
            self._gathered = None

    def _check_open(self) -> None:
        if self._gathered is None:
            raise StorageError("file is closed", file=self.name)


def _modified(info: Mapping[str, Any]) -> float | None:
    for key in _TIME_KEYS:
        value = info.get(key)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
    return None


def _failed(error: Exception, name: str) -> StorageError:
    """Return a `StorageError` without the text of `error`, which may contain hosts and credentials."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return StorageError(f"file system: {reason}", file=name)
