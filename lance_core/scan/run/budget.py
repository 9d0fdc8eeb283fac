"""Memory budget: the bytes of decoded rows that the streams of a process may hold ahead of their readers."""

from __future__ import annotations

import threading

from lance_core.forks import begin_anew_after_fork


class MemoryBudget:
    """Bytes shared by all streams of a process or server; thread-safe.

    Nothing ever waits for a budget, so nothing can deadlock on it: a stream that holds nothing takes what it
    needs for one window even beyond the limit, and reads ahead only while there is room. So streams hold at
    most `limit_bytes` plus one window each.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.begin()
        begin_anew_after_fork(self)

    def begin(self) -> None:
        """Begin with nothing taken, in this process or in one that was forked."""
        self._lock = threading.Lock()
        self._used = 0
        self._peak = 0

    @property
    def used_bytes(self) -> int:
        return self._used

    @property
    def share_bytes(self) -> int:
        """Return the bytes that a stream should request at once: an eighth of the room, so that some is
        left for others.
        """
        return max(0, self.limit_bytes - self._used) // 8

    @property
    def peak_bytes(self) -> int:
        """The most bytes that were held at one time."""
        return self._peak

    def take(self, num_bytes: int, *, required: bool) -> bool:
        """Take `num_bytes` if they fit or are `required`; tells whether they were taken."""
        with self._lock:
            if not required and self._used + num_bytes > self.limit_bytes:
                return False
            self._used += num_bytes
            self._peak = max(self._peak, self._used)
            return True

    def give_back(self, num_bytes: int) -> None:
        with self._lock:
            self._used -= num_bytes
