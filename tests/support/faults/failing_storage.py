"""A storage that counts the calls that change something, and lets one of them go wrong.

Calls are counted in order: create a file, write to it, close it, put a file (only where there is none, or in
place of one), delete one, sync a directory. A directory is deleted file by file.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path

from lance_core.errors import PutUnknownError, StorageError
from lance_core.storage import LocalStorage, Storage, StoredFile
from lance_core.storage.base import Bytes, Entry, ReadableFile, WritableFile

Fault = Callable[[str, Callable[[], None]], None]
"""Is given the name of the call and the call itself, which it may make or not."""


def fails(name: str, call: Callable[[], None]) -> None:
    """The call is not made."""
    raise StorageError(f"injected into {name}")


def kills(name: str, call: Callable[[], None]) -> None:
    """The process is gone before the call."""
    os.kill(os.getpid(), signal.SIGKILL)


def kills_after(name: str, call: Callable[[], None]) -> None:
    """The process is gone after the call."""
    call()
    os.kill(os.getpid(), signal.SIGKILL)


def loses_answer(name: str, call: Callable[[], None]) -> None:
    """The call is made, and nobody hears of it."""
    call()
    raise PutUnknownError(f"answer of {name} was lost")


def loses_request(name: str, call: Callable[[], None]) -> None:
    """The call is not made, and nobody knows."""
    raise PutUnknownError(f"answer of {name} was lost")


def before(meanwhile: Callable[[], None]) -> Fault:
    """Something else happens, and then the call."""

    def fault(_: str, call: Callable[[], None]) -> None:
        meanwhile()
        call()

    return fault


class FaultStorage(Storage):
    """Local files with one fault."""

    def __init__(self, path: Path | str, at: int = -1, fault: Fault = fails, only: str = "") -> None:
        """Let the call number `at` go wrong, of those whose name begins with `only`."""
        self._real = LocalStorage(str(path))
        self.uri = self._real.uri
        self._at = at
        self.fault = fault
        self._only = only
        self.calls: list[str] = []
        self.reads_fail = False
        self.lookups_fail = False

    def change(self, name: str, call: Callable[[], None]) -> None:
        """Make a call, or let it go wrong."""
        if not name.startswith(self._only):
            call()
            return
        self.calls.append(name)
        if len(self.calls) - 1 == self._at:
            self.fault(name, call)
        else:
            call()

    def open_file(self, path: str, size: int | None = None) -> ReadableFile:
        return self._real.open_file(path, size)

    def read_file(self, path: str) -> bytes:
        if self.reads_fail:
            raise StorageError("injected into a read")
        return self._real.read_file(path)

    def list_directory(self, path: str) -> list[Entry]:
        if self.lookups_fail:
            raise StorageError("injected into a listing")
        return self._real.list_directory(path)

    def list_files(self, path: str) -> Iterator[StoredFile]:
        return self._real.list_files(path)

    def exists(self, path: str) -> bool:
        if self.lookups_fail:
            raise StorageError("injected into a lookup")
        return self._real.exists(path)

    def delete_root(self) -> None:
        self.change("delete_root", self._real.delete_root)

    def below(self, path: str) -> Storage:
        below = copy(self)  # counts on
        below._real = self._real.below(path)
        below.uri = below._real.uri
        return below

    def create_file(self, path: str, *, sync: bool = True, replace: bool = False) -> WritableFile:
        files: list[WritableFile] = []
        create = self._real.create_file
        self.change(f"create {path}", lambda: files.append(create(path, sync=sync, replace=replace)))
        return _FaultFile(self, files[0])

    def put_if_absent(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        self.change(f"put {path}", lambda: self._real.put_if_absent(path, data, sync=sync))

    def put(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        self.change(f"replace {path}", lambda: self._real.put(path, data, sync=sync))

    def delete_directory(self, path: str) -> None:
        for file in sorted(self._real.list_files(path), key=lambda file: file.path):
            self.delete_file(file.path)
        self.change(f"delete {path}", lambda: self._real.delete_directory(path))

    def delete_file(self, path: str) -> None:
        self.change(f"delete {path}", lambda: self._real.delete_file(path))

    def sync_directory(self, path: str) -> None:
        self.change(f"sync {path}", lambda: self._real.sync_directory(path))


class CallStorage(FaultStorage):
    """Local files with one fault, where calls that only read count, too."""

    def _before(self, name: str) -> None:
        self.change(name, lambda: None)

    def open_file(self, path: str, size: int | None = None) -> ReadableFile:
        self._before(f"open {path}")
        return super().open_file(path, size)

    def read_file(self, path: str) -> bytes:
        self._before(f"read {path}")
        return super().read_file(path)

    def list_directory(self, path: str) -> list[Entry]:
        self._before(f"list {path}")
        return super().list_directory(path)

    def list_files(self, path: str) -> Iterator[StoredFile]:
        self._before(f"list {path}")
        return super().list_files(path)

    def exists(self, path: str) -> bool:
        self._before(f"look for {path}")
        return super().exists(path)


class _FaultFile(WritableFile):
    def __init__(self, storage: FaultStorage, file: WritableFile) -> None:
        self._storage = storage
        self._real = file
        self.name = file.name

    @property
    def position(self) -> int:  # type: ignore[override]
        return self._real.position

    def write(self, data: Bytes) -> None:
        self._storage.change(f"write {self.name}", lambda: self._real.write(data))

    def close(self) -> None:
        self._storage.change(f"close {self.name}", self._real.close)

    def abort(self) -> None:
        self._real.abort()
