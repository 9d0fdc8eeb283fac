"""Common parts of remote files: every request costs a round trip, so many requests run at once."""

import os
from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from lance_core.errors import StorageError
from lance_core.kernels import Block
from lance_core.storage.base import ReadableFile
from lance_core.storage.coalesce import MergedRange

MAX_REQUESTS = 64
"""Requests for parts of files that this process has under way. The reference allows so many for a store."""


_KEPT_TAIL = 64 << 10
_MOST_PER_REQUEST = 8 << 20
"""Bytes. A connection brings some 50 MB in a second, and requests have a time limit."""


class RemoteFile(ReadableFile):
    """A file that is read by requests over a network.

    Neighbouring ranges are merged over gaps of 64 KiB only: since requests run at once, fewer of them gain
    little, and bytes between two columns would be paid for (docs/decisions/0005-remote-reads.md).
    """

    max_gap = 64 << 10
    max_merged_read = _MOST_PER_REQUEST

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
        if length > _MOST_PER_REQUEST:
            return self._read_parts(offset, length)
        data = self.fetch(offset, length)
        if offset + length == self.size and length <= _KEPT_TAIL:
            self._tail = data
        return data

    def read_merged(self, ranges: Sequence[MergedRange]) -> list[pa.Buffer]:
        if len(ranges) == 1:
            return super().read_merged(ranges)
        # What is large makes several requests; it is begun here, since a thread of the pool must not wait for
        # others of the pool.
        small = [r for r in ranges if r.length <= _MOST_PER_REQUEST]
        reads = {r: _pool().submit(self.read, r.offset, r.length) for r in small}
        try:
            large = {r: self.read(r.offset, r.length) for r in ranges if r not in reads}
        finally:
            wait(reads.values())  # so that no read goes on when this returns
        return [reads[r].result() if r in reads else large[r] for r in ranges]

    def close(self) -> None:
        self.is_closed = True
        self._tail = None

    def _read_parts(self, offset: int, length: int) -> pa.Buffer:
        """Return a large range by several requests at once, each of which ends in good time."""
        whole = pa.py_buffer(Block(length))
        target = np.frombuffer(whole, np.uint8)
        starts = range(0, length, _MOST_PER_REQUEST)

        def read(start: int) -> None:
            size = min(_MOST_PER_REQUEST, length - start)
            target[start : start + size] = np.frombuffer(self.fetch(offset + start, size), np.uint8)

        parts = [_pool().submit(read, start) for start in starts]
        wait(parts)
        for part in parts:
            part.result()
        return whole


def aligned(data: Any) -> pa.Buffer:
    """Return the bytes at an address that is a multiple of 64, without a copy if they are there already."""
    buffer = pa.py_buffer(data)
    if buffer.address % 64 == 0:
        return buffer
    copy = pa.py_buffer(Block(buffer.size))
    np.frombuffer(copy, np.uint8)[:] = np.frombuffer(buffer, np.uint8)  # without the lock of the interpreter
    return copy


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_REQUESTS, thread_name_prefix="lance-storage")


os.register_at_fork(after_in_child=_pool.cache_clear)  # its threads do not survive a fork
