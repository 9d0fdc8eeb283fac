"""Credentials of calls on the wire: headers of every RPC, and the Handshake RPC."""

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from pyarrow import ArrowException, flight

from flight_server.errors import NotAuthenticatedError, flight_error, report_error, status_code
from flight_server.logs import audit_event, log_event
from flight_server.security.authentication import AUTHORIZATION, Authenticator, Caller
from flight_server.security.identity import Identity
from flight_server.telemetry.meters import Meters


class Credentials:
    """Check of the credentials in the headers of every call."""

    def __init__(self, authenticator: Authenticator, handshakes: "Handshakes", meters: Meters) -> None:
        self._authenticator = authenticator
        self._meters = meters
        self._handshakes = handshakes

    def check(
        self, info: flight.CallInfo, headers: Mapping[str, Sequence[str | bytes]], request_id: str
    ) -> Caller:
        """Return the caller that the headers of a call name; raise the Flight error that refuses the call."""
        is_handshake = info.method == flight.FlightMethod.HANDSHAKE
        try:
            caller = self._authenticator.identify(headers)
        except NotAuthenticatedError as error:
            # The older form of the handshake has its password in the stream.
            if is_handshake and AUTHORIZATION not in headers and self._authenticator.takes_passwords:
                self._handshakes.expect(is_proven=False)
                return Caller(None)
            raise _refusal(info.method.name, error, self._meters, request_id) from None
        if is_handshake:
            self._handshakes.expect(is_proven=True)
        return caller

    @staticmethod
    def of_certificate(name: bytes) -> Identity:
        """Return the identity of the name in the certificate of a connection.

        Raises:
            NotAuthenticatedError: the certificate names nobody.
        """
        subject = name.decode("utf-8", "replace")
        if not subject:
            raise NotAuthenticatedError("the certificate of the connection has no name")
        return Identity(subject, how="certificate")


class Handshakes(flight.ServerAuthHandler):  # type: ignore[misc]
    """The Handshake RPC, in both forms: `authorization: Basic` in the header, or a message in the stream."""

    def __init__(self, authenticator: Authenticator, meters: Meters) -> None:
        super().__init__()
        self._authenticator = authenticator
        self._meters = meters
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
            raise _refusal("HANDSHAKE", error, self._meters) from None
        try:
            caller = self._authenticator.log_in(username, password)
        except NotAuthenticatedError as error:
            raise _refusal("HANDSHAKE", error, self._meters) from None
        assert caller.answer is not None
        outgoing.write(caller.answer.encode())

    def is_valid(self, token: bytes) -> bytes:
        """Accept every token: the middleware has seen it in the header already."""
        return b""


def _refusal(
    method: str, error: NotAuthenticatedError, meters: Meters, request_id: str | None = None
) -> Exception:
    """Log and count a call that ends here, and return the exception to raise."""
    report = report_error(error, None)
    rpc = method.title().replace("_", "")
    facts = {
        "rpc": rpc,
        "request_id": request_id,
        "error": report.name,
        "error_id": report.error_id,
        "message": report.message,
    }
    meters.call_ended(rpc, "", status_code(error), report.name, 0.0)
    log_event(logging.INFO, "refused", facts)
    audit_event("refused", facts)
    return flight_error(report, error)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()
