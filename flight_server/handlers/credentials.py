"""Credentials of calls on the wire: headers of every RPC, and the Handshake RPC."""

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from pyarrow import ArrowException, flight

from flight_server.errors import NotAuthenticatedError, flight_error, report_error
from flight_server.handlers.thread_state import ThreadState
from flight_server.logs import log_event
from flight_server.security.authentication import AUTHORIZATION, Authenticator
from flight_server.security.identity import ANONYMOUS, Identity

MIDDLEWARE = "credentials"
"""Name under which a handler finds the middleware of its call."""


class CallerMiddleware(flight.ServerMiddleware):  # type: ignore[misc]
    """Middleware of one call: the identity that its headers prove."""

    def __init__(self, identity: Identity | None, answer: str | None) -> None:
        self.identity = identity
        """None: the certificate of the connection tells who calls."""
        self._headers = {} if answer is None else {AUTHORIZATION: f"Bearer {answer}"}
        self._state = ThreadState()

    def sending_headers(self) -> Mapping[str, str]:
        return self._headers

    def call_completed(self, exception: BaseException | None) -> None:
        self._state.release()


class Credentials(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Check of the headers of every call, before anything else is done with the call (threat T1)."""

    def __init__(self, authenticator: Authenticator, handshakes: "Handshakes") -> None:
        self._authenticator = authenticator
        self._handshakes = handshakes

    def start_call(
        self, info: flight.CallInfo, headers: Mapping[str, Sequence[str | bytes]]
    ) -> CallerMiddleware:
        is_handshake = info.method == flight.FlightMethod.HANDSHAKE
        try:
            caller = self._authenticator.identify(headers)
        except NotAuthenticatedError as error:
            # The older form of the handshake has its password in the stream.
            if is_handshake and AUTHORIZATION not in headers and self._authenticator.takes_passwords:
                self._handshakes.expect(is_proven=False)
                return CallerMiddleware(None, None)
            raise _refusal(info.method.name, error) from None
        if is_handshake:
            self._handshakes.expect(is_proven=True)
        return CallerMiddleware(caller.identity, caller.answer)


class Handshakes(flight.ServerAuthHandler):  # type: ignore[misc]
    """The Handshake RPC, in both forms: `authorization: Basic` in the header, or a message in the stream."""

    def __init__(self, authenticator: Authenticator) -> None:
        super().__init__()
        self._authenticator = authenticator
        self._proven: dict[int, bool] = {}
        """By thread: the middleware and this handler run one after the other on the same one."""

    def expect(self, *, is_proven: bool) -> None:
        """Tell the handshake that follows on this thread whether its headers had good credentials."""
        self._proven[threading.get_ident()] = is_proven

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        if self._proven.pop(threading.get_ident(), False):
            return
        try:
            basic = flight.BasicAuth.deserialize(incoming.read())
            username, password = _text(basic.username), _text(basic.password)
        except (ArrowException, OSError, ValueError):
            error = NotAuthenticatedError("the handshake has no user name and password")
            raise _refusal("HANDSHAKE", error) from None
        try:
            caller = self._authenticator.log_in(username, password)
        except NotAuthenticatedError as error:
            raise _refusal("HANDSHAKE", error) from None
        assert caller.answer is not None
        outgoing.write(caller.answer.encode())

    def is_valid(self, token: bytes) -> bytes:
        """Accept every token: the middleware has seen it in the header already."""
        return b""


def identity_of(context: flight.ServerCallContext) -> Identity:
    """Return the identity of a caller.

    Raises:
        NotAuthenticatedError: the certificate of the connection names nobody.
    """
    middleware = context.get_middleware(MIDDLEWARE)
    if middleware is None:
        return ANONYMOUS
    if middleware.identity is not None:
        return middleware.identity  # type: ignore[no-any-return]
    subject = context.peer_identity().decode("utf-8", "replace")
    if not subject:
        raise NotAuthenticatedError("the certificate of the connection has no name")
    return Identity(subject, how="certificate")


def _refusal(method: str, error: NotAuthenticatedError) -> Exception:
    """Log a call that ends here, and return the exception to raise."""
    report = report_error(error, None)
    rpc = method.title().replace("_", "")
    facts = {"rpc": rpc, "error": report.name, "error_id": report.error_id, "message": report.message}
    log_event(logging.INFO, "refused", facts)
    return flight_error(report, error)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()
