"""One request: its client, what it asks for, its line in the log, and its errors as Flight errors."""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from urllib.parse import unquote

from pyarrow import flight

from flight_server.errors import REFUSALS, TRAILER, flight_error, report_error, status_code
from flight_server.handlers.call_headers import CallHeaders
from flight_server.logs import audit_event, is_audited, is_logged, log_event
from flight_server.requests.json_fields import parse_object
from flight_server.requests.names import DatasetReference, shown
from flight_server.requests.tickets import Ticket
from flight_server.security.identity import ANONYMOUS, Identity
from flight_server.service import Reader, Service
from flight_server.telemetry.tracing import CallTrace
from lance_core.errors import LanceError

Facts = Mapping[str, object]

_AUDITED = ("change", "refused", "failed")
"""Events that the audit log has, too."""

_NOTHING = nullcontext()

_BODY_FIELDS = ("dataset", "target", "branch", "tag", "version", "operation", "dry_run")
"""The fields of an action's body that the log repeats."""


class Call:
    """One request of a client: its errors, and its line in the log.

    A `with` block translates errors: what leaves the block is a Flight error, and the trailer holds the
    report (threat T45). Blocks may nest, or follow one another; of nested blocks, the outer one translates.
    The request ends with its last block.

    The log gets one line for a change, one for an error, and at the level debug one for any other request.

    Attributes:
        action: Name of the action that is asked for; empty for other requests and for unknown actions.
    """

    __slots__ = (
        "_began",
        "_blocks",
        "_caller",
        "_context",
        "_facts",
        "_headers",
        "_identity",
        "_is_counted",
        "_is_logged",
        "_name",
        "_peer",
        "_service",
        "_trace",
        "action",
    )

    def __init__(self, service: Service, context: flight.ServerCallContext, name: str) -> None:
        self._began = time.perf_counter()
        self._blocks = 0
        self._context = context
        self._headers = CallHeaders.of(context)
        self._identity: Identity | None = None
        self._caller: str | None = None
        self._facts: list[Callable[[], Facts]] = []
        self._is_counted = False
        self._is_logged = False
        self._name = name
        self.action = ""
        self._service = service
        self._trace: CallTrace | None = None
        if service.tracing is not None:
            self._trace = service.tracing.begin(name, self._headers.trace)
            service.observe(self._trace.step)
        # The context must not be touched after the request, and a stream can end after it.
        self._peer = _peer_of(context) if self.is_verbose else None

    @property
    def is_verbose(self) -> bool:
        """Whether the log shows every request. Only then is it worth counting what a stream sends."""
        return is_logged(logging.DEBUG)

    @property
    def identity(self) -> Identity:
        """Identity of the caller. Raises NotAuthenticatedError if a certificate names nobody."""
        if self._identity is None:
            self._identity = self._headers.identify(self._context)
        return self._identity

    @property
    def caller(self) -> str:
        """Name of the caller whose limits count: the subject, or the host of a client that nobody asks."""
        if self._caller is None:
            subject = self.identity.subject
            self._caller = _host_of(_peer_of(self._context)) if subject is None else subject
        return self._caller

    def is_cancelled(self) -> bool:
        """Return whether the client has left."""
        return bool(self._context.is_cancelled())

    def reader(self) -> Reader:
        """Return the client as the reader of what the calling thread reads for this request.

        Its reads end if the client leaves, or if the server ends its streams.
        """
        return self._service.reader(self._check_wanted)

    def _check_wanted(self) -> None:
        if self.is_cancelled():
            raise flight.FlightCancelledError("the client has left")
        self._service.admission.check_stream()

    def describe(self, facts: Callable[[], Facts]) -> None:
        """Add facts to the lines of this request. `facts` runs only when such a line is written."""
        self._facts.append(facts)

    def changed(self, result: Facts) -> None:
        """Log a change that is complete: the request's facts, and the numbers and texts of `result`."""
        self._is_logged = True
        facts = {name: value for name, value in result.items() if isinstance(value, int | str)}
        self._log(logging.INFO, "change", facts)

    def staged(self) -> None:
        """Write the line of an upload that waits for its commit to the audit log."""
        self._audit("stage", self._described())

    def tell(self, event: str, facts: Facts) -> None:
        """Write a line about the request while it runs."""
        self._log(logging.INFO, event, facts)

    def leave_out(self) -> None:
        """Write no line to the log unless the request fails. Requests of probes would fill the log."""
        self._is_logged = True

    def __enter__(self) -> None:
        self._blocks += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._blocks -= 1
        if error is not None and self._blocks:
            return
        if not self._is_counted and (error is not None or self._blocks == 0):
            self._is_counted = True
            self._count(error)
        if error is None:
            if self._blocks == 0 and not self._is_logged and self.is_verbose:
                self._log(logging.DEBUG, "request", {})
            return
        if self._is_logged and isinstance(error, flight.FlightError | GeneratorExit):
            return
        self._is_logged = True
        # Clients leave streams of which they have enough. A look at them may find it before a write does.
        is_stream = self._name == "DoGet" and isinstance(error, flight.FlightCancelledError)
        if is_stream or isinstance(error, GeneratorExit):
            if self.is_verbose:
                self._log(logging.DEBUG, "request", {"ended": "early"})
            return
        if isinstance(error, flight.FlightError):  # a write failed, which it does only when the client left
            self._log(logging.INFO, "left", {"message": str(error)})
            return
        report = report_error(error, self._service.settings.root)
        facts = {"error": report.name, "error_id": report.error_id, "message": report.message}
        if isinstance(error, REFUSALS):
            self._log(logging.INFO, "refused", facts)
        else:
            is_expected = isinstance(error, LanceError)
            level = logging.WARNING if is_expected else logging.ERROR
            self._log(level, "failed", facts, None if is_expected else error)
        self._context.add_trailer(TRAILER, report.to_json())
        raise flight_error(report, error) from None

    def step(self, name: str) -> AbstractContextManager[object]:
        """Return the context of a step of this request, for traces."""
        return _NOTHING if self._trace is None else self._trace.step(name)

    @property
    def has_trace(self) -> bool:
        """Whether the steps of this request are traced."""
        return self._trace is not None

    def sent(self, num_rows: int, num_bytes: int) -> None:
        """Count rows that go to the client."""
        self._service.meters.sent(self._name, num_rows, num_bytes)

    def received(self, num_rows: int, num_bytes: int) -> None:
        """Count rows that came from the client."""
        self._service.meters.received(self._name, num_rows, num_bytes)

    def _count(self, error: BaseException | None) -> None:
        seconds = time.perf_counter() - self._began
        if error is None:
            code, name = "OK", ""
        elif isinstance(error, flight.FlightError | GeneratorExit):  # the client left
            code, name = "CANCELLED", ""
        else:
            code = status_code(error)
            name = type(error).__name__ if isinstance(error, LanceError) else "InternalError"
        self._service.meters.call_ended(self._name, self.action, code, name, seconds)
        if self._trace is not None:
            self._service.observe(None)
            told: dict[str, object] = {"request_id": self._headers.request_id}
            for each in self._facts:
                told |= each()
            self._trace.end(code, name, told)

    def _log(self, level: int, event: str, facts: Facts, stack_of: BaseException | None = None) -> None:
        is_for_audit = event in _AUDITED and is_audited()
        if not is_logged(level) and not is_for_audit:
            return
        told = self._described(facts)
        log_event(level, event, told, stack_of)
        if is_for_audit:
            self._audit(event, told)

    def _described(self, facts: Facts | None = None) -> Facts:
        """Return all that is known of the request, with more facts about its end."""
        facts = facts or {}
        told: dict[str, object] = {"rpc": self._name}
        for each in self._facts:
            told |= each()
        subject = self._identity.subject if self._identity is not None else None
        told |= {"subject": None if subject is None else shown(subject)[1:-1]}
        peer = self._peer or _peer_of(self._context)
        message = {"message": facts["message"]} if "message" in facts else {}
        told |= {name: value for name, value in facts.items() if name != "message"}
        ms = round(1000 * (time.perf_counter() - self._began), 1)
        ends = {"ms": ms, "peer": peer, "request_id": self._headers.request_id}
        if self._trace is not None:
            ends["trace_id"] = self._trace.trace_id
        return told | ends | message

    def _audit(self, event: str, told: Facts) -> None:
        identity = self._identity or ANONYMOUS
        roles = sorted(identity.roles) or None
        audit_event(event, {**told, "how": identity.how, "roles": roles})


