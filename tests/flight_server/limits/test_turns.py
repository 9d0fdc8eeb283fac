"""Turns of streams that send at the same time, and the rate of bytes of a caller."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

import lance_core
from flight_server.errors import DrainingError
from flight_server.limits import turns as turns_module
from flight_server.limits.admission import Admission, Limit
from flight_server.limits.processors import Processors, shared_file
from flight_server.limits.rate import SendRate
from flight_server.limits.turns import StreamTurns, Turns
from flight_server.server import FlightServer
from flight_server.service import Service
from flight_server.settings import Settings
from support.processes.waiting import wait_until

MIB = 1 << 20


@pytest.fixture
def admission() -> Admission:
    return Admission(Limit(9, 9), Limit(9, 9))


@pytest.fixture
def one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one stream send at once for each processor."""
    monkeypatch.setattr(turns_module, "_STREAMS_PER_PROCESSOR", 1)


class Senders:
    """Threads that send windows of a size each, one at a time.

    The thread that has the turn sends when all others wait for it. So the processor decides about no turn.
    """

    def __init__(self) -> None:
        self.sent: list[int] = []
        """Bytes of each thread so far."""
        self._turns = Turns(Processors(1))
        self._until = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def waiting(self) -> int:
        return self._turns.waiting

    def start(self, *sizes: int) -> None:
        """Start a thread for each size. The threads before wait for all of them."""
        first = len(self.sent)
        self.sent += [0] * len(sizes)
        for number, num_bytes in enumerate(sizes, first):
            self._threads.append(threading.Thread(target=self._send, args=(number, num_bytes)))
            self._threads[-1].start()

    def stop(self) -> None:
        self._until.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _send(self, number: int, num_bytes: int) -> None:
        stream = first_bytes_sent(self._turns)
        while not self._until.is_set():
            stream.begin(num_bytes)
            while self._turns.waiting < len(self.sent) - 1 and not self._until.is_set():
                time.sleep(0.0001)
            self.sent[number] += num_bytes
            stream.end()


@pytest.mark.usefixtures("one_turn")
def test_streams_send_the_same_bytes_whatever_their_windows_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """T32: the stream that has sent the least is the next, also if it began later."""
    monkeypatch.setattr(turns_module, "_SLOW_SECONDS", 3600.0)  # a busy machine keeps its turns
    senders = Senders()
    try:
        senders.start(4 * MIB, 8 * MIB, 8 * MIB, 16 * MIB)
        wait_until(lambda: sum(senders.sent) > 400 * MIB)
        senders.start(4 * MIB)
        before = list(senders.sent)
        wait_until(lambda: sum(senders.sent) > sum(before) + 600 * MIB)
        sent = list(senders.sent)
    finally:
        senders.stop()
    assert max(before[:4]) < 2 * min(before[:4]), before
    gains = [after - then for after, then in zip(sent, before, strict=True)]
    assert max(gains) < 2 * min(gains), gains
    assert senders.waiting == 0


def test_fewer_streams_send_while_short_calls_come_in() -> None:
    """T32: half of the processors are left to short calls, and one stream may always send."""
    processors = Processors(4)
    turns = Turns(processors)
    stream = turns.stream()
    assert turns.most_beside(stream) == 8
    processors.note_call()
    assert turns.most_beside(stream) == 2
    assert turns.most_beside(turns.stream()) == 8
    alone = Processors(1)
    turns = Turns(alone)
    stream = turns.stream()
    alone.note_call()
    assert turns.most_beside(stream) == 1


def test_scans_rest_between_turns_while_short_calls_come_in() -> None:
    """T32: after a turn no other begins for as long as it took, so that a lookup finds a processor."""
    processors = Processors(1)
    stream = first_bytes_sent(Turns(processors))
    began = time.monotonic()
    for _ in range(5):
        stream.begin(MIB)
        time.sleep(0.01)
        processors.note_call()
        stream.end()
    assert time.monotonic() - began > 5 * 0.01 + 4 * 0.01


def test_a_stream_does_not_rest_for_the_call_that_opened_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "_REST_SHARE", 1e9)
    monkeypatch.setattr(turns_module, "_LONGEST_REST_SECONDS", 3600.0)
    processors = Processors(1)
    processors.note_call()
    stream = first_bytes_sent(Turns(processors))
    began = time.monotonic()
    for _ in range(5):
        stream.begin(MIB)
        stream.end()
    assert time.monotonic() - began < 1800, "a rest would take an hour"


