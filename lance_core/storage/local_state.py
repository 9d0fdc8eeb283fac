"""Check whether a local directory still has the same names as when it was listed, without another listing.

Adding, removing and renaming files changes the modification and change times of a directory; the change time
cannot be set back. The clock of these times ticks every few milliseconds, so two changes may get the same
time. A time is used only once it is old enough that any later change gets another one. Network file systems
answer from caches, and file systems over object stores invent times, so neither is trusted.
"""

import os
import time
from functools import lru_cache

State = tuple[int, int, int, int]
"""Device, inode, modification time and change time of a directory. Times are in nanoseconds."""

_RELIABLE = frozenset({"ext2", "ext3", "ext4", "xfs", "f2fs", "zfs", "tmpfs"})
_SETTLED_NS = 2_000_000_000
"""Age from which a time is used, in nanoseconds: far above the clock ticks of old kernels and file
systems.
"""


def directory_state(path: str) -> State | None:
    """Return a value that changes whenever a name in the directory changes; None if there is no reliable one.

    If the value is the same as before a listing, the names of that listing are still current.

    Raises:
        OSError: the directory cannot be read.
    """
    status = os.stat(path)
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    if not _is_reliable(status.st_dev) or not changed < time.time_ns() - _SETTLED_NS:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


@lru_cache(maxsize=64)
def _is_reliable(device: int) -> bool:
    """Return whether the file system of a device maintains reliable times of directories."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            mount, _, source = line.partition(" - ")
            if mount.split()[2] == wanted:
                return source.split()[0] in _RELIABLE
    return False