def named(target: DatasetReference | Ticket) -> Facts:
    """Return the facts for the log about a dataset: its name, and the fields that choose the version."""
    facts: dict[str, object] = {}
    if isinstance(target, Ticket):
        facts["dataset"] = target.dataset
    else:
        facts |= {"dataset": target.name, "tag": target.tag, "ref": target.ref}
    return facts | {"branch": target.branch, "version": target.version}


def named_in(body: bytes) -> Facts:
    """Return facts for the log from the body of an action; none if it is not a JSON object."""
    try:
        fields = parse_object(body)
    except LanceError:
        return {}
    told = {name: fields[name] for name in _BODY_FIELDS if isinstance(fields.get(name), str | int)}
    return {name: value if isinstance(value, bool) else _short(value) for name, value in told.items()}


def _short(value: str | int) -> str:
    """Return a client's value as the log shows it: escaped and short, without the quotes of `shown`."""
    return shown(str(value))[1:-1]


def _host_of(peer: str) -> str:
    """Return the address of a client without its port: `ipv4:10.0.0.7` of `ipv4:10.0.0.7:41022`."""
    return peer.rpartition(":")[0] if peer.startswith(("ipv4:", "ipv6:")) else peer.partition(":")[0]


def _peer_of(context: flight.ServerCallContext) -> str:
    """Return the client's address."""
    return unquote(context.peer())
