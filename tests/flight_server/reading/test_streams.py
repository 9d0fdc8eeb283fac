"""Streams next to each other, clients that are slow or leave, and the cap on their number."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import lance
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

import flight_client
import lance_core
from support.clients.raw_flight import SERVICE, action, call, scan_json, ticket
from support.processes.waiting import wait_until
from support.servers.served import Root, StartServer
from support.servers.server import RunningServer

LARGE_ROWS = 4_000_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a dataset of 128 MiB, which no client buffers on the way."""
    path = tmp_path_factory.mktemp("large")
    numbers = np.random.default_rng(3).integers(0, 2**62, LARGE_ROWS)
    table = pa.table({f"c{i}": numbers + i for i in range(4)})
    lance.write_dataset(table, path / "large.lance", max_rows_per_file=LARGE_ROWS // 4)
    return path


def until(condition: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


def status(server: RunningServer, dataset: str, **fields: object) -> grpc.StatusCode:
    """Return the status with which a read of the whole scan ends."""
    return call(server.address, "DoGet", ticket(scan_json(dataset, **fields))).code


class Stalled:
    """A client that starts a stream, reads one message and then nothing."""

    def __init__(self, server: RunningServer, dataset: str = "large") -> None:
        # Without probing, gRPC takes little more than what is read; with it, at times the whole stream.
        self._channel = grpc.insecure_channel(server.address, [("grpc.http2.bdp_probe", 0)])
        self._running = self._channel.unary_stream(SERVICE + "DoGet")(ticket(scan_json(dataset)))
        next(self._running)

    def cancel(self) -> None:
        self._running.cancel()
        self._channel.close()

    def rest(self) -> grpc.StatusCode:
        """Read on to the end; the status at the end."""
        try:
            for _ in self._running:
                pass
        except grpc.RpcError as error:
            return error.code()  # type: ignore[no-any-return,attr-defined]
        return self._running.code()  # type: ignore[no-any-return]


@pytest.fixture
def stall() -> Iterator[Callable[[RunningServer], Stalled]]:
    clients: list[Stalled] = []

    def start(server: RunningServer) -> Stalled:
        clients.append(Stalled(server))
        return clients[-1]

    yield start
    for client in clients:
        client.cancel()


def test_many_streams_at_once(server: RunningServer, root: Root) -> None:
    def read(_: int) -> pa.Table:
        with server.client() as client:
            return client.do_get(flight.Ticket(scan_json("trips", columns=["id", "city"]))).read_all()

    expected = root.trips.select(["id", "city"]).to_pylist()
    with ThreadPoolExecutor(16) as pool:
        assert all(table.to_pylist() == expected for table in pool.map(read, range(64)))


def test_one_stream_more_than_allowed_is_refused(
    large: Path, serve: StartServer, stall: Callable[[RunningServer], Stalled]
) -> None:
    """T6: at once, as retryable, and only until one of the others ends."""
    server = serve(large, "--max-streams", "2")
    first, second = stall(server), stall(server)
    # The two streams go on when they are read, which is later: a call that waited for them would time out.
    outcome = call(server.address, "DoGet", ticket(scan_json("large")), timeout=60)
    assert outcome.code is grpc.StatusCode.UNAVAILABLE
    assert (outcome.report["code"], outcome.report["name"]) == (21, "OverloadedError")
    assert outcome.report["retryable"] is True
    # Actions that may read all rows count as streams.
    bodies = {"count_rows": {"dataset": "large"}, "validate": {"dataset": "large"}}
    for name, body in {**bodies, "explain_scan": {"scan": {"dataset": "large"}}}.items():
        outcome = call(server.address, "DoAction", action(name, json.dumps(body).encode()))
        assert outcome.report["name"] == "OverloadedError"
    # Calls that are no streams are still answered.
    assert call(server.address, "ListFlights", b"").code is grpc.StatusCode.OK
    described = call(server.address, "DoAction", action("describe", b'{"dataset": "large"}'))
    assert described.code is grpc.StatusCode.OK
    first.cancel()
    assert until(lambda: status(server, "large", limit=1) is grpc.StatusCode.OK)
    assert second.rest() is grpc.StatusCode.OK


def test_slots_come_back_however_a_stream_ends(root: Root, serve: StartServer) -> None:
    """T30: errors before and inside the stream, cancelled and finished ones: none keeps its slot."""
    server = serve(root.path, "--max-streams", "1")
    for _ in range(20):
        assert status(server, "bad/pages") is grpc.StatusCode.INTERNAL
        assert status(server, "missing") is grpc.StatusCode.NOT_FOUND
        call(server.address, "DoGet", ticket(scan_json("trips")), timeout=0.001)
        assert until(lambda: status(server, "trips") is grpc.StatusCode.OK)


def test_a_client_that_leaves_stops_its_decoding(large: Path, serve: StartServer) -> None:
    """T30: the files are closed and the processor is quiet soon after the client is gone."""
    server = serve(large)
    for _ in range(30):
        client = Stalled(server)
        client.cancel()
    usage = server.statistics()

    def is_quiet() -> bool:
        before = usage.cpu_times()
        time.sleep(1)
        after = usage.cpu_times()
        return (after.user + after.system) - (before.user + before.system) < 0.3

    assert until(is_quiet)
    assert call(server.address, "DoGet", ticket(scan_json("large", limit=5))).code is grpc.StatusCode.OK
    assert until(lambda: usage.num_threads() < 60), usage.num_threads()


@pytest.mark.parametrize("read", ["count_rows", "explain_scan", "scan", "aggregate"])
def test_reads_without_a_batch_end_with_their_client(read: str, large: Path, serve: StartServer) -> None:
    """T30: no row is found, so the server learns from no failed send that the client has left."""
    slow = "levenshtein(repeat(cast(c0 as string), 4), repeat(cast(c1 as string), 4)) < 0"
    asked = {"dataset": "large", "filter": slow}
    methods = {
        "count_rows": ("DoAction", action("count_rows", json.dumps(asked).encode())),
        "explain_scan": (
            "DoAction",
            action("explain_scan", json.dumps({"scan": asked, "analyze": True}).encode()),
        ),
        "scan": ("DoGet", ticket(json.dumps({"scan": asked}).encode())),
        "aggregate": (
            "DoGet",
            ticket(json.dumps({"aggregate": asked | {"aggregates": {"n": "sum(c0)"}}}).encode()),
        ),
    }
    server = serve(large)
    usage = server.statistics()
    assert call(server.address, *methods[read], timeout=1).code is grpc.StatusCode.DEADLINE_EXCEEDED
    left_at = sum(usage.cpu_times()[:2])

    def is_quiet() -> bool:
        before = sum(usage.cpu_times()[:2])
        time.sleep(0.5)
        return sum(usage.cpu_times()[:2]) - before < 0.1

    assert until(is_quiet)
    assert sum(usage.cpu_times()[:2]) - left_at < 10  # the whole read takes half a minute
    assert call(server.address, "DoGet", ticket(scan_json("large", limit=5))).code is grpc.StatusCode.OK


@pytest.mark.parametrize("asked", [{"scan": {}}, {"take": {"offsets": [0, 0]}}], ids=["scan", "take"])
def test_a_row_that_no_message_can_carry(asked: dict[str, Any], tmp_path: Path, serve: StartServer) -> None:
    """T29: one text in 4000 columns would take 4 GB, and then not be sent."""
    lance_core.write_dataset(pa.table({"t": ["x" * (1 << 20)]}), tmp_path / "wide.lance")
    ((kind, fields),) = asked.items()
    command = {kind: {"dataset": "wide", "columns": {f"c{i}": "t" for i in range(4000)}, **fields}}
    server = serve(tmp_path)
    outcome = call(server.address, "DoGet", ticket(json.dumps(command).encode()))
    assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT, outcome.details
    assert "fewer columns" in outcome.details


def test_slow_clients_cost_little_memory_and_harm_nobody(
    large: Path, serve: StartServer, stall: Callable[[RunningServer], Stalled]
) -> None:
    """T29, T33: 20 stalled streams stay within the limit and a window each; another reads at full speed."""
    limit = 32 << 20
    server = serve(large, "--memory-limit", str(limit))
    with server.client() as client:
        assert client.do_get(flight.Ticket(scan_json("large", limit=1000))).read_all().num_rows == 1000
    idle = server.anonymous_bytes()
    stalled = [stall(server) for _ in range(20)]
    time.sleep(2)
    grown = server.anonymous_bytes() - idle
    print(f"20 stalled streams: {grown / 2**20:.0f} MiB above idle, limit {limit >> 20} MiB")
    with server.client() as client:
        began = time.perf_counter()
        assert (
            sum(chunk.data.num_rows for chunk in client.do_get(flight.Ticket(scan_json("large"))))
            == LARGE_ROWS
        )
        print(f"one full read beside them: {time.perf_counter() - began:.2f} s")
    # Each stalled stream has one window of decoded rows (8 MiB) and what gRPC has taken over.
    assert grown < limit + 20 * (12 << 20)
    assert stalled[0].rest() is grpc.StatusCode.OK


def test_cancelling_before_the_first_batch(large: Path, serve: StartServer) -> None:
    """T30: deadlines that pass while the server plans or decodes leave nothing running."""
    server = serve(large)
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(
            pool.map(
                lambda wait: call(server.address, "DoGet", ticket(scan_json("large")), timeout=wait).code,
                [0.001 * (1 + i % 20) for i in range(200)],
            )
        )
    assert grpc.StatusCode.DEADLINE_EXCEEDED in outcomes
    assert until(lambda: server.statistics().num_threads() < 60)
    assert call(server.address, "DoAction", b"\x0a\x06health").code is grpc.StatusCode.OK


def test_planning_does_not_wait_for_streams(
    large: Path, serve: StartServer, stall: Callable[[RunningServer], Stalled]
) -> None:
    """T32: while two streams run as fast as they can, small calls stay quick: the streams get few rows
    during a call.
    """
    server = serve(large)
    done = threading.Event()
    num_rows = [0, 0]

    def read_on(number: int) -> None:
        with server.client() as client:
            while not done.is_set():
                for chunk in client.do_get(flight.Ticket(scan_json("large"))):
                    num_rows[number] += chunk.data.num_rows

    readers = [threading.Thread(target=read_on, args=(number,)) for number in range(2)]
    for reader in readers:
        reader.start()
    meanwhile = []
    try:
        wait_until(lambda: min(num_rows) > 0)
        with server.client() as client:
            for _ in range(50):
                before = sum(num_rows)
                (answer,) = client.do_action(flight.Action("health", b""))
                meanwhile.append(sum(num_rows) - before)
                assert json.loads(answer.body.to_pybytes())["status"] == "ok"
    finally:
        done.set()
        for reader in readers:
            reader.join()
    meanwhile.sort()
    shares = [100 * meanwhile[place] / LARGE_ROWS for place in (25, 45, 49)]
    print("during a call a stream gets {:.1f}, {:.1f} and at most {:.1f} % of its rows".format(*shares))
    assert meanwhile[45] < LARGE_ROWS


def test_equal_scans_get_even_shares_and_lookups_go_on(large: Path, serve: StartServer) -> None:
    """T32: 4 equal scans have more than half of their rows each when the first of them ends. Rows are looked
    up meanwhile, many of them for each 16 MiB that a scan gets.
    """
    server = serve(large)
    progress = [0] * 4
    start, first_ended = threading.Barrier(5), threading.Event()
    at_the_end: list[int] = []

    def scan(number: int) -> None:
        with server.client() as client:
            start.wait(60)
            for chunk in client.do_get(flight.Ticket(scan_json("large"))):
                progress[number] += chunk.data.num_rows
            if not first_ended.is_set():
                at_the_end[:] = progress
            first_ended.set()

    scans = [threading.Thread(target=scan, args=(number,)) for number in range(4)]
    for each in scans:
        each.start()
    lookups = 0
    with server.client() as client:
        take = flight.Ticket(b'{"take": {"dataset": "large", "offsets": [3999999]}}')
        client.do_get(take).read_all()
        start.wait(60)
        while not first_ended.is_set():
            assert client.do_get(take).read_all().num_rows == 1
            lookups += 1
    for each in scans:
        each.join()
    assert progress == [LARGE_ROWS] * 4
    print(f"rows when the first of {LARGE_ROWS} had ended: {at_the_end}; {lookups} lookups")
    assert 2 * min(at_the_end) > max(at_the_end)
    assert lookups >= 4


def damaged_root(tmp_path: Path) -> np.ndarray:
    """Return a root with a dataset, of whose values a bit is flipped; returns the values as they were."""
    values = np.random.default_rng(1).normal(size=5000)
    lance_core.write_dataset(pa.table({"x": values}), tmp_path / "root" / "t.lance")
    (file,) = (tmp_path / "root" / "t.lance" / "data").iterdir()
    whole = bytearray(file.read_bytes())
    whole[whole.index(values[77].tobytes())] ^= 1
    file.write_bytes(whole)
    return values


@pytest.mark.parametrize("options", [(), ("--verify-checksums",)], ids=["off", "on"])
def test_a_flipped_bit_is_found_where_asked(
    options: tuple[str, ...], tmp_path: Path, serve: StartServer
) -> None:
    """T26: a bit that decodes to another value."""
    values = damaged_root(tmp_path)
    client = serve(tmp_path / "root", *options).client()
    stream = client.do_get(flight.Ticket(b'{"scan": {"dataset": "t"}}'))
    if options:
        with pytest.raises(flight.FlightInternalError, match="checksum"):
            stream.read_all()
    else:
        assert stream.read_all()["x"].to_pylist() != values.tolist()


def test_settings_reach_every_read(tmp_path: Path, serve: StartServer) -> None:
    """T26: scans, takes, look-ups, counts and plans that are run follow the settings that `health` shows."""
    damaged_root(tmp_path)
    server = serve(tmp_path / "root", "--verify-checksums", "--memory-limit", "128MiB")
    client = server.client()

    def act(name: str, body: dict[str, object]) -> None:
        list(client.do_action(flight.Action(name, json.dumps(body).encode())))

    def look_up() -> None:
        command = json.dumps({"take": {"dataset": "t"}}).encode()
        writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(command))
        with writer:
            writer.begin(pa.schema([("_rowoffset", pa.uint64())]))
            writer.write_batch(pa.record_batch({"_rowoffset": pa.array([77], pa.uint64())}))
            writer.done_writing()
            reader.read_all()

    def get(command: dict[str, object]) -> None:
        client.do_get(flight.Ticket(json.dumps(command))).read_all()

    reads: list[Callable[[], None]] = [
        lambda: get({"scan": {"dataset": "t"}}),
        lambda: get({"scan": {"dataset": "t", "columns": {"y": "x + 1"}, "filter": "x > 1.5"}}),
        lambda: get({"take": {"dataset": "t", "offsets": [77]}}),
        look_up,
        lambda: act("count_rows", {"dataset": "t", "filter": "x > 1.5"}),
        lambda: act("explain_scan", {"scan": {"dataset": "t"}, "analyze": True}),
        lambda: act("delete", {"dataset": "t", "predicate": "x > 1.5"}),
    ]
    for read in reads:
        with pytest.raises(flight.FlightInternalError, match="does not match its checksum"):
            read()
    (answer,) = client.do_action(flight.Action("health", b""))
    shown = json.loads(answer.body.to_pybytes())["reads"]
    assert (shown["verify_checksums"], shown["memory_limit_bytes"]) == (True, 64 << 20)
    assert shown["memory_peak_bytes"] > shown["memory_used_bytes"] == 0
    assert not shown["keeps_statistics"]


def test_a_scan_asks_for_checked_pages(tmp_path: Path, serve: StartServer) -> None:
    """T26: a command has pages checked on a server that does not check, in tickets and in actions, too."""
    values = damaged_root(tmp_path)
    server = serve(tmp_path / "root")
    scan = {"dataset": "t", "verify_checksums": True}
    client = server.client()
    (endpoint,) = client.get_flight_info(
        flight.FlightDescriptor.for_command(json.dumps({"scan": scan}))
    ).endpoints
    for redeemed in (endpoint.ticket, flight.Ticket(json.dumps({"scan": scan}))):
        with pytest.raises(flight.FlightInternalError, match="does not match its checksum"):
            client.do_get(redeemed).read_all()
    with pytest.raises(flight.FlightInternalError, match="does not match its checksum"):
        list(
            client.do_action(
                flight.Action("explain_scan", json.dumps({"scan": scan, "analyze": True}).encode())
            )
        )
    with flight_client.connect(server.uri) as ours:
        dataset = ours.dataset("t")
        assert dataset.to_table()["x"].to_pylist() != values.tolist()
        with pytest.raises(flight_client.LanceError, match="does not match its checksum"):
            dataset.to_table(verify_checksums=True)
        for change in (
            lambda: ours.update("t", {"x": "x + 1"}),
            lambda: ours.delete("t", "x > 1.5"),
        ):
            with pytest.raises(flight_client.LanceError, match="does not match its checksum"):
                change()
        assert ours.dataset("t").version == 1
