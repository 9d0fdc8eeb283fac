"""Readiness: whether a process should get new calls, and why not."""

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError

from flight_server.monitoring.monitor import Check
from flight_server.service import Service
from lance_core.errors import LanceError

_STORAGE_SECONDS = 3.0
"""Longest time that a check waits for the storage."""

_KEPT_SECONDS = 1.0
"""Time for which an answer of the storage is repeated, so that probes do not load it."""


class Readiness:
    """Checks of one process. Thread-safe."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._storage_thread = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._asked: Future[None] | None = None
        self._storage: tuple[float, Check] = (0.0, Check(False))

    def checks(self) -> Mapping[str, Check]:
        """Return the result of each check by its name. Waits for the storage at most three seconds."""
        return {"draining": self._draining(), "memory": self._memory(), "storage": self._reachable()}

    def _draining(self) -> Check:
        is_draining = self._service.admission.is_closed
        return Check(False, "the server is stopping") if is_draining else Check(True)

    def _memory(self) -> Check:
        if self._service.memory().is_exhausted:
            return Check(False, "the memory for rows that are decoded ahead is used up")
        return Check(True)

    def _reachable(self) -> Check:
        with self._lock:
            asked_at, check = self._storage
            if time.monotonic() - asked_at > _KEPT_SECONDS:
                check = self._ask()
                self._storage = time.monotonic(), check
            return check

    def _ask(self) -> Check:
        """Ask the storage on a thread of its own: a network share that hangs must not block the probe."""
        if self._asked is None or self._asked.done():
            self._asked = self._storage_thread.submit(self._service.probe_storage)
        try:
            self._asked.result(_STORAGE_SECONDS)
        except LateError:
            return Check(False, f"the storage does not answer within {_STORAGE_SECONDS:g} seconds")
        except LanceError as error:
            return Check(False, f"the root cannot be listed: {type(error).__name__}")
        return Check(True)
