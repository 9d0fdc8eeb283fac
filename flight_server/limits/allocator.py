"""Limits for the memory that the C library's allocator keeps after uploads.

gRPC receives in many threads. glibc gives each thread its own arena, up to eight per core, and returns freed
memory of an arena to the system only from its end. Without limits, the arenas kept up to twice the bytes that
clients had sent. Other C libraries have no arenas; for them, nothing is set.
"""

import ctypes
import os
import threading
from contextlib import suppress
from pathlib import Path

_M_ARENA_MAX = -8  # of malloc.h
_ARENAS = 2
_GROWTH_BYTES = 128 << 20
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_STATM = Path("/proc/self/statm")


class Allocator:
    """The allocator of this process."""

    def __init__(self) -> None:
        """Limit the number of arenas of this process from now on."""
        self._library = ctypes.CDLL(None)
        with suppress(AttributeError):
            self._library.mallopt(_M_ARENA_MAX, _ARENAS)
        self._kept = _resident_bytes()
        self._lock = threading.Lock()

    def return_freed(self) -> None:
        """Return freed memory to the system if the process has grown by 128 MiB since the last return."""
        if not self._lock.acquire(blocking=False):
            return  # another thread is at it
        try:
            self._kept = min(self._kept, resident := _resident_bytes())
            if resident - self._kept >= _GROWTH_BYTES:
                with suppress(AttributeError):
                    self._library.malloc_trim(0)
                self._kept = _resident_bytes()
        finally:
            self._lock.release()


def _resident_bytes() -> int:
    """Return the memory of this process in bytes, without the pages of mapped files."""
    _, resident, shared, *_ = _STATM.read_text().split()
    return (int(resident) - int(shared)) * _PAGE_BYTES
