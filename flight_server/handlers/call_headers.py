"""Headers of a call: its request id, and the credentials of its caller."""

from collections.abc import Mapping, Sequence

from pyarrow import flight

from flight_server.handlers.credentials import Credentials
from flight_server.handlers.thread_state import ThreadState
from flight_server.requests.request_ids import HEADER, request_id
from flight_server.security.authentication import AUTHORIZATION, Caller
from flight_server.security.identity import ANONYMOUS, Identity
from flight_server.telemetry.tracing import CONTEXT_HEADERS

MIDDLEWARE = "headers"
"""Name under which a handler finds the middleware of its call."""


class CallHeaders(flight.ServerMiddleware):  # type: ignore[misc]
    """Headers of one call: what they said, and those of its answer.

    The middleware also keeps Python's thread state for the whole call, which saves more time than it takes.
    """

    def __init__(self, request_id: str, caller: Caller | None, trace: Mapping[str, str]) -> None:
        self.request_id = request_id
        self.trace = trace
        """Context of the trace that the client is in."""
        self.identity: Identity | None = ANONYMOUS if caller is None else caller.identity
        """None: the certificate of the connection tells who calls."""
        self._headers = {HEADER: request_id}
        if caller is not None and caller.answer is not None:
            self._headers[AUTHORIZATION] = f"Bearer {caller.answer}"
        self._state = ThreadState()

    def sending_headers(self) -> Mapping[str, str]:
        return self._headers

    def call_completed(self, exception: BaseException | None) -> None:
        self._state.release()

    @staticmethod
    def of(context: flight.ServerCallContext) -> "CallHeaders":
        """Return the headers of the call of a handler."""
        return context.get_middleware(MIDDLEWARE)  # type: ignore[no-any-return]

    def identify(self, context: flight.ServerCallContext) -> Identity:
        """Return the identity of the caller; errors are those of `Credentials.of_certificate`."""
        return self.identity or Credentials.of_certificate(context.peer_identity())


class ReadHeaders(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Look at the headers of every call, before anything else is done with the call (threat T1)."""

    def __init__(self, credentials: Credentials | None, *, keeps_trace: bool = False) -> None:
        """Check credentials if there are any to check. `keeps_trace`: whether traces are made."""
        super().__init__()
        self._keeps_trace = keeps_trace
        self._credentials = credentials

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, Sequence[str | bytes]]) -> CallHeaders:
        request = request_id(headers.get(HEADER, ()))
        trace = _trace_of(headers) if self._keeps_trace else {}
        if self._credentials is None:
            return CallHeaders(request, None, trace)
        return CallHeaders(request, self._credentials.check(info, headers, request), trace)


def _trace_of(headers: Mapping[str, Sequence[str | bytes]]) -> Mapping[str, str]:
    """Return the headers of a trace. A header that was sent twice is left out."""
    found = {name: headers[name][0] for name in CONTEXT_HEADERS if len(headers.get(name, ())) == 1}
    return {name: value for name, value in found.items() if isinstance(value, str)}
