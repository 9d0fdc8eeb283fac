"""The ports for operators beside the Flight port, as far as the settings name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flight_server.monitoring.monitor import Monitor
from flight_server.settings import Settings

if TYPE_CHECKING:
    from flight_server.http.server import HttpServer
    from flight_server.monitoring.health_service import HealthService


PORT_SETTINGS = frozenset(("http_port", "health_port", "http_host"))
"""Settings of these ports, which workers of a server do not get: the supervisor has the ports."""


class Ports:
    """The HTTP port and the port of the gRPC health service. The libraries for a port are imported for it."""

    def __init__(self, settings: Settings, monitor: Callable[[], Monitor]) -> None:
        """Listen on the ports of the settings. `monitor` makes what they show, if there is a port.

        Raises:
            InvalidInputError: an address cannot be used.
        """
        self._http: HttpServer | None = None
        self._health: HealthService | None = None
        if settings.http_port is None and settings.health_port is None:
            return
        shown = monitor()
        if settings.http_port is not None:
            from flight_server.http.application import application
            from flight_server.http.server import HttpServer

            self._http = HttpServer(settings, application(shown))
        if settings.health_port is not None:
            from flight_server.monitoring.health_service import HealthService

            self._health = HealthService(settings.monitoring_host, settings.health_port, shown)

    @property
    def urls(self) -> list[str]:
        """Addresses that stand on stdout after the address of the server."""
        return [] if self._http is None else [self._http.url]

    def facts(self) -> dict[str, object]:
        """Return facts for the log about the ports."""
        return {
            "http": self._http.url if self._http is not None else None,
            "health_port": self._health.port if self._health is not None else None,
        }

    def renew(self) -> None:
        """Use the certificates that the files hold now; see `HttpServer.renew`."""
        if self._http is not None:
            self._http.renew()

    def drain(self) -> None:
        """Tell orchestrators that the server takes no new calls. The ports stay open."""
        if self._health is not None:
            self._health.drain()
