"""Limits of glibc's allocator, so that it keeps the memory into which batches are received."""

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
    """Let glibc reuse received memory for the next batch, instead of returning it to the system.

    Otherwise glibc returns the pages of most batches when they are freed, and the system clears them when the
    next batch arrives: up to half of the CPU time of a client. glibc itself sets the same thresholds when a
    process frees its first block of 32 MiB; batches are smaller. Values in environment variables take
    precedence. Other C libraries have no such thresholds.
    """
    if not _is_set("MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_"):
        _set(_M_MMAP_THRESHOLD, _LARGEST_REUSED_BYTES)
        _set(_M_TRIM_THRESHOLD, 2 * _LARGEST_REUSED_BYTES)


@cache
def share_received_memory() -> None:
    """Let all threads of this process allocate from one heap. For a process that reads one stream at a time.

    Each connection of gRPC has its own threads, and glibc gives each thread its own heap. Without this call,
    memory of one stream cannot be reused for the next one. A number of heaps in an environment variable takes
    precedence.
    """
    if not _is_set("MALLOC_ARENA_MAX"):
        _set(_M_ARENA_MAX, 1)


def _is_set(*names: str) -> bool:
    return any(name in os.environ for name in ("GLIBC_TUNABLES", *names))


def _set(parameter: int, value: int) -> None:
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(parameter, value)
