"""Bytes per second that the server sends to each caller."""

import threading
import time

from flight_server.limits.admission import Admission

_BURST_SECONDS = 1.0
"""Time whose bytes a caller that received nothing for a while gets at once."""
_MOST_CALLERS = 4096
"""Callers that are remembered. Those that have paid for what they got are forgotten first."""


class SendRate:
    """Limit of the bytes per second of each caller, over all its streams. Thread-safe.

    A stream waits before it asks for its next rows, in the thread of its call. It then holds no worker
    thread, and other streams may use the memory of what was decoded ahead for it.
    """

    def __init__(self, bytes_per_second: int | None, admission: Admission) -> None:
        """Set the limit, None for no limit. `admission` ends the waits when the server stops."""
        self._bytes_per_second = bytes_per_second
        self._admission = admission
        self._lock = threading.Lock()
        self._paid: dict[str, float] = {}
        """Time at which each caller will have paid for all that was sent to it."""

    def wait(self, caller: str) -> None:
        """Wait until the caller may get more. Raises DrainingError if the server stops meanwhile."""
        if self._bytes_per_second is None:
            return
        while (seconds := self._paid.get(caller, 0.0) - time.monotonic()) > 0:
            self._admission.wait_for_end(seconds)
            self._admission.check_stream()

    def spend(self, caller: str, num_bytes: int) -> None:
        """Count bytes that a caller gets now."""
        if self._bytes_per_second is None:
            return
        now = time.monotonic()
        with self._lock:
            if len(self._paid) >= _MOST_CALLERS and caller not in self._paid:
                self._paid = {name: end for name, end in self._paid.items() if end > now}
            begin = max(self._paid.get(caller, 0.0), now - _BURST_SECONDS)
            self._paid[caller] = begin + num_bytes / self._bytes_per_second
