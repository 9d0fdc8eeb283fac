"""The interface of all storages."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType, TracebackType
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.errors import CorruptFileError, FileMissingError
from lance_core.kernels import Block, PieceReader
from lance_core.pool import run_each
from lance_core.process.counters import step
from lance_core.storage.coalesce import ByteRange, MergedRange, coalesce
from lance_core.storage.commit_lock import CommitLock

Bytes: TypeAlias = bytes | bytearray | memoryview | pa.Buffer
"""Types of data that files accept."""

ByteRanges: TypeAlias = tuple[Block | memoryview, Block | memoryview]
"""Offsets and lengths (int64) of byte ranges that belong together."""


class Entry(NamedTuple):
    """One entry of a directory."""

    name: str
    is_directory: bool


class StoredFile(NamedTuple):
    """One file of a recursive listing."""

    path: str
    """Path relative to the storage."""
    size: int
    """Size in bytes."""
    modified: float | None
    """Time of the last change, in seconds since the epoch; None if the storage does not tell."""
    appeared: float | None = None
    """Time at which the file got its name, or slightly later, in seconds since the epoch."""


class FirstNames(NamedTuple):
    """The first names of a directory."""

    names: list[str]
    """Names, ordered by code points."""
    is_all: bool
    """Whether the directory has no other names."""
    tags: Mapping[str, str] = MappingProxyType({})
    """Tags of the files by name, see `Storage.read_tagged`."""


class ReadableFile(ABC):
    """An open, immutable file. Thread-safe."""

    name: str
    """Path relative to the dataset, for messages."""
    size: int
    """Size in bytes when the file was opened."""
    identity: str
    """Value that differs if the file is replaced by another file."""

    is_remote = False
    """Whether a read is a network round trip, so that many reads should run at once."""
    max_gap: int
    """Largest gap between two ranges that are fetched by one read, in bytes."""
    max_merged_read: int
    """Largest size of a read that covers several ranges, in bytes."""

    def range_reader(self) -> PieceReader | None:
        """Return the reader for kernels that read by themselves; None if the file has none."""
        return None

    @abstractmethod
    def read(self, offset: int, length: int) -> pa.Buffer:
        """Return the bytes `[offset, offset + length)` in memory aligned to 64 bytes.

        Raises:
            CorruptFileError: the range is not inside the file, or the file became shorter.
            StorageError: the storage failed.
        """

    def check_range(self, offset: int, length: int) -> None:
        """Check that a range is inside the file.

        Raises:
            CorruptFileError: it is not.
        """
        if offset < 0 or length < 0 or offset + length > self.size:
            raise CorruptFileError(
                "read outside the file",
                file=self.name,
                expected=f"a range within {self.size} bytes",
                found=f"[{offset}, {offset + length})",
            )

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Return the bytes of each (offset, length), in the order of `ranges`. Errors are those of `read`.

        Ranges close to each other are fetched by one read. Their buffers are slices of one allocation.
        """
        if len(ranges) == 1 and ranges[0][1] > 0:
            with step("read"):
                return [self.read(*ranges[0])]
        buffers = [_EMPTY] * len(ranges)
        reads = coalesce(ranges, max_gap=self.max_gap, max_length=self.max_merged_read)
        with step("read"):
            found = self.read_merged(reads)
        for merged, data in zip(reads, found, strict=True):
            for index in merged.members:
                offset, length = ranges[index]
                buffers[index] = (
                    data if length == merged.length else data.slice(offset - merged.offset, length)
                )
        return buffers

    def read_merged(self, ranges: Sequence[MergedRange]) -> list[pa.Buffer]:
        """Return the bytes of each merged range, for `read_ranges`. Remote storages read at the same time."""
        return [self.read(merged.offset, merged.length) for merged in ranges]

    def read_joined(self, parts: Sequence[ByteRanges]) -> list[pa.Buffer]:
        """Return the bytes of many short ranges. There is one buffer per part, with the bytes of its ranges
        in order.

        Errors are those of `read`.
        """
        ranges = []
        for numbers in parts:
            offsets, lengths = (np.frombuffer(memoryview(part), np.int64).tolist() for part in numbers)
            ranges.append(list(zip(offsets, lengths, strict=True)))
        buffers = iter(self.read_ranges([one for some in ranges for one in some]))
        return [_joined([next(buffers) for _ in some]) for some in ranges]

    @abstractmethod
    def close(self) -> None:
        """Release the file once running reads have ended. Later reads raise `StorageError`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class WritableFile(ABC):
    """A file that is being written. It appears under its name when it is closed, complete, or never.

    The context manager closes the file at the end of the block, or aborts it if the block raises. For one
    thread.
    """

    name: str
    """Path relative to the dataset, for messages."""
    position: int
    """Number of bytes written so far, which is the offset of the next write."""

    @abstractmethod
    def write(self, data: Bytes) -> None:
        """Append `data`. The caller may reuse its memory when this method returns.

        Raises:
            StorageError: the storage failed, or the disk is full. The file is aborted.
        """

    def write_checked(self, data: Bytes, crc: int) -> int:
        """Append `data` like `write`. Return the CRC-32C of `data`, continued from `crc`."""
        crc = kernels.crc32c(data, crc)
        self.write(data)
        return crc

    @abstractmethod
    def close(self) -> None:
        """Complete the file and let it appear under its name. Does nothing if the file is closed.

        Raises:
            AlreadyExistsError: another file has appeared under this name.
            StorageError: the storage failed, or the file was aborted. The file did not appear, except
                possibly
                after a `PutUnknownError`.
        """

    @abstractmethod
    def abort(self) -> None:
        """Discard the file, ignoring errors of the storage. Does nothing to a closed or aborted file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class Storage(ABC):
    """A tree of immutable files below one root. Paths are relative to it, see `paths.contained_path`.

    Directories are made when files need them. Data written with `sync` survives a power failure: the bytes of
    a file when `WritableFile.close` returns, and its name when `sync_directory` returns. See `syncing_later`
    for an exception.
    """

    uri: str
    options: Mapping[str, str] = MappingProxyType({})
    """Options with which the storage was opened."""
    manifest_store: str | None = None
    """Service that decides which writer makes a version of a table, see `table.manifest_store`. None if the
    storage itself decides.
    """
    commit_lock: CommitLock | None = None
    """Lock of the caller that is held while the manifest of a version is put."""
    is_remote: bool = False
    """Whether a read is a network round trip, so that many reads should run at once."""

    deletes_at_once: bool = False
    """Whether `delete_files` removes many files in the time of few."""

    @property
    def needs_exclusive_puts(self) -> bool:
        """Whether the storage itself decides which writer makes a version: no store and no lock does."""
        return self.manifest_store is None and self.commit_lock is None

    @abstractmethod
    def open_file(self, path: str, size: int | None = None) -> ReadableFile:
        """Open a file for reading.

        Args:
            path: path of the file.
            size: size of the file in bytes, if the caller knows it, else None or 0. It saves a request to
                remote
                storages.

        Raises:
            FileMissingError: there is no such file.
            CorruptFileError: the file has another size. Remote storages may find it when they first read.
            StorageError: the storage failed.
        """

    def identify(self, path: str) -> str | None:
        """Return the identity of the file at `path`, if this is much cheaper than opening it, else None.

        Also returns None if there is no file. An open file with this identity is the same file.
        """
        return None

    @abstractmethod
    def list_directory(self, path: str) -> list[Entry]:
        """List a directory in no particular order; "" is the root.

        Raises:
            FileMissingError: there is no such directory.
            StorageError: the storage failed.
        """

    def list_names(self, path: str) -> list[str]:
        """Return only the names of `list_directory`, which is faster in some storages."""
        return [entry.name for entry in self.list_directory(path)]

    def directory_state(self, path: str) -> Hashable | None:
        """Return a value that changes whenever a name in a directory changes; None if there is no cheap one.

        If the value is the same as before a listing, the names of that listing are still current.
        """
        return None

    def first_names(self, path: str) -> FirstNames:
        """Return the first names of a directory, as many as one request brings.

        If the storage lists in another order, or lists all names at once, there are no names, and these are
        not all.
        """
        return FirstNames([], is_all=False)

    @abstractmethod
    def list_files(self, path: str) -> Iterator[StoredFile]:
        """Yield all files below a directory, in no particular order; none if there is no such directory.

        Links are left out. Files that are created or removed during the listing may be missing.
        """

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Return whether there is a file at `path`."""

    @abstractmethod
    def below(self, path: str) -> "Storage":
        """Return the storage of a directory of this storage. Links in it may lead to other files of this
        storage.
        """

    @abstractmethod
    def create_file(self, path: str, *, sync: bool = True, replace: bool = False) -> WritableFile:
        """Start a new file, to be written sequentially.

        With `replace` the file takes the place of a file at `path` when it is closed: readers see the old or
        the new one.

        Raises:
            AlreadyExistsError: there is a file at `path`, without `replace`. If the check would cost a
                request, `close` raises it.
            StorageError: the storage failed.
        """

    @abstractmethod
    def put_if_absent(self, path: str, data: Bytes, *, sync: bool = True) -> str | None:
        """Create a whole file, unless there is one. Of several writers exactly one succeeds.

        `data` must be unique to the writer: if an answer is lost, the bytes of the file tell who created it.
        With `sync`, bytes and name are durable on return.

        Returns:
            The tag of the file, see `read_tagged`; None if the storage did not tell it.

        Raises:
            AlreadyExistsError: there is a file of another writer at `path`.
            PutUnknownError: it is unknown whether the file was created.
            UnsupportedFeatureError: the storage has no exclusive put.
            StorageError: the storage failed and the file was not created.
        """

    def prepare_put(self, path: str, data: Bytes, *, sync: bool = True) -> Callable[[], str | None]:
        """Do what `put_if_absent` can do before a file has its name, and return a function that does the
        rest.

        There is no file unless the function is called. Result and errors of the function are those of
        `put_if_absent`.
        """
        return partial(self.put_if_absent, path, data, sync=sync)

    @abstractmethod
    def put(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        """Write a small file. It replaces an existing file atomically: readers see the old or the new one.

        Not atomic in fsspec file systems: a reader may see a part of the file. With `sync`, bytes and name
        are durable on return.

        Raises:
            StorageError: the storage failed.
        """

    @abstractmethod
    def delete_file(self, path: str) -> None:
        """Remove a file. Does nothing if there is no such file."""

    def delete_files(self, paths: Sequence[str]) -> None:
        """Remove files. If `deletes_at_once` is set, they are removed in any order, otherwise in this one.

        If the storage fails, any of the files may be left.
        """
        for path in paths:
            self.delete_file(path)

    @abstractmethod
    def delete_directory(self, path: str) -> None:
        """Remove a directory with everything below it. Does nothing if there is no such directory."""

    def delete_root(self) -> None:
        """Remove the directory of the storage itself, if the storage has directories and it is empty."""
        return

    @abstractmethod
    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable ("" is the root). Does nothing in storages whose names are
        always durable.
        """

    def syncing_later(self, syncs: list[Callable[[], None]]) -> Self:
        """Return this storage for writes that need not be durable before all calls in `syncs` have run.

        Up to 64 files, and directories, are then synced by these calls, which may run at once: a disk syncs
        several files as fast as one, and meanwhile the writer goes on with the next file. After a power
        failure before that, such a file may be there with other bytes.
        """
        return self

    def putting_later(self, puts: list[Callable[[], None]]) -> Self:
        """Return this storage for new files that need not exist before all calls in `puts` have run.

        Object stores put up to 64 small files by these calls, which may run at once, so that they take one
        round trip. No file is read or listed before. Other storages work as with `syncing_later`.
        """
        return self.syncing_later(puts)

    def locked_by(self, lock: CommitLock | None) -> Self:
        """Return this storage with a lock for commits; with None, this storage as it is."""
        if lock is None or lock is self.commit_lock:
            return self
        locked = self._copy()
        locked.commit_lock = lock
        return locked

    def _copy(self) -> Self:
        copy = object.__new__(type(self))
        copy.__dict__ |= self.__dict__
        return copy

    def __getstate__(self) -> dict[str, object]:
        """Return the state to pickle, without the lock: few locks work in another process."""
        return {name: value for name, value in self.__dict__.items() if name != "commit_lock"}

    def read_file(self, path: str) -> bytes:
        """Return the bytes of a small file. Errors are those of `open_file` and `ReadableFile.read`."""
        with self.open_file(path) as file:
            return bytes(memoryview(file.read(0, file.size)))

    def read_tagged(self, path: str) -> tuple[bytes, str | None]:
        """Return the bytes of a small file, and its tag; errors are those of `read_file`.

        The tag differs if the file is replaced by another file. It is None in storages that do not list the
        tags of files together with their names.
        """
        return self.read_file(path), None

    def read_files(
        self, directory: str, names: Sequence[str], sizes: Sequence[int] | None = None
    ) -> list[bytes | None]:
        """Return the bytes of small files in a directory, None for each that is missing.

        With `sizes` in bytes, a file of another size is not read: None stands for it, too.

        Raises:
            StorageError: the storage failed.
        """
        wanted = [None] * len(names) if sizes is None else sizes
        calls = [
            partial(self.read_if_there, f"{directory}/{name}", size)
            for name, size in zip(names, wanted, strict=True)
        ]
        return run_each(calls, self.is_remote)

    def read_if_there(self, path: str, size: int | None = None) -> bytes | None:
        """Return the bytes of a small file, None if it is missing, or has another size than `size`. Errors
        are those of `read_file`.
        """
        try:
            if size is None:
                return self.read_file(path)
            with self.open_file(path) as file:
                return bytes(memoryview(file.read(0, size))) if size == file.size else None
        except FileMissingError:
            return None

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Return some bytes of a file. Errors are those of `open_file` and `ReadableFile.read`."""
        with self.open_file(path) as file:
            return bytes(memoryview(file.read(offset, length)))


def _joined(buffers: list[pa.Buffer]) -> pa.Buffer:
    return buffers[0] if len(buffers) == 1 else pa.py_buffer(b"".join(map(memoryview, buffers)))


_EMPTY = pa.py_buffer(b"")
