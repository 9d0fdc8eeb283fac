"""Limits of all callers together and of each one, and the time at which a slot is expected to be free."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from flight_server.errors import OverloadedError
from flight_server.limits.admission import Admission, Limit, limit_of
from support.processes.waiting import wait_until
from support.servers.served import Root, StartServer
from support.servers.tokens import OTHER_TOKEN, TOKEN, write_accounts

PUT = flight.FlightDescriptor.for_command(
    b'{"write": {"dataset": "held", "mode": "create", "report_bytes": 1}}'
)
LARGE = pa.table({"n": np.arange(4_000_000)})


def bearer(token: str) -> flight.FlightCallOptions:
    return flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + token.encode())])


@contextmanager
def held_stream(client: flight.FlightClient, options: flight.FlightCallOptions) -> Iterator[None]:
    """A stream that has begun, and lasts as long as the block."""
    # A server that compresses, since the client is slow, sends all rows into the buffers of the connection.
    scan = b'{"scan": {"dataset": "large", "compression": "none"}}'
    reader = client.do_get(flight.Ticket(scan), options)
    reader.read_chunk()
    try:
        yield
    finally:
        reader.cancel()


def test_a_caller_leaves_slots_for_others(tmp_path: Path, serve: StartServer) -> None:
    """T6: a subject that has all the streams and uploads it may have keeps no other subject from its own, and
    nobody from looking up rows.
    """
    import lance_core

    lance_core.write_dataset(LARGE, tmp_path / "root" / "large.lance")
    write_accounts(tmp_path / "accounts.toml")
    options = ("--accounts-file", str(tmp_path / "accounts.toml"), "--max-streams", "3")
    server = serve(tmp_path / "root", *options, "--max-caller-streams", "2", "--max-caller-puts", "1")
    ana, ben = bearer(TOKEN), bearer(OTHER_TOKEN)
    with server.client() as client, ExitStack() as streams:
        for _ in range(2):
            streams.enter_context(held_stream(client, ana))
        with pytest.raises(flight.FlightUnavailableError, match="2 streams of this caller") as caught:
            client.do_get(flight.Ticket(b'{"scan": {"dataset": "large"}}'), ana).read_all()
        assert json.loads(caught.value.extra_info)["retry_after_ms"] > 0
        for _ in range(1):
            streams.enter_context(held_stream(client, ben))
        with pytest.raises(flight.FlightUnavailableError, match="3 streams are running"):
            client.do_get(flight.Ticket(b'{"scan": {"dataset": "large"}}'), ben).read_all()
        take = flight.Ticket(b'{"take": {"dataset": "large", "offsets": [7, 3999999]}}')
        few = flight.Ticket(b'{"scan": {"dataset": "large", "limit": 3}}')
        assert client.do_get(take, ana).read_all()["n"].to_pylist() == [7, 3999999]
        assert client.do_get(few, ben).read_all()["n"].to_pylist() == [0, 1, 2]
        writer, answers = client.do_put(PUT, LARGE.schema, ana)
        answers.read()
        refused, _ = client.do_put(PUT, LARGE.schema, ana)
        with pytest.raises(flight.FlightUnavailableError, match="1 uploads of this caller"):
            refused.close()
        other, answers = client.do_put(PUT, LARGE.schema, ben)
        assert b"progress" in answers.read().to_pybytes()
        for each in (writer, other):
            with pytest.raises(pa.ArrowInvalid):
                each.close()


def test_hosts_are_callers_where_nobody_is_asked(root: Root, serve: StartServer) -> None:
    """T6: connections of one host count together, however many it opens."""
    server = serve(root.path, "--max-puts", "4")
    clients = [server.client() for _ in range(4)]
    started = [client.do_put(PUT, LARGE.schema) for client in clients[:3]]
    for _, answers in started:
        assert b"progress" in answers.read().to_pybytes()
    refused, _ = clients[3].do_put(PUT, LARGE.schema)
    with pytest.raises(flight.FlightUnavailableError, match="3 uploads of this caller"):
        refused.close()
    for writer, _ in started:
        with pytest.raises(pa.ArrowInvalid):
            writer.close()
    for client in clients:
        client.close()


def test_refused_callers_come_one_after_the_other() -> None:
    """T6: a caller that is refused later is told to come later, but never in more than ten seconds."""
    admission = Admission(Limit(1, 1), Limit(1, 1))
    with admission.stream("ana"):
        told = []
        for _ in range(40):
            with pytest.raises(OverloadedError) as caught, admission.stream("ben"):
                pass
            told.append(caught.value.retry_after)
        assert told == sorted(told)
        assert told[0] < 1 < told[10] <= told[-1] <= 10
        assert (admission.streams, admission.lookups) == (1, 0)
    with admission.stream("ben"):
        pass


def test_a_stop_waits_for_a_question_that_waits_for_a_slot() -> None:
    """T6: the slot gets free during the grace. Then the question is answered, before nothing runs."""
    admission = Admission(Limit(1, 1), Limit(1, 1))
    lookup_ends = threading.Event()
    events: list[str] = []

    def look_up() -> None:
        with admission.call(), admission.lookup("ana"):
            lookup_ends.wait(20)

    def ask() -> None:
        with admission.call(), admission.exchange("ben"):
            with admission.question("ben"):
                events.append("answered")
            admission.wait_for_end(20)

    def stop() -> None:
        assert admission.wait_idle(20)
        events.append("idle")
        admission.end_streams()

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(look_up)]
        wait_until(lambda: admission.lookups == 1)
        running.append(pool.submit(stop))
        wait_until(lambda: waiting_for(admission) == 1)
        running.append(pool.submit(ask))
        wait_until(lambda: waiting_for(admission) == 2)
        lookup_ends.set()
        for each in running:
            each.result(20)
    assert events == ["answered", "idle"]


def waiting_for(admission: Admission) -> int:
    """Number of threads that wait for a slot, or for the end of all calls."""
    return len(admission._changed._waiters)  # type: ignore[attr-defined]


def test_the_share_of_a_caller() -> None:
    assert limit_of(256, None) == (256, 192)
    assert [limit_of(total, None).of_caller for total in (1, 2, 3, 4)] == [1, 2, 3, 3]
    assert limit_of(8, 99) == (8, 8)


def test_the_bytes_of_a_caller(tmp_path: Path, serve: StartServer) -> None:
    """T6: 32 MB at 12 MB per second, of which a second's bytes come at once, in two streams together."""
    import lance_core

    lance_core.write_dataset(LARGE.slice(0, 2_000_000), tmp_path / "root" / "large.lance")
    write_accounts(tmp_path / "accounts.toml")
    options = ("--accounts-file", str(tmp_path / "accounts.toml"))
    server = serve(tmp_path / "root", *options, "--max-caller-bytes-per-second", "12MB")
    scan = flight.Ticket(b'{"scan": {"dataset": "large"}}')
    with server.client() as client, ThreadPoolExecutor(2) as pool:
        began = time.monotonic()
        reads = [
            pool.submit(lambda: client.do_get(scan, bearer(TOKEN)).read_all().num_rows) for _ in range(2)
        ]
        assert [read.result() for read in reads] == [2_000_000] * 2
        # The last window of each stream, of at most 8 MB, is paid for after it is sent.
        assert time.monotonic() - began > (32 - 12 - 2 * 8) / 12


