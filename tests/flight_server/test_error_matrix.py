"""T45: every RPC against every error class, those included that no dataset of today can provoke."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import grpc
import pyarrow as pa
import pytest

from flight_server.errors import DrainingError, OverloadedError
from flight_server.limits.admission import Admission
from flight_server.reading.reads import Asked, Reads, ScanStream
from flight_server.requests.commands import ScanCommand
from flight_server.server import FlightServer
from flight_server.service import Service
from flight_server.settings import Settings
from flight_server.writing.changes import Changes
from flight_server.writing.references import References
from flight_server.writing.staged_writes import StagedWrites
from flight_server.writing.targets import Targets
from flight_server.writing.upkeep import Upkeep
from lance_core.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptFileError,
    DatasetExistsError,
    DatasetNotFoundError,
    FileMissingError,
    InvalidInputError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_core.scan.run.batch_cutter import BatchRun
from support.clients.puts import flight_data, ipc_messages
from support.clients.raw_flight import action, call, criteria, path_descriptor, ticket

SECRET = "/srv/secret/place"

ERRORS: list[tuple[Exception, grpc.StatusCode, int]] = [
    (DatasetNotFoundError("no such thing"), grpc.StatusCode.NOT_FOUND, 4),
    (VersionNotFoundError("no such version"), grpc.StatusCode.NOT_FOUND, 11),
    (InvalidInputError("x" * 20_000), grpc.StatusCode.INVALID_ARGUMENT, 13),
    (InvalidInputError("\u00e9\U0001f980" * 20_000), grpc.StatusCode.INVALID_ARGUMENT, 13),
    (UnsupportedFeatureError("line\nline\x00\x1b[2J"), grpc.StatusCode.UNIMPLEMENTED, 0),
    (DatasetExistsError("there"), grpc.StatusCode.UNKNOWN, 5),
    (CommitConflictError("late", retryable=True), grpc.StatusCode.UNKNOWN, 14),
    (CommitUnknownError("who knows"), grpc.StatusCode.UNKNOWN, 18),
    (CorruptFileError("odd", file="data/a.lance", column="c", page=3), grpc.StatusCode.INTERNAL, 18),
    (StorageError("disk"), grpc.StatusCode.UNAVAILABLE, 17),
    (FileMissingError("gone"), grpc.StatusCode.UNAVAILABLE, 17),
    (OverloadedError("full", retry_after=1.5), grpc.StatusCode.UNAVAILABLE, 21),
    (DrainingError("stopping"), grpc.StatusCode.UNAVAILABLE, 17),
    (RuntimeError(SECRET), grpc.StatusCode.INTERNAL, 18),
    (OSError(2, "No such file or directory", SECRET), grpc.StatusCode.INTERNAL, 18),
    (KeyError(SECRET), grpc.StatusCode.INTERNAL, 18),
    (MemoryError(SECRET), grpc.StatusCode.INTERNAL, 18),
    (pa.ArrowInvalid(SECRET), grpc.StatusCode.INTERNAL, 18),
    (RecursionError(SECRET), grpc.StatusCode.INTERNAL, 18),
]

CALLS = {
    "ListFlights": ("ListFlights", criteria(b"")),
    "GetFlightInfo": ("GetFlightInfo", path_descriptor("a")),
    "GetSchema": ("GetSchema", path_descriptor("a")),
    "DoGet": ("DoGet", ticket(b'{"scan": {"dataset": "t"}}')),
    "DoGet, in the stream": ("DoGet", ticket(b'{"scan": {"dataset": "stream"}}')),
    "DoGet, in a stream with dictionaries": ("DoGet", ticket(b'{"scan": {"dataset": "dictionary"}}')),
    "DoAction health": ("DoAction", action("health")),
    "DoAction describe": ("DoAction", action("describe", b'{"dataset": "a"}')),
    "DoAction drop_dataset": ("DoAction", action("drop_dataset", b'{"dataset": "a"}')),
    "DoAction delete": ("DoAction", action("delete", b'{"dataset": "a", "predicate": "true"}')),
    "DoAction compact": ("DoAction", action("compact", b'{"dataset": "a"}')),
    "DoAction commit": (
        "DoAction",
        action("commit", b'{"dataset": "a", "operation": "append", "staged": ["%s"]}' % (b"0" * 32)),
    ),
    "DoExchange": (
        "DoExchange",
        flight_data(next(ipc_messages(pa.table({"_rowid": [1]})))[0], descriptor=path_descriptor("a")),
    ),
    "DoPut": (
        "DoPut",
        flight_data(next(ipc_messages(pa.table({"x": [1]})))[0], descriptor=path_descriptor("a")),
    ),
}


class FailingTargets(Targets):
    """Targets that no call can open."""

    def __init__(self, fail: Callable[..., NoReturn]) -> None:
        self.opened = self.target = self.drop = fail  # type: ignore[method-assign]


class FailingReads(Reads):
    """Reads that all fail; streams fail after one batch."""

    def __init__(self, fail: Callable[..., NoReturn]) -> None:
        self._fail = fail
        self.plan = self.schema = self.exchange = fail  # type: ignore[method-assign]

    def stream(self, asked: Asked, check: Callable[[], None] = lambda: None) -> ScanStream:
        assert isinstance(asked, ScanCommand)
        column = pa.array([1, 2])
        if asked.dataset.name == "dictionary":
            column = column.dictionary_encode()
        elif asked.dataset.name != "stream":
            self._fail()
        batch = pa.record_batch({"x": column})

        def runs() -> Iterator[BatchRun]:
            yield BatchRun(batch, 1)
            self._fail()

        return ScanStream(batch.schema, runs(), "none")  # type: ignore[arg-type]


class FailingService(Service):
    """Fails in everything it is asked for."""

    error: Exception

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        targets = FailingTargets(self._fail)
        self.reads = FailingReads(self._fail)
        self.datasets.summaries = self.datasets.describe = self._fail  # type: ignore[method-assign]
        self.changes = Changes(self._catalog, targets)
        self.staged = StagedWrites(self._catalog, targets, 1)
        self.refs = References(self._catalog, targets)
        self.upkeep = Upkeep(self._catalog, targets, self.staged)

    def _fail(self, *_: Any, **__: Any) -> NoReturn:
        raise self.error

    health = _fail  # type: ignore[assignment]


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FailingService, str]]:
    """A server in this process, with the traceback limit of the server process."""
    environment = {"LANCE_FLIGHT_PORT": "0"}
    service = FailingService(Settings.resolve(str(tmp_path_factory.mktemp("root")), environment=environment))
    before = getattr(sys, "tracebacklimit", 1000)
    sys.tracebacklimit = 0
    server = FlightServer(service)
    yield service, server.uri.removeprefix("grpc://")
    server.shutdown()
    sys.tracebacklimit = before


@pytest.mark.parametrize("name", CALLS)
def test_every_error_of_a_call(failing: tuple[FailingService, str], name: str) -> None:
    """T45: status, code, one short sentence, and nothing of the host, for each class of errors."""
    service, address = failing
    method, request = CALLS[name]
    for (error, status, code), attempt in itertools.product(ERRORS, range(2)):
        service.error = error
        outcome = call(address, method, request)
        # The binding knows only the Arrow classes in GetSchema.
        unknown = method == "GetSchema" and status in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE)
        assert outcome.code is (grpc.StatusCode.UNKNOWN if unknown else status), (error, attempt, outcome)
        assert outcome.report["code"] == code
        assert outcome.details.startswith(f"[{outcome.report['name']}] ")
        assert len(outcome.report["message"].encode()) < 1000
        assert outcome.report["message"].isprintable()
        text = outcome.everything().decode("utf-8", "replace")
        for leak in ("Traceback", 'File "', SECRET, str(Path(__file__).parents[2]), service.settings.root):
            assert leak not in text
        assert len(outcome.messages) == ("stream" in name) * (4 if "dictionaries" in name else 3)


def test_no_failure_keeps_a_slot(failing: tuple[FailingService, str]) -> None:
    service, address = failing
    service.error = RuntimeError("x")
    for method, request in CALLS.values():
        call(address, method, request)
    assert service.admission.wait_idle(5)
    assert isinstance(service.admission, Admission)
    assert service.admission.streams == 0
