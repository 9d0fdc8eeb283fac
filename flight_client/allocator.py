"""Limits for the C library's allocator, which keeps memory into which batches are received."""

import ctypes
import os
from contextlib import suppress
from functools import cache

_M_TRIM_THRESHOLD = -1  # of malloc.h
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_LARGEST_REUSED_BYTES = 32 << 20


@cache
def keep_received_memory() -> None:
    """Let glibc give received memory to the next batch instead of to the system.

    Otherwise the pages of most batches are given back when they are freed, and cleared by the system when the
    next one arrives: up to half of the CPU time of a client. The thresholds are those that glibc would come
    to by itself with the first block of 32 MiB that a process frees; batches are smaller. What an environment
    variable says is left alone. Other C libraries know no such thresholds.
    """
    if not _is_set("MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_"):
        _set(_M_MMAP_THRESHOLD, _LARGEST_REUSED_BYTES)
        _set(_M_TRIM_THRESHOLD, 2 * _LARGEST_REUSED_BYTES)


@cache
def share_received_memory() -> None:
    """Let all threads of this process allocate from one heap, for a process that reads one stream at a time.

    Each connection of gRPC has threads of its own, to which glibc gives heaps of their own: what one stream
    received into is not at hand for the next one. An environment variable that says how many is left alone.
    """
    if not _is_set("MALLOC_ARENA_MAX"):
        _set(_M_ARENA_MAX, 1)


def _is_set(*names: str) -> bool:
    return any(name in os.environ for name in ("GLIBC_TUNABLES", *names))


def _set(parameter: int, value: int) -> None:
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(parameter, value)
