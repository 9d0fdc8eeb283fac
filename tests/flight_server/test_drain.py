"""T34: start and end of a server process."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import lance
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from support.clients.command_line import run_verb
from support.clients.raw_flight import SERVICE, call, path_descriptor, scan_json, ticket
from support.processes.waiting import wait_until
from support.servers.served import Root, StartServer
from support.servers.server import RunningServer

SIGNALS = [signal.SIGTERM, signal.SIGINT]
AT_ONCE_S = 15.0
"""A server that waits out its grace takes twice as long."""
GRACE = ("--drain-grace", str(2 * AT_ONCE_S))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large")
    numbers = np.random.default_rng(3).integers(0, 2**62, 4_000_000)
    lance.write_dataset(pa.table({"a": numbers, "b": numbers}), path / "large.lance")
    return path


class Reader:
    """A raw DoGet that reads at the test's pace."""

    def __init__(self, server: RunningServer) -> None:
        # Without probing, gRPC takes little more than what is read; with it, at times the whole stream.
        self._channel = grpc.insecure_channel(server.address, [("grpc.http2.bdp_probe", 0)])
        self._running = self._channel.unary_stream(SERVICE + "DoGet")(ticket(scan_json("large")))
        next(self._running)

    def finish(self, pause: float = 0.0) -> grpc.StatusCode:
        """Read to the end, with a pause in seconds after each message, and return the status."""
        try:
            for _ in self._running:
                time.sleep(pause)
        except grpc.RpcError as error:
            return error.code()  # type: ignore[no-any-return,attr-defined]
        return self._running.code()  # type: ignore[no-any-return]

    def trailers(self) -> dict[str, str]:
        return {item.key: item.value for item in self._running.trailing_metadata()}

    def close(self) -> None:
        self._running.cancel()
        self._channel.close()


@pytest.fixture
def reader() -> Iterator[Callable[[RunningServer], Reader]]:
    readers: list[Reader] = []

    def start(server: RunningServer) -> Reader:
        readers.append(Reader(server))
        return readers[-1]

    yield start
    for each in readers:
        each.close()


@pytest.mark.parametrize("number", SIGNALS)
def test_an_idle_server_stops_at_once(root: Root, serve: StartServer, number: int) -> None:
    server = serve(root.path, *GRACE)
    assert call(server.address, "GetFlightInfo", path_descriptor("trips")).code is grpc.StatusCode.OK
    began = time.perf_counter()
    assert server.stop(number) == 0
    assert time.perf_counter() - began < AT_ONCE_S


