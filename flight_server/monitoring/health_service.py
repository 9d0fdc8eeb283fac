"""The standard gRPC health service, on a port of its own: Arrow's server takes no other services.

The port speaks plain text, because the probes of Kubernetes speak nothing else. Its answers are SERVING and
NOT_SERVING only.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from flight_server.monitoring.monitor import Monitor
from lance_core.errors import InvalidInputError

SERVICES = ("", "arrow.flight.protocol.FlightService")
"""Names that have a status. The empty name stands for the whole server."""

_MOST_CALLS = 64
_MOST_REQUEST_BYTES = 4096
_SECONDS_BETWEEN_LOOKS = 1.0


class HealthService:
    """Health service of one server. Its status follows the readiness within a second."""

    def __init__(self, host: str, port: int, monitor: Monitor) -> None:
        """Listen on the address; port 0 takes any free one.

        Raises:
            InvalidInputError: the address cannot be used.
        """
        self._monitor = monitor
        self._drained = threading.Event()
        self._lock = threading.Lock()
        # Watches wait without a thread of their own.
        self._servicer = health.HealthServicer(
            experimental_non_blocking=True, experimental_thread_pool=ThreadPoolExecutor(1)
        )
        self._server = grpc.server(
            ThreadPoolExecutor(2, thread_name_prefix="health"),
            maximum_concurrent_rpcs=_MOST_CALLS,
            options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", _MOST_REQUEST_BYTES)],
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, self._server)
        try:
            self.port = self._server.add_insecure_port(f"{host}:{port}")
        except RuntimeError:
            raise InvalidInputError(
                f"the health service cannot listen on {host}:{port}; give another port with --health-port"
            ) from None
        self._tell(is_ready=False)
        self._server.start()
        threading.Thread(target=self._follow, name="health", daemon=True).start()

    def drain(self) -> None:
        """Tell that the server takes no new calls; all answers after the return of this say so."""
        self._drained.set()
        self._tell(is_ready=False)

    def _follow(self) -> None:
        while not self._drained.is_set():
            with suppress(Exception):  # the next look may succeed
                self._tell(is_ready=all(check.is_ok for check in self._monitor.checks().values()))
            self._drained.wait(_SECONDS_BETWEEN_LOOKS)

    def _tell(self, *, is_ready: bool) -> None:
        statuses = health_pb2.HealthCheckResponse
        with self._lock:
            is_serving = is_ready and not self._drained.is_set()
            for name in SERVICES:
                self._servicer.set(name, statuses.SERVING if is_serving else statuses.NOT_SERVING)