def test_processes_of_one_server_hear_of_calls_to_the_others() -> None:
    """T32: a scan leaves processors to a lookup in another worker."""
    with shared_file() as file:
        here, there = (Processors.of_process(2, file) for _ in range(2))
    assert here.share == max(1, len(os.sched_getaffinity(0)) // 2)
    began = time.monotonic()
    assert not here.have_calls_since(began)
    there.note_call()
    assert here.have_calls_since(began)
    assert not here.have_calls_since(time.monotonic())


def first_bytes_sent(turns: Turns) -> StreamTurns:
    stream = turns.stream()
    stream.begin(4 * MIB)
    stream.end()
    return stream


@pytest.mark.parametrize(("num_bytes", "is_short"), [(4 * MIB - 1, True), (4 * MIB, False)])
def test_streams_of_few_bytes_are_short_calls(num_bytes: int, is_short: bool) -> None:
    """T32: scans leave processors to short scans, but not to each other."""
    processors = Processors(1)
    began = time.monotonic()
    stream = Turns(processors).stream()
    stream.begin(num_bytes)
    assert not processors.have_calls_since(began)
    stream.close()
    assert processors.have_calls_since(began) == is_short


def test_calls_of_scans_are_no_short_calls(tmp_path: Path) -> None:
    """T32: clients that only scan share all processors; lookups, short scans and actions find one."""
    table = pa.table({"x": np.random.default_rng(3).integers(0, 1 << 62, 600_000)})
    lance_core.write_dataset(table, tmp_path / "numbers.lance")
    service = Service(Settings(str(tmp_path), port=0))
    with FlightServer(service) as server, flight.connect(server.uri) as client:

        def is_short(**fields: object) -> bool:
            command = json.dumps({"scan": {"dataset": "numbers", **fields}}).encode()
            began = time.monotonic()
            client.get_flight_info(flight.FlightDescriptor.for_command(command))
            client.do_get(flight.Ticket(command)).read_all()
            wait_until(lambda: service.admission.streams + service.admission.lookups == 0)
            return service.processors.have_calls_since(began)

        assert not is_short()
        assert is_short(limit=10)
        assert is_short(filter="x < 0")
        began = time.monotonic()
        list(client.do_action("health"))
        assert service.processors.have_calls_since(began)


@pytest.mark.usefixtures("one_turn")
def test_a_stalled_client_keeps_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """T29: a client that does not read delays others no longer than a fast client would."""
    turns = Turns(Processors(1))
    stalled, other = first_bytes_sent(turns), first_bytes_sent(turns)
    stalled.begin(4 * MIB)
    began = time.monotonic()
    for _ in range(3):
        other.begin(16 * MIB)
        other.end()
    seconds = time.monotonic() - began
    assert seconds > 0.05, "one wait of about 0.08 s"
    stalled.end()
    assert stalled.is_slow
    # It is told to be slow: it waits for its turn, but does not keep it while it sends.
    monkeypatch.setattr(turns_module, "_SLOW_SECONDS", 3600.0)
    stalled.begin(4 * MIB)
    other.begin(4 * MIB)
    assert turns.waiting == 0
    other.end()
    stalled.end()
    assert not stalled.is_slow


@pytest.mark.usefixtures("one_turn")
def test_the_first_bytes_need_no_turn() -> None:
    """T32: a lookup does not wait for the scans that send."""
    turns = Turns(Processors(1))
    scan = first_bytes_sent(turns)
    scan.begin(1 << 40)  # nobody can take it away for hours
    lookup = turns.stream()
    lookup.begin(MIB)
    lookup.end()
    scan.end()


def test_a_caller_gets_its_rate(admission: Admission) -> None:
    """T6: a burst of one second, then as many bytes as it may have, over all its streams together."""
    rate = SendRate(100, admission)
    began = time.monotonic()
    for _ in range(4):
        rate.wait("ana")
        rate.spend("ana", 50)
    rate.wait("ben")
    assert time.monotonic() - began < 50  # ben waits for nobody
    rate.wait("ana")
    assert time.monotonic() - began > 0.95
    admission.end_streams()
    rate.spend("ana", 100_000)
    with pytest.raises(DrainingError):
        rate.wait("ana")


def test_no_rate_is_no_limit(admission: Admission) -> None:
    rate = SendRate(None, admission)
    for _ in range(3):
        rate.wait("ana")
        rate.spend("ana", 1 << 60)
