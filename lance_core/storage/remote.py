"""Base of remote files. A request is a network round trip, so many requests run at once."""

import os
from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from lance_core.errors import StorageError
from lance_core.kernels import Block, count_read
from lance_core.process.counters import tallied
from lance_core.storage.base import ReadableFile
from lance_core.storage.coalesce import MergedRange

MAX_REQUESTS = 64
"""Largest number of concurrent reads of this process. The reference allows this many per store."""


_KEPT_TAIL = 64 << 10
_MOST_PER_REQUEST = 8 << 20
"""Largest size of a request in bytes. A connection transfers some 50 MB/s, and requests have a time limit."""


class RemoteFile(ReadableFile):
    """A file that is read by requests over a network.

    Ranges are merged only over gaps of up to 64 KiB. Requests run at once, so fewer requests gain little, but
    bytes in gaps cost time and money (docs/decisions/0005-remote-reads.md).
    """

    is_remote = True
    max_gap = 64 << 10
    max_merged_read = _MOST_PER_REQUEST

    is_closed = False
    _tail: pa.Buffer | None = None
    """Last bytes of the file, once they were read together: the metadata, or all of a small file."""

    def __init__(self) -> None:
        self._asked: dict[tuple[int, int, int], Future[pa.Buffer]] = {}
        """Requests that are under way: process, offset and length."""

    @abstractmethod
    def fetch(self, offset: int, length: int) -> pa.Buffer:
        """Read one or more bytes inside the file."""

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
        if offset + length == self.size and length <= _KEPT_TAIL:  # whoever reads the end reads on before it
            start = max(0, self.size - _KEPT_TAIL)
            self._tail = self._fetch_once(start, self.size - start)
            return self.read(offset, length)
        return self._fetch_once(offset, length)

    def _fetch_once(self, offset: int, length: int) -> pa.Buffer:
        """Fetch bytes. Threads that want the same bytes at once, such as the index of a page, share a
        request.

        If it fails, each of them sends its own, so that each gets its own error.
        """
        asking: Future[pa.Buffer] = Future()
        request = os.getpid(), offset, length
        asked = self._asked.setdefault(request, asking)
        if asked is not asking:
            with suppress(Exception):
                return asked.result()
            return self._fetch(offset, length)
        try:
            data = self._fetch(offset, length)
            asking.set_result(data)
        except BaseException as error:
            asking.set_exception(error)
            raise
        finally:
            del self._asked[request]
        return data

    def _fetch(self, offset: int, length: int) -> pa.Buffer:
        data = self.fetch(offset, length)
        count_read(length)
        return data

    def read_merged(self, ranges: Sequence[MergedRange]) -> list[pa.Buffer]:
        if len(ranges) == 1:
            return super().read_merged(ranges)
        # A large range makes several requests on the pool. It is read by this thread, because a thread of the
        # pool must not wait for other threads of the pool.
        small = [r for r in ranges if r.length <= _MOST_PER_REQUEST]
        reads = {r: _pool().submit(tallied(self.read), r.offset, r.length) for r in small}
        try:
            large = {r: self.read(r.offset, r.length) for r in ranges if r not in reads}
        finally:
            wait(reads.values())  # no read continues after this method returns
        return [reads[r].result() if r in reads else large[r] for r in ranges]

    def close(self) -> None:
        self.is_closed = True
        self._tail = None

    def _read_parts(self, offset: int, length: int) -> pa.Buffer:
        """Return a large range, read by several concurrent requests that each stay within the time limit."""
        whole = pa.py_buffer(Block(length))
        target = np.frombuffer(whole, np.uint8)
        starts = range(0, length, _MOST_PER_REQUEST)

        def read(start: int) -> None:
            size = min(_MOST_PER_REQUEST, length - start)
            target[start : start + size] = np.frombuffer(self.fetch(offset + start, size), np.uint8)
            count_read(size)

        parts = [_pool().submit(tallied(read), start) for start in starts]
        wait(parts)
        for part in parts:
            part.result()
        return whole


def aligned(data: Any) -> pa.Buffer:
    """Return the bytes at an address that is a multiple of 64. They are copied if necessary."""
    buffer = pa.py_buffer(data)
    if buffer.address % 64 == 0:
        return buffer
    copy = pa.py_buffer(Block(buffer.size))
    np.frombuffer(copy, np.uint8)[:] = np.frombuffer(
        buffer, np.uint8
    )  # NumPy releases the GIL while it copies
    return copy


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_REQUESTS, thread_name_prefix="lance-storage")


os.register_at_fork(after_in_child=_pool.cache_clear)  # the threads of the pool do not survive a fork
