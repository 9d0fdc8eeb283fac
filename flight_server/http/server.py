"""The HTTP server: a thread with an event loop, and bounds on what one client can take.

uvicorn parses strictly and runs any ASGI application. What it has no bound for is bounded here: the number of
connections, and the time that a client may take to send the head of a request.
"""

import asyncio
import logging
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from flight_server.security.transport import Certificates, identity_of
from flight_server.settings import Settings
from lance_core.errors import InvalidInputError

MOST_CONNECTIONS = 128
"""Connections at a time; further ones are closed at once."""
MOST_HEAD_BYTES = 16 << 10
"""Bytes of the head of a request, that is, its first line and its headers, before more of it is read."""
HEAD_SECONDS = 10.0
"""Seconds from the connection, or from the first byte of a further request, to the end of its head.

With TLS, the handshake has as many seconds before.
"""
KEEP_ALIVE_SECONDS = 10
"""Seconds that a connection may be idle between requests."""
_BACKLOG = 128
_SECONDS_BETWEEN_LOOKS = 10.0
"""Time between two looks at the files of the certificate."""


class _BoundedProtocol(H11Protocol):
    """Protocol of one connection."""

    _late: asyncio.TimerHandle | None = None
    """Closes the connection if no complete head of a request comes in time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class _BoundedListener(socket.socket):
    """Listening socket. It counts connections from the start, since a handshake of TLS may never end."""

    def __init__(self, listener: socket.socket) -> None:
        super().__init__(fileno=listener.detach())
        self._accepted = WeakSet[socket.socket]()

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        if sum(each.fileno() >= 0 for each in self._accepted) >= MOST_CONNECTIONS:
            connection.close()
            raise ConnectionAbortedError  # the event loop goes on
        self._accepted.add(connection)
        return connection, address


class _BoundedLoop(asyncio.SelectorEventLoop):
    """Event loop that bounds the time of a handshake of TLS."""

    async def create_server(self, *arguments: Any, **named: Any) -> asyncio.Server:
        if named.get("ssl") is not None:
            named["ssl_handshake_timeout"] = HEAD_SECONDS
        return await super().create_server(*arguments, **named)


class HttpServer:
    """HTTP server of one process; with TLS if the settings have a certificate."""

    def __init__(self, settings: Settings, app: ASGIApp) -> None:
        """Listen on the address of the settings, which have a port.

        Raises:
            InvalidInputError: the address or the certificate cannot be used.
        """
        assert settings.http_port is not None
        host = settings.monitoring_host
        listener = _listen(host, settings.http_port)
        self._settings = settings
        self._tls: ssl.SSLContext | None = None
        options: dict[str, Any] = {}
        if settings.tls_cert is not None:
            options = {
                "ssl_certfile": settings.tls_cert,
                "ssl_keyfile": settings.tls_key,
                "ssl_context_factory": lambda config, default: self._tls,
            }
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
            Certificates.load(settings)
            self.renew()
        shown = f"[{host}]" if ":" in host else host
        scheme = "http" if self._tls is None else "https"
        self.url = f"{scheme}://{shown}:{listener.getsockname()[1]}"
        """Address of the server for clients that can reach the host."""
        # A request that is refused for its form has no line: anybody could fill the log.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=_BoundedProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                h11_max_incomplete_event_size=MOST_HEAD_BYTES,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                **options,
            )
        )
        threading.Thread(target=self._run, args=(listener,), name="http", daemon=True).start()
        if self._tls is not None:
            threading.Thread(target=self._watch, name="http certificates", daemon=True).start()

    def renew(self) -> None:
        """Use the certificate that the files hold now, for new connections.

        Files that cannot be used change nothing. The log has a line about them from the Flight port.
        """
        tls, settings = self._tls, self._settings
        if tls is None or settings.tls_cert is None:
            return
        with suppress(InvalidInputError, OSError):
            Certificates.load(settings)  # `tls` could not go back to the certificate that it has
            tls.load_cert_chain(settings.tls_cert, settings.tls_key, password="")

    def _run(self, listener: socket.socket) -> None:
        with asyncio.Runner(loop_factory=_BoundedLoop) as runner:
            runner.run(self._server.serve([listener]))

    def _watch(self) -> None:
        """Look at the files of the certificate for as long as the process runs, and use new ones."""
        files = [path for path in (self._settings.tls_cert, self._settings.tls_key) if path is not None]
        seen = identity_of(files)
        while True:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            if (found := identity_of(files)) != seen:
                seen = found
                self.renew()


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; connections wait in it until the event loop runs."""
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return _BoundedListener(socket.create_server(address[:2], family=family, backlog=_BACKLOG))
    except OSError as error:
        raise InvalidInputError(
            f"the HTTP port cannot listen on {host}:{port}: {error.strerror}; give another one with "
            "--http-port"
        ) from None
