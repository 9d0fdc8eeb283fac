"""Telling that a local directory holds the names it held when it was listed, without listing it again.

Adding, removing and renaming files changes the times of a directory, one of them even where somebody sets
the other back. The clock of these times ticks every few milliseconds, so two changes may leave the same one:
it is worth something once it lies back, when every later change gets another. File systems over a network
answer from caches, and those that show an object store as directories make times up; neither is relied on.
"""

import os
import time
from functools import lru_cache

State = tuple[int, int, int, int]
"""Device and inode of a directory, and when its names and it itself were changed, in nanoseconds."""

_RELIABLE = frozenset({"ext2", "ext3", "ext4", "xfs", "f2fs", "zfs", "tmpfs"})
_SETTLED_NS = 2_000_000_000
"""Ticks of old kernels and the times of file systems are finer than this by far."""


def directory_state(path: str) -> State | None:
    """Return a value that changes whenever a name in the directory changes, or None if there is no
    reliable one.

    As long as a state that was taken before a listing stays the same, so do the names. Raises OSError.
    """
    status = os.stat(path)
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    if not _is_reliable(status.st_dev) or not changed < time.time_ns() - _SETTLED_NS:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


@lru_cache(maxsize=64)
def _is_reliable(device: int) -> bool:
    """Return whether the file system of a device keeps the times of its directories itself."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            mount, _, source = line.partition(" - ")
            if mount.split()[2] == wanted:
                return source.split()[0] in _RELIABLE
    return False
