"""Ids of requests: in the header of every answer, in the log, and in the errors of our client."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

import flight_client
from flight_server.requests.request_ids import request_id
from support.clients.raw_flight import call as raw_call
from support.clients.raw_flight import path_descriptor, scan_json
from support.servers.server import RunningServer


class _Answers(flight.ClientMiddlewareFactory):
    """Middleware of one client: sends an id, and keeps the calls."""

    def __init__(self, sent: str | None) -> None:
        super().__init__()
        self.sent = sent
        self.calls: list[_Answer] = []

    def start_call(self, info: flight.CallInfo) -> _Answer:
        self.calls.append(_Answer(self.sent))
        return self.calls[-1]


class _Answer(flight.ClientMiddleware):
    """Middleware of one call: keeps the id in its answer, which pyarrow tells once or twice."""

    def __init__(self, sent: str | None) -> None:
        super().__init__()
        self._sent = sent
        self.found: set[str] = set()

    def sending_headers(self) -> dict[str, str]:
        return {} if self._sent is None else {"x-request-id": self._sent}

    def received_headers(self, headers: Mapping[str, Sequence[str]]) -> None:
        self.found.update(headers.get("x-request-id", []))


def _ids(server: RunningServer, sent: str | None) -> list[str]:
    """Return the ids in the answers of a call of each kind; the last of them fails."""
    answers = _Answers(sent)
    with flight.FlightClient(server.uri, middleware=[answers]) as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path("trips"))
        client.do_get(info.endpoints[0].ticket).read_all()
        list(client.do_action(flight.Action("health", b"{}")))
        with pytest.raises(pa.ArrowKeyError):
            client.do_get(flight.Ticket(scan_json("missing"))).read_all()
    return [found for each in answers.calls for found in each.found]


def test_every_answer_has_an_id_of_its_own(server: RunningServer) -> None:
    before = len(server.log)
    ids = _ids(server, None)
    assert len(set(ids)) == len(ids) == 4
    assert all(re.fullmatch(r"[0-9a-f]{12}-[0-9a-f]+", each) for each in ids)
    (line,) = server.log[before:].splitlines()
    assert f" request_id={ids[-1]} " in line


def test_a_client_chooses_the_id(server: RunningServer) -> None:
    before = len(server.log)
    assert _ids(server, "job-7:step.2_a") == ["job-7:step.2_a"] * 4
    assert " request_id=job-7:step.2_a " in server.log[before:]


@pytest.mark.parametrize("given", ["", " ", "a b", 'a"b', "x" * 65, ".a", "é", "a=b", "a\nb"])
def test_other_values_are_replaced(given: str) -> None:
    """T46: no id of a client looks like another fact of the log."""
    assert request_id([given]) != given
    assert request_id([given.encode()]) != given
    assert request_id([given]) != request_id([given])
    assert request_id(["a", "b"]) not in ("a", "b")


def test_an_id_that_is_no_text_is_replaced(server: RunningServer) -> None:
    before = len(server.log)
    raw_call(server.address, "GetFlightInfo", path_descriptor("missing"), headers=[("x-request-id", "a b")])
    (line,) = server.log[before:].splitlines()
    assert "a b" not in line
    assert " request_id=" in line


@pytest.mark.parametrize("chosen", [None, "mine-1"])
def test_errors_of_our_client_have_the_id(server: RunningServer, chosen: str | None) -> None:
    options: dict[str, Any] = {} if chosen is None else {"headers": {"x-request-id": chosen}}
    before = len(server.log)
    with flight_client.connect(server.uri, **options) as client:
        with pytest.raises(flight_client.DatasetNotFoundError) as caught:
            client.dataset("missing")
        with pytest.raises(flight_client.InvalidInputError) as refused:
            client.dataset("trips").to_table(filter="nothing > 1")
    for error in (caught.value, refused.value):
        assert error.request_id
        assert chosen in (None, error.request_id)
        assert f" request_id={error.request_id} " in server.log[before:]
