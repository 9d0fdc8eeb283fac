"""Errors of this package, with the names that a server uses in its reports.

    LanceError
    ├── InvalidInputError           an argument, column or filter is invalid
    │                               (ValueError, OSError)
    ├── DatasetNotFoundError        no dataset of this name
    │   │                           (ValueError, OSError)
    │   ├── VersionNotFoundError    the dataset has no such version
    │   ├── RefNotFoundError        the dataset has no such tag or branch
    │   └── IndexNotFoundError      the dataset has no such index
    │                               (RuntimeError, KeyError)
    ├── DatasetExistsError          a dataset of this name exists
    │                               (OSError)
    ├── RefConflictError            a tag or branch exists already, or is in use
    │                               (ValueError, OSError)
    ├── UnsupportedFeatureError     the server does not implement a feature
    │                               (NotImplementedError, OSError)
    ├── CorruptFileError            a file contradicts the format
    │                               (OSError, ValueError)
    ├── CommitConflictError         another commit came first
    │                               (OSError)
    ├── CommitUnknownError          it is unknown whether the commit landed
    │                               (OSError)
    ├── StorageError                the storage of the server failed
    │                               (OSError)
    ├── UnavailableError            no server answers, or it is busy or about to stop
    │                               (ConnectionError)
    ├── NotAuthenticatedError       the token is missing or wrong
    │                               (PermissionError)
    ├── NotAllowedError             the token does not give this right
    │                               (PermissionError)
    └── InternalError               a defect of the server; its log has the details
                                    (RuntimeError)

In brackets are the built-in errors that an error also is: those of the same error of `lance_core`.
An error has its `code` in the error list of the Lance namespace specification, `retryable` (whether the same
call may succeed later), `retry_after` (seconds after which a busy server expects that it succeeds, or None),
the `error_id` under which the server's log has the details, and the `request_id` of all lines about the call
there.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import flight

__all__ = [
    "CommitConflictError",
    "CommitUnknownError",
    "CorruptFileError",
    "DatasetExistsError",
    "DatasetNotFoundError",
    "IndexNotFoundError",
    "InternalError",
    "InvalidInputError",
    "LanceError",
    "NotAllowedError",
    "NotAuthenticatedError",
    "RefConflictError",
    "RefNotFoundError",
    "StorageError",
    "UnavailableError",
    "UnsupportedFeatureError",
    "VersionNotFoundError",
    "from_flight",
]


class LanceError(Exception):
    """Base class of every error that this package raises on purpose."""

    def __init__(
        self,
        message: str,
        *,
        code: int = 18,
        retryable: bool = False,
        error_id: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retryable = retryable
        self.error_id = error_id
        self.request_id = request_id
        self.retry_after = retry_after

    @property
    def was_refused(self) -> bool:
        """Whether the server did nothing, so that even a call that changes something may be repeated."""
        return self.retry_after is not None


class InvalidInputError(LanceError, ValueError, OSError):
    """An argument, column or filter of the caller is invalid. The message names it."""


class DatasetNotFoundError(LanceError, ValueError, OSError):
    """The server has no dataset of this name."""


class VersionNotFoundError(DatasetNotFoundError):
    """The dataset has no such version: it was never made, or it was cleaned up."""


class RefNotFoundError(DatasetNotFoundError):
    """The dataset has no tag or branch of this name."""


class IndexNotFoundError(DatasetNotFoundError, RuntimeError, KeyError):
    """The dataset has no index of this name."""


class DatasetExistsError(LanceError, OSError):
    """The dataset to be created exists already."""


class RefConflictError(LanceError, ValueError, OSError):
    """The tag or branch to be created exists already, or the one to be deleted is still in use."""


class UnsupportedFeatureError(LanceError, NotImplementedError, OSError):
    """The request or the dataset needs a feature that the server does not implement."""


class CorruptFileError(LanceError, OSError, ValueError):
    """Bytes of a file contradict the format or each other."""


class CommitConflictError(LanceError, OSError):
    """Another commit came first. If `retryable`, the same change on the new version can
    succeed.
    """


class CommitUnknownError(LanceError, OSError):
    """The commit may have landed or not. The same call with the same `transaction_id` finds out."""


class StorageError(LanceError, OSError):
    """The storage of the server failed."""


class UnavailableError(LanceError, ConnectionError):
    """No server answers, or the server is overloaded or about to stop."""


class NotAuthenticatedError(LanceError, PermissionError):
    """The token is missing, wrong or expired."""

    @property
    def was_refused(self) -> bool:
        return True


class NotAllowedError(LanceError, PermissionError):
    """The token does not allow the call."""


class InternalError(LanceError, RuntimeError):
    """The server has a defect. Its log has the details under `error_id`."""


_BY_NAME: dict[str, type[LanceError]] = {
    kind.__name__: kind
    for kind in (
        InvalidInputError,
        DatasetNotFoundError,
        VersionNotFoundError,
        RefNotFoundError,
        IndexNotFoundError,
        DatasetExistsError,
        RefConflictError,
        UnsupportedFeatureError,
        CorruptFileError,
        CommitConflictError,
        CommitUnknownError,
        StorageError,
        NotAuthenticatedError,
        InternalError,
    )
} | {
    "OverloadedError": UnavailableError,
    "DrainingError": UnavailableError,
    "FileMissingError": StorageError,
    "AlreadyExistsError": StorageError,
    "PutUnknownError": StorageError,
}

_BY_STATUS: tuple[tuple[type[Exception], type[LanceError]], ...] = (
    (flight.FlightUnauthenticatedError, NotAuthenticatedError),
    (flight.FlightUnauthorizedError, NotAllowedError),
    (flight.FlightUnavailableError, UnavailableError),
    (flight.FlightTimedOutError, UnavailableError),
    (flight.FlightCancelledError, UnavailableError),
    (pa.ArrowKeyError, DatasetNotFoundError),
    (pa.ArrowNotImplementedError, UnsupportedFeatureError),
    (pa.ArrowInvalid, InvalidInputError),
    (pa.ArrowException, InternalError),
)
"""Error classes by class of pyarrow, for errors without a report: those of other servers and of the
connection.
"""

_NAMED = re.compile(
    r"\[(?P<name>[A-Za-z]+)\] (?P<message>.*?)(?:\. Detail: .*|\. gRPC client debug .*)?\Z", re.S
)


@dataclass(frozen=True)
class Report:
    """Report of the server about an error, from the trailer `x-lance-error` or from `extra_info`."""

    code: int
    name: str
    message: str
    retryable: bool
    error_id: str | None
    retry_after_ms: int | None

    @staticmethod
    def parse(data: bytes | str | None) -> "Report | None":
        """Return the report in JSON; None if there is none, or if another server wrote it."""
        try:
            content: dict[str, Any] = json.loads(data or "null") or {}
            return Report(
                int(content["code"]),
                str(content["name"]),
                str(content["message"]),
                bool(content["retryable"]),
                content.get("error_id"),
                None if content.get("retry_after_ms") is None else int(content["retry_after_ms"]),
            )
        except (ValueError, KeyError, TypeError):
            return None


_NO_ANSWER: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"connection refused", re.I), "no server answers at {server}: nothing listens on this port"),
    (
        re.compile(r"errors? resolving|lookup failed|DNS resolution failed|domain name not found", re.I),
        "no server answers at {server}: the name of the host is not known",
    ),
    (
        re.compile(r"ssl handshake failed|TSI_PROTOCOL_FAILURE", re.I),
        "{server} cannot be talked to: no TLS connection can be made",
    ),
    (
        re.compile(r"failed parsing HTTP/2|http1\.x server", re.I),
        "{server} cannot be talked to: no Arrow Flight server listens there",
    ),
    (
        re.compile(r"timed? ?out|deadline exceeded", re.I),
        "no server answers at {server}: it took too long",
    ),
    (
        re.compile(r"no route to host|network is unreachable", re.I),
        "no server answers at {server}: no route to it",
    ),
    (
        re.compile(r"socket closed|connection reset|broken pipe|GOAWAY|recvmsg", re.I),
        "the connection to {server} broke off",
    ),
)
"""Patterns in gRPC's text about a server that cannot be reached, and sentences for them. The first match
counts.
"""


def from_flight(error: Exception, trailer: str | None = None, *, server: str | None = None) -> LanceError:
    """Return the error of this package for an error of pyarrow.flight.

    Args:
        error: error of pyarrow.
        trailer: trailer `x-lance-error` of the call, if it is known.
        server: address of the server, for messages.
    """
    report = Report.parse(trailer) or Report.parse(getattr(error, "extra_info", None))
    if report is not None:
        kind = _BY_NAME.get(report.name) or _by_status(error)
        return kind(
            report.message,
            code=report.code,
            retryable=report.retryable,
            error_id=report.error_id,
            retry_after=None if report.retry_after_ms is None else report.retry_after_ms / 1000,
        )
    text = str(error)
    named = _NAMED.search(text)
    if named and named["name"] in _BY_NAME:
        return _BY_NAME[named["name"]](named["message"])
    kind = _by_status(error)
    if isinstance(error, flight.FlightUnavailableError | flight.FlightTimedOutError):
        return kind(_no_answer(text, server), retryable=True)
    if isinstance(error, flight.FlightCancelledError):  # a server that ends; readers know what they cancelled
        return kind(text, retryable=True)
    return kind(text)


def _no_answer(text: str, server: str | None) -> str:
    """Return a sentence about a server that does not answer, or gRPC's own words if no pattern matches."""
    found = next((sentence for pattern, sentence in _NO_ANSWER if pattern.search(text)), None)
    if found is not None:
        return found.format(server=server or "the server")
    return text if server is None else f"no server answers at {server}: {text}"


def _by_status(error: Exception) -> type[LanceError]:
    return next((ours for theirs, ours in _BY_STATUS if isinstance(error, theirs)), InternalError)
