"""Connection to one server: its calls with their headers and errors, and its streams."""

import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import date
from operator import index
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyarrow import flight

from flight_client.errors import (
    InvalidInputError,
    LanceError,
    NotAuthenticatedError,
    UnavailableError,
    UnsupportedFeatureError,
    from_flight,
)
from flight_client.network.credentials import HEADER, Credentials, Proof
from flight_client.network.retries import Retries
from flight_client.network.trace_context import trace_headers

_connected: int | None = None
"""Process that connected to a server. This process may be a fork of it."""

TRAILER = "x-lance-error"
REQUEST_ID = "x-request-id"
"""Header of an answer with the id of the call. A caller may choose it with `headers` of the connection."""

_AVOIDED_SECONDS = 10.0
"""Seconds for which a server that did not answer is tried last. (Servers that stop say how long.)"""


def _in_json(value: Any) -> Any:
    """Return integers of other libraries and times in a form that JSON has."""
    if hasattr(value, "__index__"):
        return index(value)
    if isinstance(value, date):
        return value.isoformat()
    raise InvalidInputError(
        f"{value!r:.100}: expected a value that JSON can hold, found {type(value).__name__}"
    )


to_json = json.JSONEncoder(default=_in_json).encode
"""Return a command or the body of an action as text. Raises InvalidInputError for values that JSON cannot
hold.
"""


@dataclass(frozen=True)
class Access:
    """Settings of connections, except the addresses of the servers. Can be pickled."""

    proof: Proof = field(default_factory=Proof)
    """Proof of who calls."""
    tls_root_certs: bytes | None = field(default=None, repr=False)
    """PEM; None for the certificates of the system."""
    cert_chain: bytes | None = field(default=None, repr=False)
    private_key: bytes | None = field(default=None, repr=False)
    """PEM; for servers that require a certificate of the client."""
    override_hostname: str | None = None
    """Name that the certificate of a server must have, if it is not the name in the address."""
    disable_server_verification: bool = False
    """Whether every certificate of a server is accepted."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of every call, names in lower case."""
    timeout: float | None = None
    """Seconds that a call may take; streams have no limit."""
    attempts: int = 5
    """Largest number of attempts of a call that can be repeated."""
    patience: float = 60.0
    """Seconds that a call may wait in all for servers that are busy and say when to come back."""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidInputError(f"attempts: expected 1 or more, found {self.attempts}")
        if not self.patience >= 0:
            raise InvalidInputError(f"patience: expected 0 seconds or more, found {self.patience}")

    def retries(self, num_servers: int) -> Retries:
        """Return the attempts of a call that `num_servers` servers can answer.

        Every server is asked before the call fails, unless calls are not to be repeated.
        """
        attempts = max(self.attempts, num_servers) if self.attempts > 1 else 1
        return Retries(attempts, self.patience, num_servers)


class _Trailers(flight.ClientMiddleware):  # type: ignore[misc]
    """Middleware of one call: sends our headers, and keeps the request id and the error report."""

    def __init__(self, headers: Mapping[str, str], credentials: Credentials) -> None:
        self._credentials = credentials
        self._sent = credentials.header()
        credentials_sent = {} if self._sent is None else {HEADER: self._sent}
        self._headers = {**trace_headers(), **headers, **credentials_sent}
        self.report: str | None = None
        self.request_id: str | None = None

    def sending_headers(self) -> Mapping[str, str]:
        return self._headers

    def received_headers(self, headers: Mapping[str, Sequence[str]]) -> None:
        if values := headers.get(TRAILER):
            self.report = values[-1]
        if values := headers.get(REQUEST_ID):
            self.request_id = values[-1]
        if values := headers.get(HEADER):
            self._credentials.learn(values[-1], self._sent)

    def error_of(self, error: Exception, uri: str) -> LanceError:
        """Return our error for an error of pyarrow. It is retryable if other credentials can be sent."""
        found = from_flight(error, self.report, server=uri)
        found.request_id = self.request_id
        if isinstance(found, NotAuthenticatedError):
            found.retryable = self._credentials.renew(self._sent)
        return found


class _TrailersFactory(flight.ClientMiddlewareFactory):  # type: ignore[misc]
    """Factory of one `_Trailers` per call; `latest` is the one of the latest call of this thread."""

    def __init__(self, headers: Mapping[str, str], credentials: Credentials) -> None:
        self._headers = headers
        self._credentials = credentials
        self._of_thread = threading.local()

    def start_call(self, info: flight.CallInfo) -> _Trailers:
        call = _Trailers(self._headers, self._credentials)
        self._of_thread.latest = call
        return call

    @property
    def latest(self) -> _Trailers | None:
        return getattr(self._of_thread, "latest", None)

    def forget(self) -> None:
        self._of_thread.latest = None


