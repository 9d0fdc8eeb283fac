"""The interface to bytes that everything above reads through."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

import pyarrow as pa

from lance_core.storage.coalesce import ByteRange, coalesce


class Entry(NamedTuple):
    """One name in a directory."""

    name: str
    is_directory: bool


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

    @abstractmethod
    def read(self, offset: int, length: int) -> pa.Buffer:
        """Return exactly the bytes [offset, offset + length), 64-byte aligned in memory.

        Raises:
            CorruptFileError: the range is not inside the file, or the file became shorter.
            StorageError: the storage failed.
        """

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Return the bytes of each (offset, length), in the order asked for; errors are those of `read`.

        Ranges close to each other are fetched together; their buffers are then slices of one allocation.
        """
        buffers = [_EMPTY] * len(ranges)
        for merged in coalesce(ranges, max_gap=self.max_gap, max_length=self.max_merged_read):
            data = self.read(merged.offset, merged.length)
            for index in merged.members:
                offset, length = ranges[index]
                buffers[index] = (
                    data if length == merged.length else data.slice(offset - merged.offset, length)
                )
        return buffers

    @abstractmethod
    def close(self) -> None:
        """Release the file once reads that are under way have ended. Later reads raise `StorageError`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Storage(ABC):
    """A tree of immutable files below one root. Paths are relative to it, see `paths.contained_path`."""

    uri: str

    @abstractmethod
    def open_file(self, path: str, size: int | None = None) -> ReadableFile:
        """Open a file for reading.

        `size` is what the caller knows of its length in bytes, None or 0 when unknown; it saves a request on
        remote stores. A file of another size is a `CorruptFileError`, a missing one a `FileMissingError`.
        """

    @abstractmethod
    def list_directory(self, path: str) -> list[Entry]:
        """List a directory in no particular order ("" is the root); a missing one is a `FileMissingError`."""

    def list_names(self, path: str) -> list[str]:
        """The names of `list_directory` alone, which some storages give faster."""
        return [entry.name for entry in self.list_directory(path)]

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether there is a file at `path`."""

    @abstractmethod
    def below(self, path: str) -> "Storage":
        """The storage of a directory of this one. What lies in this one may be reached from it by links."""

    def read_file(self, path: str) -> bytes:
        """Return a whole (small) file; errors are those of `open_file` and `ReadableFile.read`."""
        with self.open_file(path) as file:
            return bytes(memoryview(file.read(0, file.size)))


_EMPTY = pa.py_buffer(b"")
