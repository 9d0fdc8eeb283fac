"""What files that are far away have in common: every request costs a round trip, so many run at once."""

from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lance_core.errors import StorageError
from lance_core.kernels import Block
from lance_core.storage.base import ReadableFile
from lance_core.storage.coalesce import MergedRange

MAX_REQUESTS = 64
"""Requests for parts of files that this process has under way. The reference allows so many for a store."""


_KEPT_TAIL = 64 << 10


class RemoteFile(ReadableFile):
    """A file that is read by requests over a network.

    Neighbouring ranges are merged over gaps of 64 KiB only: since requests run at once, fewer of them gain
    little, and bytes between two columns would be paid for (docs/decisions/0005-remote-reads.md).
    """

    max_gap = 64 << 10
    max_merged_read = 8 << 20

    is_closed = False
    _tail: pa.Buffer | None = None
    """The last bytes of the file, once they were read together: the metadata, or all of a small file."""

    @abstractmethod
    def fetch(self, offset: int, length: int) -> pa.Buffer:
        """`read` of one or more bytes inside the file."""

    def read(self, offset: int, length: int) -> pa.Buffer:
        self.check_range(offset, length)
        if self.is_closed:
            raise StorageError("file is closed", file=self.name)
        if length == 0:
            return pa.py_buffer(b"")
        tail = self._tail
        if tail is not None and offset >= self.size - tail.size:
            return aligned(tail.slice(offset - (self.size - tail.size), length))
        data = self.fetch(offset, length)
        if offset + length == self.size and length <= _KEPT_TAIL:
            self._tail = data
        return data

    def close(self) -> None:
        self.is_closed = True
        self._tail = None

    def read_merged(self, ranges: Sequence[MergedRange]) -> list[pa.Buffer]:
        if len(ranges) == 1:
            return super().read_merged(ranges)
        reads = [_pool().submit(self.read, merged.offset, merged.length) for merged in ranges]
        for read in reads:
            read.exception()  # waits, so that no read goes on when this returns
        return [read.result() for read in reads]


def aligned(data: Any) -> pa.Buffer:
    """The same bytes at an address that is a multiple of 64: where they are, or in a copy."""
    buffer = pa.py_buffer(data)
    if buffer.address % 64 == 0:
        return buffer
    copy = pa.py_buffer(Block(buffer.size))
    memoryview(copy)[:] = memoryview(buffer)
    return copy


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_REQUESTS, thread_name_prefix="lance-storage")
