"""Files that are read again when they change."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from flight_server.logs import log_event
from flight_server.security.transport import identity_of
from lance_core.errors import InvalidInputError

_SECONDS_BETWEEN_LOOKS = 1.0


class WatchedFiles:
    """Files that are looked at when they are used, at most once a second. Thread-safe.

    Files that cannot be used change nothing.
    """

    def __init__(self, paths: Sequence[str], load: Callable[[], None]) -> None:
        """Watch `paths`. `load` reads them again, and raises InvalidInputError if they cannot be used."""
        self._paths = list(paths)
        self._load = load
        self._lock = threading.Lock()
        self._looked_at = time.monotonic()
        self._seen = identity_of(self._paths)

    def look(self) -> None:
        """Read the files again if they have changed."""
        now = time.monotonic()
        if now - self._looked_at < _SECONDS_BETWEEN_LOOKS or not self._lock.acquire(blocking=False):
            return
        try:
            self._looked_at = now
            seen = identity_of(self._paths)
            if seen != self._seen:
                self._seen = seen
                self._read()
        finally:
            self._lock.release()

    def reload(self) -> None:
        """Read the files again, whether they have changed or not."""
        if not self._paths:
            return
        with self._lock:
            self._seen = identity_of(self._paths)
            self._read()

    def _read(self) -> None:
        try:
            self._load()
        except InvalidInputError as error:
            log_event(logging.ERROR, "reload_failed", {"message": str(error)})
        else:
            log_event(logging.INFO, "reloaded", {"files": ",".join(self._paths)})