class _Calling:
    """Context that turns errors of pyarrow into ours. A class is faster than a generator, and every take uses
    it.
    """

    __slots__ = ("_factory", "_uri")

    def __init__(self, factory: _TrailersFactory, uri: str) -> None:
        self._factory = factory
        self._uri = uri

    def __enter__(self) -> None:
        self._factory.forget()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, pa.ArrowException | flight.FlightError):
            call = self._factory.latest
            raise (
                call.error_of(error, self._uri) if call else from_flight(error, server=self._uri)
            ) from None


def check_process() -> None:
    """Refuse calls in a process that was forked from a process with a connection to a server.

    Raises:
        UnsupportedFeatureError: this is such a process. gRPC does not survive a fork: it would wait for ever.
    """
    if is_forked():
        raise UnsupportedFeatureError(
            "gRPC does not survive a fork, and this process was forked from one with a connection to a "
            "server: spawn processes, or connect in the forked processes only"
        )


def is_forked() -> bool:
    """Return whether this process was forked from one with a connection to a server."""
    return _connected is not None and _connected != os.getpid()


class Connection:
    """Connection to one server, made on first use. Can be used by many threads."""

    def __init__(self, uri: str, access: Access) -> None:
        self.uri = uri
        self._access = access
        self._lock = threading.Lock()
        self._credentials = Credentials(access.proof)
        self._factory = _TrailersFactory(dict(access.headers), self._credentials)
        self._client: flight.FlightClient | None = None
        self._avoided_until = 0.0

    @property
    def is_avoided(self) -> bool:
        """Whether the server lately did not answer, or said that it is busy or about to stop."""
        return self._avoided_until > time.monotonic()

    def avoid_after(self, error: LanceError) -> None:
        """Try this server last for a while, if an error says that it cannot answer."""
        if isinstance(error, UnavailableError):
            self._avoided_until = time.monotonic() + (error.retry_after or _AVOIDED_SECONDS)

    def answered(self) -> None:
        """Try this server in its place again."""
        self._avoided_until = 0.0

    @property
    def client(self) -> flight.FlightClient:
        """Client of Arrow Flight for this connection; errors are those of `check_process`."""
        check_process()
        self._credentials.header()  # pyarrow has no way to tell why a middleware could not give one
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def options(self) -> flight.FlightCallOptions:
        """Return the options of a call without a stream."""
        return flight.FlightCallOptions(timeout=self._access.timeout)

    def calling(self) -> AbstractContextManager[None]:
        """Return a context that turns errors of pyarrow into ours."""
        return _Calling(self._factory, self.uri)

    def stream(self, ticket: flight.Ticket) -> "Stream":
        """Redeem a ticket, and return its stream."""
        with self.calling():
            reader = self.client.do_get(ticket)
        return Stream(reader, self._factory.latest, self.uri)

    def close(self) -> None:
        if is_forked():  # the connection belongs to the other process
            return
        with self._lock:
            if self._client is not None:
                self._client.close()
            self._client = None

    def _connect(self) -> flight.FlightClient:
        access = self._access
        global _connected
        _connected = os.getpid()
        try:
            return flight.FlightClient(
                self.uri,
                tls_root_certs=access.tls_root_certs,
                cert_chain=access.cert_chain,
                private_key=access.private_key,
                override_hostname=access.override_hostname,
                disable_server_verification=access.disable_server_verification,
                middleware=[self._factory],
            )
        except (pa.ArrowException, TypeError) as error:
            raise InvalidInputError(
                f"not the address of a server: {self.uri!r}, expected grpc://host:port ({error})"
            ) from None


class Stream:
    """Batches of one DoGet call. Only one thread at a time may call `read`; any thread may call `cancel`."""

    def __init__(self, reader: flight.FlightStreamReader, call: _Trailers | None, uri: str) -> None:
        self._reader = reader
        self._call = call
        self._uri = uri

    def read(self) -> pa.RecordBatch | None:
        """Return the next batch, None at the end; errors are those of the server and of `check_process`."""
        check_process()
        try:
            return self._reader.read_chunk().data
        except StopIteration:
            return None
        except (pa.ArrowException, flight.FlightError) as error:
            call = self._call
            raise (
                call.error_of(error, self._uri) if call else from_flight(error, server=self._uri)
            ) from None

    def cancel(self) -> None:
        """End the call; the server stops decoding."""
        if not is_forked():  # the call belongs to the other process
            self._reader.cancel()
