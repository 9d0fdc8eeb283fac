"""Listener: the server that has the port, and the change to another one when certificates are replaced.

gRPC in Arrow takes its certificates once, at the start, and does not share its port. So the old server stops
listening, and a new one takes the port a few milliseconds later. Both have the same service: caches, limits
and running streams stay. The old server ends when its last stream has ended.
"""

import logging
import threading
import time

from flight_server.logs import log_event
from flight_server.security.transport import Certificates, identity_of
from flight_server.server import FlightServer
from flight_server.service import Service
from lance_core.errors import InvalidInputError

_SECONDS_BETWEEN_LOOKS = 10.0
_LONGEST_CHANGE_SECONDS = 10.0
"""Seconds for which the port of the old server is waited for."""


class Listener:
    """The listening server of a process, and the files of its certificates."""

    def __init__(self, service: Service) -> None:
        """Listen; errors are those of `FlightServer`."""
        settings = service.settings
        self._service = service
        self._files = [
            path for path in (settings.tls_cert, settings.tls_key, settings.tls_client_ca) if path is not None
        ]
        self._seen = identity_of(self._files)
        self._lock = threading.Lock()
        self._ended = False
        self.server = FlightServer(service)

    def watch(self) -> None:
        """Look at the files of the certificates until the server ends, and use new ones."""
        while self._files and not self._ended:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            if identity_of(self._files) != self._seen:
                self.renew()

    def renew(self) -> None:
        """Listen with the certificates that the files hold now. Files that cannot be used change nothing."""
        with self._lock:
            if not self._files or self._ended:
                return
            self._seen = identity_of(self._files)
            try:
                Certificates.load(self._service.settings)
            except InvalidInputError as error:
                log_event(logging.ERROR, "reload_failed", {"message": str(error)})
                return
            began = time.perf_counter()
            old = self.server
            # Returns when the last stream has ended. The port is free at once.
            threading.Thread(target=old.shutdown, daemon=True).start()
            self.server = self._take_over(old.port)
            ms = round(1000 * (time.perf_counter() - began), 1)
            log_event(logging.INFO, "reloaded", {"files": ",".join(self._files), "ms": ms})

    def shutdown(self) -> None:
        """End the listening server; see `FlightServerBase.shutdown`."""
        with self._lock:
            self._ended = True
        self.server.shutdown()

    def _take_over(self, port: int) -> FlightServer:
        until = time.monotonic() + _LONGEST_CHANGE_SECONDS
        while True:
            try:
                return FlightServer(self._service, port)
            except InvalidInputError:
                if time.monotonic() > until:
                    raise
            time.sleep(0.001)