def test_the_bytes_of_a_caller_delay_no_other_caller(tmp_path: Path, serve: StartServer) -> None:
    """T6: while two streams of one subject wait for hours, another subject reads."""
    import lance_core

    lance_core.write_dataset(LARGE, tmp_path / "root" / "large.lance")
    write_accounts(tmp_path / "accounts.toml")
    options = ("--accounts-file", str(tmp_path / "accounts.toml"))
    server = serve(tmp_path / "root", *options, "--max-caller-bytes-per-second", "1kB")
    scan = flight.Ticket(b'{"scan": {"dataset": "large"}}')
    few = flight.Ticket(b'{"scan": {"dataset": "large", "limit": 10}}')

    def rest(stream: flight.FlightStreamReader) -> int:
        return sum(chunk.data.num_rows for chunk in stream)

    with server.client() as client, ThreadPoolExecutor(2) as pool:
        streams = [client.do_get(scan, bearer(TOKEN)) for _ in range(2)]
        try:
            streams[0].read_chunk()  # the other stream may wait before its first rows
            reads = [pool.submit(rest, stream) for stream in streams]
            for _ in range(4):
                assert client.do_get(few, bearer(OTHER_TOKEN)).read_all().num_rows == 10
            assert not any(read.done() for read in reads)
        finally:
            for stream in streams:
                stream.cancel()
        for read in reads:
            with pytest.raises(flight.FlightCancelledError):
                read.result(60)
