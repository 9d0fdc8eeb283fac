"""Errors: each class has its status, each call leaves them in one form, and nothing of the host leaks."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from pyarrow import flight

import lance_core.errors
from flight_server.errors import (
    FLIGHT_CLASSES,
    STATUS_CODES,
    ErrorReport,
    flight_error,
    report_error,
    status_code,
)
from flight_server.limits.admission import DrainingError, OverloadedError
from flight_server.requests.tickets import Ticket, encode_ticket
from lance_core.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptFileError,
    DatasetExistsError,
    DatasetNotFoundError,
    FileMissingError,
    InvalidInputError,
    LanceError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_core.scan.plan.scan_plan import FragmentScan
from support.clients.raw_flight import (
    Outcome,
    action,
    call,
    command_descriptor,
    criteria,
    flight_data,
    path_descriptor,
    scan_json,
    ticket,
)
from support.runs.each_case import each_case
from support.servers.served import Root
from support.servers.server import RunningServer, signing_key_of

ROOT = "/srv/data"


def every_child(kind: type[LanceError]) -> set[type[LanceError]]:
    children = set(kind.__subclasses__())
    return children.union(*map(every_child, children)) if children else children


def test_no_error_class_is_unmapped() -> None:
    """A new LanceError needs a row in the map, its own or that of a parent below LanceError."""
    children = every_child(LanceError)
    assert {OverloadedError, DrainingError, VersionNotFoundError, FileMissingError} <= children
    unmapped = [child for child in children if not set(child.__mro__) & set(FLIGHT_CLASSES)]
    assert not unmapped
    declared = {value for value in vars(lance_core.errors).values() if isinstance(value, type)}
    assert {child for child in children if child.__module__ == "lance_core.errors"} == {
        value for value in declared if issubclass(value, LanceError) and value is not LanceError
    }


@each_case(
    ("error", "kind", "code", "retryable"),
    [
        (DatasetNotFoundError("gone"), pa.ArrowKeyError, 4, False),
        (VersionNotFoundError("gone"), pa.ArrowKeyError, 11, False),
        (InvalidInputError("odd"), pa.ArrowInvalid, 13, False),
        (UnsupportedFeatureError("new"), pa.ArrowNotImplementedError, 0, False),
        (DatasetExistsError("there"), flight.FlightServerError, 5, False),
        (CommitConflictError("late", retryable=True), flight.FlightServerError, 14, True),
        (CommitConflictError("late", retryable=False), flight.FlightServerError, 14, False),
        (CommitUnknownError("who knows"), flight.FlightServerError, 18, False),
        (CorruptFileError("broken"), flight.FlightInternalError, 18, False),
        (StorageError("disk"), flight.FlightUnavailableError, 17, True),
        (FileMissingError("file"), flight.FlightUnavailableError, 17, False),
        (OverloadedError("full", retry_after=1.5), flight.FlightUnavailableError, 21, True),
        (DrainingError("stopping"), flight.FlightUnavailableError, 17, True),
    ],
)
def test_every_class_has_its_form(error: LanceError, kind: type, code: int, retryable: bool) -> None:
    report = report_error(error, ROOT)
    assert (report.code, report.name, report.message) == (code, type(error).__name__, str(error))
    assert report.retryable is retryable
    raised = flight_error(report, error)
    assert type(raised) is kind
    assert str(raised).startswith(f"[{report.name}] {report.message}")
    if isinstance(raised, flight.FlightError):
        assert json.loads(raised.extra_info) == json.loads(report.to_json())


@pytest.mark.parametrize(
    "error", [RuntimeError(ROOT), OSError(2, "x", ROOT), MemoryError(), KeyError("secret")]
)
def test_the_unexpected_tells_nothing(error: Exception) -> None:
    """T45."""
    report = report_error(error, ROOT)
    assert (report.code, report.name) == (18, "InternalError")
    assert re.fullmatch(
        rf"unexpected error in the server; its log has the details under {report.error_id}", report.message
    )
    assert isinstance(flight_error(report, error), flight.FlightInternalError)


@pytest.mark.parametrize(
    "message",
    [
        f"{ROOT}/a.lance broke in {ROOT}",
        "line\nline\r\x00\x1b[2J",
        "x" * 10_000,
        "\u00e9" * 5000,
        "\U0001f980" * 5000,
    ],
)
def test_messages_are_short_printable_and_without_the_root(message: str) -> None:
    """T45, T46."""
    report = report_error(InvalidInputError(message), ROOT)
    assert ROOT not in report.message
    assert report.message.isprintable()
    assert len(f"[{report.name}] {report.message}".encode()) < 1000
    assert report.to_json().isascii()


def test_every_class_of_errors_has_a_status_for_the_metrics() -> None:
    assert {*FLIGHT_CLASSES.values(), flight.FlightInternalError} == STATUS_CODES.keys()
    assert status_code(DatasetNotFoundError("x")) == "NOT_FOUND"
    assert status_code(RuntimeError("unexpected")) == "INTERNAL"


# -- on the wire ------------------------------------------------------------------------------------------

NOT_FOUND = grpc.StatusCode.NOT_FOUND
INVALID = grpc.StatusCode.INVALID_ARGUMENT
UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED
INTERNAL = grpc.StatusCode.INTERNAL
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
SQL = b"\x0a" + bytes([len(b"type.googleapis.com/arrow.flight.protocol.sql.CommandGetTables")])
SQL += b"type.googleapis.com/arrow.flight.protocol.sql.CommandGetTables"
FILTERED = scan_json("trips", filter="a")

CASES: list[tuple[str, bytes, grpc.StatusCode, str]] = [
    ("GetFlightInfo", path_descriptor("missing"), NOT_FOUND, "DatasetNotFoundError"),
    ("GetFlightInfo", path_descriptor("ns", "missing"), NOT_FOUND, "DatasetNotFoundError"),
    ("GetFlightInfo", path_descriptor("ns"), NOT_FOUND, "DatasetNotFoundError"),
    ("GetFlightInfo", path_descriptor("trips", "data"), NOT_FOUND, "DatasetNotFoundError"),
    ("GetFlightInfo", path_descriptor("trips@99"), NOT_FOUND, "VersionNotFoundError"),
    ("GetFlightInfo", path_descriptor("trips@gold"), NOT_FOUND, "RefNotFoundError"),
    ("GetFlightInfo", path_descriptor("..", "etc"), INVALID, "InvalidInputError"),
    ("GetFlightInfo", path_descriptor(), INVALID, "InvalidInputError"),
    ("GetFlightInfo", command_descriptor(b"{"), INVALID, "InvalidInputError"),
    ("GetFlightInfo", command_descriptor(b"\xff"), INVALID, "InvalidInputError"),
    ("GetFlightInfo", command_descriptor(SQL), UNIMPLEMENTED, "UnsupportedFeatureError"),
    ("GetFlightInfo", command_descriptor(FILTERED), INVALID, "InvalidInputError"),
    ("GetFlightInfo", command_descriptor(scan_json("trips", columns=["no"])), INVALID, "InvalidInputError"),
    ("GetFlightInfo", command_descriptor(scan_json("trips", fragments=[9])), INVALID, "InvalidInputError"),
    ("GetFlightInfo", path_descriptor("bad", "manifest"), INTERNAL, "CorruptFileError"),
    ("GetSchema", path_descriptor("missing"), NOT_FOUND, "DatasetNotFoundError"),
    ("GetSchema", command_descriptor(scan_json("trips", columns=["no"])), INVALID, "InvalidInputError"),
    ("GetSchema", command_descriptor(SQL), UNIMPLEMENTED, "UnsupportedFeatureError"),
    ("DoGet", ticket(b""), INVALID, "InvalidInputError"),
    ("DoGet", ticket(b"nonsense"), INVALID, "InvalidInputError"),
    ("DoGet", ticket(b"LFT1" + bytes(100)), INVALID, "InvalidInputError"),
    ("DoGet", ticket(SQL), UNIMPLEMENTED, "UnsupportedFeatureError"),
    ("DoGet", ticket(scan_json("missing")), NOT_FOUND, "DatasetNotFoundError"),
    ("DoGet", ticket(scan_json("trips", version=99)), NOT_FOUND, "VersionNotFoundError"),
    ("DoGet", ticket(scan_json("bad/pages")), INTERNAL, "CorruptFileError"),
    ("DoGet", ticket(scan_json("bad/missing")), UNAVAILABLE, "FileMissingError"),
    ("DoGet", ticket(b"x" * (1 << 21)), INVALID, "InvalidInputError"),
    ("ListFlights", criteria(b"\xff"), INVALID, "InvalidInputError"),
    ("ListFlights", criteria(b"*" * 5000), INVALID, "InvalidInputError"),
    ("DoAction", action("launch"), UNIMPLEMENTED, "UnsupportedFeatureError"),
    ("DoAction", action("create_dataset", b"{}"), INVALID, "InvalidInputError"),
    ("DoAction", action("count_rows", b"{}"), INVALID, "InvalidInputError"),
    ("DoAction", action("explain_scan", b"{}"), INVALID, "InvalidInputError"),
    ("DoAction", action("compact", b"{}"), INVALID, "InvalidInputError"),
    ("DoAction", action("delete", b'{"dataset": "x", "predicate": "a"}'), NOT_FOUND, "DatasetNotFoundError"),
    ("DoAction", action("delete", b'{"dataset": "trips", "predicate": "x"}'), INVALID, "InvalidInputError"),
    ("DoAction", action("restore", b'{"dataset": "trips", "version": 9}'), NOT_FOUND, "VersionNotFoundError"),
    ("DoAction", action("describe", b"{}"), INVALID, "InvalidInputError"),
    ("DoAction", action("describe", b'{"dataset": "missing"}'), NOT_FOUND, "DatasetNotFoundError"),
    ("DoAction", action("describe", b'{"dataset": "bad/manifest"}'), INTERNAL, "CorruptFileError"),
    ("DoAction", action("health", b'{"x": 1}'), INVALID, "InvalidInputError"),
    ("DoPut", flight_data(path_descriptor("trips")), INVALID, "InvalidInputError"),
    ("DoExchange", flight_data(path_descriptor("trips")), INVALID, "InvalidInputError"),
]  # fmt: skip


def assert_clean(outcome: Outcome, root: Path) -> None:
    """T45: no traceback, no source line, no path of the host."""
    text = outcome.everything().decode("utf-8", "replace")
    for leak in (
        "Traceback",
        'File "',
        str(root),
        str(Path(__file__).parents[2]),
        sys.prefix,
        "flight_server/",
    ):
        assert leak not in text, text


@each_case(("method", "request_bytes", "code", "name"), CASES)
def test_status_trailer_and_text(
    server: RunningServer, root: Root, method: str, request_bytes: bytes, code: grpc.StatusCode, name: str
) -> None:
    """T45: status, the report in the trailer, the name in the text, one sentence; and the server goes on."""
    outcome = call(server.address, method, request_bytes)
    assert outcome.code is code, outcome
    report = ErrorReport(**outcome.report)
    assert report.name == name
    assert outcome.details.startswith(f"[{name}] {report.message}")
    assert len(report.message) < 1000
    assert report.error_id in server.log
    assert_clean(outcome, root.path)
    if code in (INTERNAL, UNAVAILABLE) and method != "GetSchema":
        assert json.loads(outcome.trailers["grpc-status-details-bin"]) == outcome.report
    assert server.process.poll() is None


def test_what_the_binding_refuses_is_clean_too(server: RunningServer, root: Root) -> None:
    for descriptor in (b"", path_descriptor(b"\xff\xfe"), b"\xff\xff"):
        outcome = call(server.address, "GetFlightInfo", descriptor)
        assert outcome.code in (INVALID, INTERNAL)
        assert_clean(outcome, root.path)


def test_calls_that_are_not_served_at_all(server: RunningServer, root: Root) -> None:
    for method in ("Handshake", "PollFlightInfo"):
        outcome = call(server.address, method, path_descriptor("trips"))
        assert outcome.code is UNIMPLEMENTED
        assert_clean(outcome, root.path)


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda c: c.get_flight_info(flight.FlightDescriptor.for_path("missing")), KeyError),
        (lambda c: c.get_schema(flight.FlightDescriptor.for_path("missing")), KeyError),
        (lambda c: c.get_flight_info(flight.FlightDescriptor.for_command(b"{}")), ValueError),
        (lambda c: c.do_get(flight.Ticket(scan_json("trips", filter="idd > 1"))).read_all(), ValueError),
        (lambda c: c.do_get(flight.Ticket(scan_json("bad/pages"))).read_all(), flight.FlightInternalError),
        (
            lambda c: c.do_get(flight.Ticket(scan_json("bad/missing"))).read_all(),
            flight.FlightUnavailableError,
        ),
        (lambda c: list(c.do_action(flight.Action("launch", b""))), NotImplementedError),
        (
            lambda c: c.do_put(flight.FlightDescriptor.for_path("x"), pa.schema([]))[0].close(),
            KeyError,
        ),
    ],
)
def test_what_a_python_client_catches(server: RunningServer, ask: Any, error: type[Exception]) -> None:
    with server.client() as client, pytest.raises(error) as caught:
        ask(client)
    if isinstance(caught.value, flight.FlightError):
        assert json.loads(caught.value.extra_info)["name"] in str(caught.value)


def forged(key: bytes, **changes: Any) -> bytes:
    """Return a ticket with a valid signature, as somebody can make one who has learnt the key."""
    fields = {
        "dataset": "trips",
        "version": 2,
        "identity": "x",
        "expires": 2**40,
        "fragment_scans": (FragmentScan(0, 0, 1),),
    }
    return encode_ticket(Ticket(**{**fields, **changes}), key)


def test_forged_tickets_reach_nothing(server: RunningServer, root: Root) -> None:
    """T11, T12: a valid signature opens no door that a command would not open."""
    from lance_core.storage import storage_for
    from lance_core.table.snapshot import open_snapshot

    identity = open_snapshot(storage_for(str(root.path / "trips.lance")), 2).manifest.identity
    key = signing_key_of(root.path)
    good = call(server.address, "DoGet", ticket(forged(key, identity=identity)))
    assert good.code is grpc.StatusCode.OK
    refused = {
        "../../etc": INVALID,
        "missing": NOT_FOUND,
        "trips@1": INVALID,
    }
    for dataset, code in refused.items():
        assert (
            call(server.address, "DoGet", ticket(forged(key, dataset=dataset, identity=identity))).code
            is code
        )
    for scans in ((FragmentScan(0, 0, 901),), (FragmentScan(9, 0, 1),), (FragmentScan(0, 0, 1),) * 2):
        outcome = call(server.address, "DoGet", ticket(forged(key, identity=identity, fragment_scans=scans)))
        assert outcome.code is INVALID, outcome
        assert_clean(outcome, root.path)
    assert call(server.address, "DoGet", ticket(forged(key))).code is NOT_FOUND
    assert call(server.address, "DoGet", ticket(forged(key, identity=identity, version=1))).code is NOT_FOUND
    assert call(server.address, "DoGet", ticket(forged(key, identity=identity, expires=1))).code is INVALID