_SLOW_START = """
import sys, time
from flight_server import process
from flight_server.settings import Settings

class Slow(process.Service):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        print("starting", flush=True)
        time.sleep(1)

process.Service = Slow
process.run_server(Settings(root=sys.argv[1], port=0))
"""


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_before_the_server_is_ready(root: Root, number: int) -> None:
    """NumPy's threads, which were made before, do not block it: it killed the process."""
    with subprocess.Popen(
        [sys.executable, "-c", _SLOW_START, str(root.path)], stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"starting\n"
        server.send_signal(number)
        assert server.wait(60) == 0


def test_the_ready_line_is_the_first_and_only_line_on_stdout(root: Root, serve: StartServer) -> None:
    """A server that a user has started, and ends by Ctrl-C."""
    server = serve(root.path, new_interpreter=True)
    call(server.address, "GetFlightInfo", path_descriptor("missing"))
    assert server.uri == f"grpc://127.0.0.1:{server.address.split(':')[1]}"
    server.process.send_signal(signal.SIGINT)
    assert server.process.stdout is not None
    assert server.process.stdout.read() == ""
    assert server.wait() == 0


def test_running_streams_end_in_peace(
    large: Path, serve: StartServer, reader: Callable[[RunningServer], Reader]
) -> None:
    """New calls are refused as retryable while a running stream is read to its end; then the process ends."""
    server = serve(large)
    running = reader(server)
    server.process.send_signal(signal.SIGTERM)
    refused = _refused(server)
    assert refused["name"] == "DrainingError"
    assert (refused["code"], refused["retryable"]) == (17, True)
    assert server.process.poll() is None
    assert running.finish() is grpc.StatusCode.OK
    assert server.wait() == 0


def test_a_stalled_client_does_not_keep_the_server(
    large: Path, serve: StartServer, reader: Callable[[RunningServer], Reader]
) -> None:
    server = serve(large, "--drain-grace", "0.5")
    stalled = [reader(server) for _ in range(10)]
    began = time.perf_counter()
    assert server.stop() == 0
    took = time.perf_counter() - began
    print(f"10 stalled clients, grace 0.5 s: gone after {took:.1f} s")
    assert 0.5 <= took < AT_ONCE_S
    assert all(client.finish() is not grpc.StatusCode.OK for client in stalled)


def test_an_idle_exchange_does_not_keep_the_server(root: Root, serve: StartServer) -> None:
    """The client that asks again is told to ask another server, or finds the connection closed."""
    server = serve(root.path, *GRACE)
    keys = pa.record_batch({"_rowoffset": pa.array([1], pa.uint64())})
    with server.client() as client:
        take = flight.FlightDescriptor.for_command(b'{"take": {"dataset": "trips"}}')
        writer, answers = client.do_exchange(take)
        writer.begin(keys.schema)
        writer.write_batch(keys)
        assert answers.read_chunk().data.num_rows == 1
        began = time.perf_counter()
        assert server.stop() == 0
        assert time.perf_counter() - began < AT_ONCE_S
        with contextlib.suppress(flight.FlightUnavailableError):
            writer.write_batch(keys)
        with pytest.raises(flight.FlightUnavailableError):
            answers.read_chunk()


def test_streams_hear_when_the_grace_is_over(
    large: Path, serve: StartServer, reader: Callable[[RunningServer], Reader]
) -> None:
    """A client that reads, but too slowly, gets UNAVAILABLE between two batches, not a broken connection."""
    server = serve(
        large,
        *("--drain-grace", "0.3"),
        constants={"flight_server.process._LAST_WORDS_SECONDS": 30.0},  # a busy client reads late
    )
    slow = reader(server)
    server.process.send_signal(signal.SIGTERM)
    wait_until(lambda: " stopping " in server.log)
    assert slow.finish(pause=0.25) is grpc.StatusCode.UNAVAILABLE
    assert "DrainingError" in slow.trailers().get("x-lance-error", "")
    assert server.wait() == 0


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_ends_it_at_once(
    large: Path, serve: StartServer, reader: Callable[[RunningServer], Reader], number: int
) -> None:
    server = serve(large, *GRACE)
    reader(server)
    server.process.send_signal(signal.SIGTERM)
    _refused(server)
    began = time.perf_counter()
    assert server.stop(number) == 128 + number
    assert time.perf_counter() - began < AT_ONCE_S


def test_the_server_stops_while_calls_rain_in(root: Root, serve: StartServer) -> None:
    server = serve(root.path, "--drain-grace", "5")
    stop = threading.Event()

    def rain() -> None:
        while not stop.is_set():
            call(server.address, "DoGet", ticket(scan_json("trips")), timeout=5)

    # grpcio was once seen to keep a call to the ended server past its deadline: such a caller is left behind.
    callers = [threading.Thread(target=rain, daemon=True) for _ in range(4)]
    for caller in callers:
        caller.start()
    time.sleep(0.5)
    try:
        assert server.stop() == 0
    finally:
        stop.set()
        for caller in callers:
            caller.join(timeout=10)


@pytest.mark.parametrize(
    "options",
    [["--port", "99999"], ["--memory-limit", "lots"], ["--advertise", "nowhere"], ["--no-such-option"]],
)
def test_wrong_usage_is_exit_code_2(root: Root, options: list[str]) -> None:
    done = run_verb("serve", root.path, *options, code=2)
    assert done.stdout == ""
    assert options[-1] in done.stderr


def test_a_process_that_was_used_wrongly_ends_without_a_uri(root: Root, serve: StartServer) -> None:
    with pytest.raises(AssertionError, match="no URI"):
        serve(root.path, "--port", "99999")


def _refused(server: RunningServer) -> dict[str, object]:
    """Return the report of a call that a draining server refuses, once it does."""
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        outcome = call(server.address, "GetFlightInfo", path_descriptor("large"))
        if outcome.code is grpc.StatusCode.UNAVAILABLE and "x-lance-error" in outcome.trailers:
            return outcome.report
        time.sleep(0.01)
    raise AssertionError(f"not refused: {outcome}")
