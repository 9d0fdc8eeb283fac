"""What the C library's allocator keeps of the memory that batches are received into."""

import ctypes
import os
from contextlib import suppress
from functools import cache

_M_TRIM_THRESHOLD = -1  # of malloc.h
_M_MMAP_THRESHOLD = -3
_LARGEST_REUSED_BYTES = 32 << 20
_SET_BY_THE_USER = ("GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_")


@cache
def keep_received_memory() -> None:
    """Let glibc give received memory to the next batch instead of to the system.

    Otherwise the pages of most batches are given back when they are freed, and cleared by the system when the
    next one arrives: up to half of the CPU time of a client. The thresholds are those that glibc would come
    to by itself with the first block of 32 MiB that a process frees; batches are smaller. What an environment
    variable says is left alone. Other C libraries know no such thresholds.
    """
    if any(name in os.environ for name in _SET_BY_THE_USER):
        return
    with suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_REUSED_BYTES)
        mallopt(_M_TRIM_THRESHOLD, 2 * _LARGEST_REUSED_BYTES)
