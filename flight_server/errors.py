"""Errors as clients receive them: the Flight status of each LanceError, and the report.

    LanceError                        gRPC status          Flight class
      DatasetNotFoundError            NOT_FOUND            ArrowKeyError
      InvalidInputError               INVALID_ARGUMENT     ArrowInvalid
      UnsupportedFeatureError         UNIMPLEMENTED        ArrowNotImplementedError
      DatasetExistsError              UNKNOWN              FlightServerError
      CommitConflictError             UNKNOWN              FlightServerError
      RefConflictError                UNKNOWN              FlightServerError
      CommitUnknownError              UNKNOWN              FlightServerError
      CorruptFileError                INTERNAL             FlightInternalError
      StorageError                    UNAVAILABLE          FlightUnavailableError
        NotAuthenticatedError (ours)  UNAUTHENTICATED      FlightUnauthenticatedError
        OverloadedError (ours)        UNAVAILABLE          FlightUnavailableError
        DrainingError (ours)          UNAVAILABLE          FlightUnavailableError
    anything else                     INTERNAL             FlightInternalError, without any of its text

The report `{code, name, message, retryable, error_id, retry_after_ms}` travels in the trailer
`x-lance-error`, in `extra_info` where the Flight class has one, and as `[name] message` in the status text.
What the log needs stays in the log, under the id. Only errors of a busy or a stopping server have
`retry_after_ms`; the message of a busy server ends in `try again in 1.5 s`.
"""

import json
import math
import secrets
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import accumulate

import pyarrow as pa
from pyarrow import flight

from lance_core.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptFileError,
    DatasetExistsError,
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    MissingNameError,
    RefConflictError,
    StorageError,
    UnsupportedFeatureError,
)

TRAILER = "x-lance-error"

# The text is sent five times (twice in the status, twice in its details, once in the trailer), characters
# beyond ASCII as escapes; from 8 KiB of trailers on gRPC drops the status now and then, from 16 KiB always.
MAXIMUM_MESSAGE_BYTES = 900
"""Largest size of a message in its escaped form."""

# Codes of the Lance namespace error list.
_INTERNAL_CODE = 18
_UNAUTHENTICATED_CODE = 16
_SERVICE_UNAVAILABLE_CODE = 17
_THROTTLING_CODE = 21

_RESTART_SECONDS = 1.0
"""Time after which a server that stops is asked for again: it may have been started anew."""


class NotAuthenticatedError(LanceError):
    """The call has no credentials, or credentials that this server does not accept."""

    code = _UNAUTHENTICATED_CODE


class OverloadedError(LanceError):
    """The server runs as many calls of a kind as it may, of all callers or of this one."""

    code = _THROTTLING_CODE
    retryable = True

    def __init__(self, message: str, *, retry_after: float) -> None:
        """Tell the caller to come back in `retry_after` seconds."""
        super().__init__(f"{message}; try again in {retry_after:.1f} s")
        self.retry_after = retry_after


class DrainingError(LanceError):
    """The server is about to stop."""

    code = _SERVICE_UNAVAILABLE_CODE
    retryable = True
    retry_after = _RESTART_SECONDS


FLIGHT_CLASSES: Mapping[type[LanceError], type[Exception]] = {
    DatasetNotFoundError: pa.ArrowKeyError,
    InvalidInputError: pa.ArrowInvalid,
    UnsupportedFeatureError: pa.ArrowNotImplementedError,
    MissingNameError: pa.ArrowNotImplementedError,
    DatasetExistsError: flight.FlightServerError,
    CommitConflictError: flight.FlightServerError,
    CommitUnknownError: flight.FlightServerError,
    RefConflictError: flight.FlightServerError,
    CorruptFileError: flight.FlightInternalError,
    StorageError: flight.FlightUnavailableError,
    NotAuthenticatedError: flight.FlightUnauthenticatedError,
    OverloadedError: flight.FlightUnavailableError,
    DrainingError: flight.FlightUnavailableError,
}


STATUS_CODES: Mapping[type[Exception], str] = {
    pa.ArrowKeyError: "NOT_FOUND",
    pa.ArrowInvalid: "INVALID_ARGUMENT",
    pa.ArrowNotImplementedError: "UNIMPLEMENTED",
    flight.FlightServerError: "UNKNOWN",
    flight.FlightInternalError: "INTERNAL",
    flight.FlightUnavailableError: "UNAVAILABLE",
    flight.FlightUnauthenticatedError: "UNAUTHENTICATED",
}
"""gRPC status of each class in `FLIGHT_CLASSES`."""

REFUSALS = (
    DatasetNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
    DatasetExistsError,
    CommitConflictError,
    RefConflictError,
    NotAuthenticatedError,
    DrainingError,
)
"""Errors whose cause is the request or another writer. All others are problems of the server or its storage.
"""


@dataclass(frozen=True)
class ErrorReport:
    """Report of an error to a client; plain ASCII-safe data."""

    code: int
    name: str
    message: str
    retryable: bool
    error_id: str
    retry_after_ms: int | None = None
    """Milliseconds after which the same call is expected to succeed. None: nobody knows."""

    def to_json(self) -> str:
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(known, separators=(",", ":"))


def report_error(error: BaseException, root: str | None) -> ErrorReport:
    """Return the report of `error`: its own message if it is a LanceError, without the path of the served
    root. None: the error is from before any path was looked at.
    """
    error_id = secrets.token_hex(6)
    if isinstance(error, LanceError):
        seconds: float | None = getattr(error, "retry_after", None)
        return ErrorReport(
            error.code,
            type(error).__name__,
            _sendable(str(error), root),
            error.retryable,
            error_id,
            None if seconds is None else math.ceil(1000 * seconds),
        )
    message = f"unexpected error in the server; its log has the details under {error_id}"
    return ErrorReport(_INTERNAL_CODE, "InternalError", message, False, error_id)


def flight_error(report: ErrorReport, error: BaseException) -> Exception:
    """Return the exception to raise in a handler so that the client receives `report` with the status of
    `error`.
    """
    kind = _flight_class(error)
    text = f"[{report.name}] {report.message}"
    if issubclass(kind, flight.FlightError):
        return kind(text, report.to_json().encode())
    return kind(text)


def status_code(error: BaseException) -> str:
    """Return the name of the gRPC status with which the client receives an error."""
    return STATUS_CODES[_flight_class(error)]


def _flight_class(error: BaseException) -> type[Exception]:
    kinds = (FLIGHT_CLASSES[kind] for kind in type(error).__mro__ if kind in FLIGHT_CLASSES)
    return next(kinds, flight.FlightInternalError)


def _sendable(message: str, root: str | None) -> str:
    """Return one printable line of bounded length, without the path of the root."""
    without_root = message if root is None else message.replace(root, "<root>")
    line = " ".join(without_root.split())
    # No more than this is needed, and what follows costs time per character.
    line = line[: MAXIMUM_MESSAGE_BYTES + 1]
    printable = "".join(character if character.isprintable() else "?" for character in line)
    ends = list(accumulate(len(json.dumps(character)) - 2 for character in printable))
    if not ends or ends[-1] <= MAXIMUM_MESSAGE_BYTES:
        return printable
    return printable[: bisect_right(ends, MAXIMUM_MESSAGE_BYTES - 3)] + "..."
