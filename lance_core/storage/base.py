"""The interface to bytes that everything above reads through."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.errors import CorruptFileError
from lance_core.kernels import Block, PieceReader
from lance_core.storage.coalesce import ByteRange, MergedRange, coalesce

Bytes: TypeAlias = bytes | bytearray | memoryview | pa.Buffer
"""Types of data that files accept."""

Pieces: TypeAlias = tuple[Block | memoryview, Block | memoryview]
"""Offsets and lengths (int64) of byte ranges that belong together."""


class Entry(NamedTuple):
    """One name in a directory."""

    name: str
    is_directory: bool


class StoredFile(NamedTuple):
    """One file of a listing."""

    path: str
    """Relative to the storage."""
    size: int
    """Bytes."""
    modified: float | None
    """Seconds since the epoch; None where the storage does not say."""
    appeared: float | None = None
    """Time at which the file got its name, or a little later, like `modified`."""


class ReadableFile(ABC):
    """An open, immutable file. Safe to use from several threads at once."""

    name: str
    """Path relative to the dataset, for messages."""
    size: int
    """Bytes at the time of opening."""
    identity: str
    """Changes whenever the file is replaced by another one."""

    max_gap: int
    """Ranges at most this many bytes apart are fetched by one read."""
    max_merged_read: int
    """Upper limit in bytes of a read that serves several ranges."""

    def piece_reader(self) -> tuple[PieceReader, object] | None:
        """Return the reader for kernels that read by themselves, and the object that keeps it open; None
        without one.
        """
        return None

    @abstractmethod
    def read(self, offset: int, length: int) -> pa.Buffer:
        """Return exactly the bytes [offset, offset + length), 64-byte aligned in memory.

        Raises:
            CorruptFileError: the range is not inside the file, or the file became shorter.
            StorageError: the storage failed.
        """

    def check_range(self, offset: int, length: int) -> None:
        """Refuse with a `CorruptFileError` what is not inside the file."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise CorruptFileError(
                "read outside the file",
                file=self.name,
                expected=f"a range within {self.size} bytes",
                found=f"[{offset}, {offset + length})",
            )

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Return the bytes of each (offset, length), in the order asked for; errors are those of `read`.

        Ranges close to each other are fetched together; their buffers are then slices of one allocation.
        """
        if len(ranges) == 1 and ranges[0][1] > 0:
            return [self.read(*ranges[0])]
        buffers = [_EMPTY] * len(ranges)
        reads = coalesce(ranges, max_gap=self.max_gap, max_length=self.max_merged_read)
        for merged, data in zip(reads, self.read_merged(reads), strict=True):
            for index in merged.members:
                offset, length = ranges[index]
                buffers[index] = (
                    data if length == merged.length else data.slice(offset - merged.offset, length)
                )
        return buffers

    def read_merged(self, ranges: Sequence[MergedRange]) -> list[pa.Buffer]:
        """Read what `read_ranges` has merged; storages that are far away do it at the same time."""
        return [self.read(merged.offset, merged.length) for merged in ranges]

    def read_pieces(self, parts: Sequence[Pieces]) -> list[pa.Buffer]:
        """Return the bytes of many short ranges: for each part those of its ranges, one after the other.

        Errors are those of `read`.
        """
        ranges = []
        for numbers in parts:
            offsets, lengths = (np.frombuffer(memoryview(part), np.int64).tolist() for part in numbers)
            ranges.append(list(zip(offsets, lengths, strict=True)))
        buffers = iter(self.read_ranges([piece for pieces in ranges for piece in pieces]))
        return [_joined([next(buffers) for _ in pieces]) for pieces in ranges]

    @abstractmethod
    def close(self) -> None:
        """Release the file once reads that are under way have ended. Later reads raise `StorageError`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class WritableFile(ABC):
    """A file that is being written. It appears under its name when it is closed, whole, or never.

    As a context manager it is closed at the end of the block and aborted when that raises. For one thread.
    """

    name: str
    """Path relative to the dataset, for messages."""
    position: int
    """Bytes written so far: the offset in the file of what is written next."""

    @abstractmethod
    def write(self, data: Bytes) -> None:
        """Append `data`, which may be reused as soon as this returns.

        Raises:
            StorageError: the storage failed, a full disk included. The file is aborted.
        """

    def write_checked(self, data: Bytes, crc: int) -> int:
        """Append `data` as `write` does; returns its CRC-32C, where `crc` is that of what came before."""
        crc = kernels.crc32c(data, crc)
        self.write(data)
        return crc

    @abstractmethod
    def close(self) -> None:
        """Complete the file and let it appear under its name. Does nothing when that was done.

        Raises:
            AlreadyExistsError: another file has appeared there meanwhile.
            StorageError: the storage failed, or the file was aborted. Unless it is a `PutUnknownError`, the
                file did not appear.
        """

    @abstractmethod
    def abort(self) -> None:
        """Drop what was written, whatever the storage says. Does nothing to a closed or aborted file."""

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

    Directories are made as files need them. What is written with `sync` survives a power failure: the bytes
    of a file when `WritableFile.close` returns, its name when `sync_directory` does.
    """

    uri: str
    options: Mapping[str, str] = MappingProxyType({})
    """Options with which the storage was opened."""
    manifest_store: str | None = None
    """Storage option that names another service that decides which writer makes a version of a table, see
    `table.manifest_store`. None if the storage itself decides.
    """
    is_remote: bool = False
    """Whether a read is a round trip over a network, so that many of them should run at once."""

    @abstractmethod
    def open_file(self, path: str, size: int | None = None) -> ReadableFile:
        """Open a file for reading.

        `size` is what the caller knows of its length in bytes, None or 0 when unknown; it saves a request on
        remote stores. A file of another size is a `CorruptFileError`, a missing one a `FileMissingError`.
        """

    def identify(self, path: str) -> str | None:
        """Return the identity of the file that is at `path` now, where that costs much less than opening
        it.

        None where it does not, or there is no file. A file that is open and has this identity is that file.
        """
        return None

    @abstractmethod
    def list_directory(self, path: str) -> list[Entry]:
        """List a directory in no particular order ("" is the root); a missing one is a `FileMissingError`."""

    def list_names(self, path: str) -> list[str]:
        """Return the names of `list_directory` alone, which some storages give faster."""
        return [entry.name for entry in self.list_directory(path)]

    def directory_state(self, path: str) -> Hashable | None:
        """Return a value that changes whenever a name in a directory changes, if the storage has one that
        is cheap.

        None if it has none. As long as a state that was taken before a listing stays the same, so do the
        names.
        """
        return None

    def first_names(self, path: str) -> list[str]:
        """Return the first names of a directory in the order of their code points: what one request
        brings.

        Empty where the storage lists in another order, or brings all names at once, or there is no directory.
        """
        return []

    @abstractmethod
    def list_files(self, path: str) -> Iterator[StoredFile]:
        """All files below a directory, in no particular order; none when there is no such directory.

        Links are no files. Files that come and go meanwhile may be listed or not.
        """

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Return whether there is a file at `path`."""

    @abstractmethod
    def below(self, path: str) -> "Storage":
        """Return the storage of a directory of this one. What lies in this one may be reached from it by
        links.
        """

    @abstractmethod
    def create_file(self, path: str, *, sync: bool = True) -> WritableFile:
        """Start a new file, to be written in order.

        Raises:
            AlreadyExistsError: there is a file at `path`. Where asking costs a request, closing raises it.
            StorageError: the storage failed.
        """

    @abstractmethod
    def put_if_absent(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        """Create a whole file at once, unless there is one; of several writers exactly one succeeds.

        `data` must be unique to the writer: where an answer was lost, its bytes tell whose file is there.
        With `sync` the bytes and the name are durable on return.

        Raises:
            AlreadyExistsError: there is a file at `path`, of somebody else.
            PutUnknownError: the file may have been created, or may not.
            UnsupportedFeatureError: the storage cannot do this.
            StorageError: the storage failed, and there is no file of ours.
        """

    @abstractmethod
    def put(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        """Write a small file whole, in place of the one that may be there: readers see one or the other.

        Where a file system has no such step (fsspec), a reader may see a part. With `sync` the bytes and the
        name are durable on return; errors are `StorageError`s.
        """

    @abstractmethod
    def delete_file(self, path: str) -> None:
        """Remove a file; one that is not there is no error."""

    @abstractmethod
    def delete_directory(self, path: str) -> None:
        """Remove a directory and all below it; one that is not there is no error."""

    @abstractmethod
    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable ("" is the root); nothing where storing them does that."""

    def read_file(self, path: str) -> bytes:
        """Return a whole (small) file; errors are those of `open_file` and `ReadableFile.read`."""
        with self.open_file(path) as file:
            return bytes(memoryview(file.read(0, file.size)))


def _joined(buffers: list[pa.Buffer]) -> pa.Buffer:
    return buffers[0] if len(buffers) == 1 else pa.py_buffer(b"".join(map(memoryview, buffers)))


_EMPTY = pa.py_buffer(b"")
