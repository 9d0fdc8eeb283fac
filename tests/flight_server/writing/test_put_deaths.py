"""Clients that die during an upload, in every way they can, leave a dataset as it was (T27)."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import lance
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from support.clients.dying_upload import EXITED, upload_and_end, wait_for_reports
from support.clients.http import Scrape
from support.clients.puts import descriptor_of, files_below, finish_message, flight_data, ipc_messages, put
from support.clients.raw_flight import SERVICE, command_descriptor
from support.processes.waiting import wait_until
from support.servers.served import StartServer
from support.servers.server import RunningServer, serving

ROWS = 50_000
TABLE = pa.table({"x": np.arange(ROWS), "y": np.random.default_rng(1).random(ROWS)})
MODES = ("append", "overwrite", "create", "merge_insert", "replace_columns", "stage")
NUM_BATCHES = 5
FINISH = finish_message(ROWS, NUM_BATCHES)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("deaths")


@pytest.fixture(scope="module")
def server(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(root, tmp_path_factory.mktemp("log") / "server.log", "--http-port", "0") as server:
        with server.client() as client:
            put(client, {"dataset": "t", "mode": "create"}, TABLE)
        yield server


def command_of(mode: str) -> dict[str, Any]:
    """Return a command that writes files of a few rows each, so that some are complete when the client dies.

    The server reports every batch: a client waits until the server has taken all its rows, and dies then.
    """
    if mode == "merge_insert":
        fields = {"dataset": "t", "mode": mode, "on": ["x"], "when_matched": "update_all"}
    elif mode == "replace_columns":
        fields = {"dataset": "t", "mode": mode, "fragment_id": 0}
    elif mode == "stage":
        fields = {"dataset": "t", "stage": True, "max_rows_per_file": 15_000}
    else:
        name = "new" if mode == "create" else "t"
        fields = {"dataset": name, "mode": mode, "max_rows_per_file": 15_000}
    return {**fields, "report_bytes": 1}


def in_a_process(server: RunningServer, mode: str, end: str) -> int:
    return upload_and_end(server.uri, command_of(mode), TABLE, NUM_BATCHES, end)


def killed(server: RunningServer, mode: str) -> None:
    assert in_a_process(server, mode, "kill") == -signal.SIGKILL


def exits(server: RunningServer, mode: str) -> None:
    assert in_a_process(server, mode, "exit") == EXITED


def raises(server: RunningServer, mode: str) -> None:
    """For the server this is an orderly end of the stream."""
    with server.client() as client:
        writer, _ = client.do_put(descriptor_of(command_of(mode)), TABLE.schema)
        with pytest.raises(pa.ArrowInvalid, match="without the message"):
            _raise_inside(writer)


def _raise_inside(writer: flight.FlightStreamWriter) -> None:
    with contextlib.suppress(ZeroDivisionError), writer:
        writer.write_table(TABLE, max_chunksize=10_000)
        raise ZeroDivisionError


def deadline(server: RunningServer, mode: str) -> None:
    with server.client() as client:
        list(client.do_action("health"))  # the time of the upload is not that of the connection
        options = flight.FlightCallOptions(timeout=2)
        writer, _ = client.do_put(descriptor_of(command_of(mode)), TABLE.schema, options=options)
        with contextlib.suppress(pa.ArrowException):  # a busy machine may not send all in time
            writer.write_table(TABLE, max_chunksize=10_000)
        time.sleep(2.1)
        with pytest.raises(flight.FlightTimedOutError):
            writer.close()


def messages(mode: str) -> list[bytes]:
    command = json.dumps({"write": command_of(mode)}).encode()
    (schema, _), *batches = ipc_messages(TABLE, ROWS // NUM_BATCHES)
    first = flight_data(schema, descriptor=command_descriptor(command))
    return [first, *(flight_data(header, body) for header, body in batches)]


Answers = Iterator[bytes]


def cancel_after(
    server: RunningServer, requests: list[bytes], has_begun: Callable[[Answers], object]
) -> None:
    """Send messages over plain gRPC, leave the stream open, and cancel the call when the server is ready."""
    sent = threading.Event()
    done = threading.Event()

    def stream() -> Iterator[bytes]:
        yield from requests
        sent.set()
        done.wait(120)

    with grpc.insecure_channel(server.address) as channel:
        running = channel.stream_stream(SERVICE + "DoPut")(stream())
        assert sent.wait(60)
        has_begun(running)
        running.cancel()
        done.set()


def has_all_rows(answers: Answers) -> None:
    assert any(b'"rows": 50000' in answer for answer in answers)


def cancels(server: RunningServer, mode: str) -> None:
    cancel_after(server, messages(mode), has_all_rows)


def cancels_after_the_finish(server: RunningServer, mode: str) -> None:
    """The finish message alone commits nothing: the stream has to end after it."""

    def has_finish(answers: Answers) -> None:
        has_all_rows(answers)
        time.sleep(0.3)  # nothing tells that the server has read the last message

    cancel_after(server, [*messages(mode), flight_data(metadata=FINISH)], has_finish)


def says_nothing(server: RunningServer, mode: str) -> None:
    """Only the descriptor came, without a schema."""

    def is_running(_: Answers) -> None:
        wait_until(lambda: Scrape(server).value("running", kind="uploads") == 1)

    command = json.dumps({"write": command_of(mode)}).encode()
    cancel_after(server, [flight_data(descriptor=command_descriptor(command))], is_running)


def loses_the_connection(server: RunningServer, mode: str) -> None:
    """A cable is pulled: somebody between client and server drops both connections without a word."""
    with Forwarder(server.address) as forwarder:
        client = flight.connect(f"grpc://{forwarder.address}")
        writer, reports = client.do_put(descriptor_of(command_of(mode)), TABLE.schema)
        writer.write_table(TABLE, max_chunksize=10_000)
        wait_for_reports(reports, ROWS)
        forwarder.drop()
        with pytest.raises(flight.FlightUnavailableError):
            writer.close()


class Forwarder:
    """One TCP connection passed on in both directions until it is dropped."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._ends: list[socket.socket] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Forwarder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()
        self._listener.close()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._ends += [client, server]
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)

    def drop(self) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._ends.clear()


def wait_for_failures(server: RunningServer, count: int) -> None:
    """Until the server has given up so many uploads."""
    wait_until(
        lambda: server.log.count("refused rpc=DoPut") >= count,
        "the server has given up the upload of a client that is gone",
    )


DEATHS = [
    killed,
    exits,
    raises,
    deadline,
    cancels,
    cancels_after_the_finish,
    says_nothing,
    loses_the_connection,
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("die", DEATHS, ids=lambda die: die.__name__)
def test_a_client_that_dies_leaves_nothing(
    server: RunningServer, root: Path, die: Callable[[RunningServer, str], None], mode: str
) -> None:
    """T27"""
    before = files_below(root)
    failed = server.log.count("refused rpc=DoPut")
    die(server, mode)
    wait_for_failures(server, failed + 1)
    assert files_below(root) == before
    dataset = lance.dataset(str(root / "t.lance"))
    assert (dataset.version, dataset.count_rows()) == (1, ROWS)


def test_the_messages_are_good_until_the_client_dies(serve: StartServer, tmp_path: Path) -> None:
    """Otherwise the deaths above would prove nothing.

    The server is another one: deaths may come after this test, where processes take tests from each other.
    """
    server = serve(tmp_path)
    with grpc.insecure_channel(server.address) as channel:
        requests = [*messages("create"), flight_data(metadata=FINISH)]
        answers = list(channel.stream_stream(SERVICE + "DoPut")(iter(requests)))
    assert b'"rows": 50000' in answers[-1]
    assert lance.dataset(str(tmp_path / "new.lance")).to_table().equals(TABLE)
    assert len(lance.dataset(str(tmp_path / "new.lance")).get_fragments()) == 4
    with server.client() as client:
        put(client, "new", TABLE)


def test_deaths_where_unfinished_appends_are_allowed(serve: StartServer, tmp_path: Path) -> None:
    """T27: a connection that breaks is told from an end, so that most deaths still leave nothing."""
    served = tmp_path / "served"
    served.mkdir()
    server = serve(served, "--allow-unfinished-append")
    with server.client() as client:
        put(client, {"dataset": "t", "mode": "create"}, TABLE)
    before = files_below(served)
    for number, die in enumerate((killed, exits, deadline, cancels, loses_the_connection)):
        die(server, "append")
        wait_for_failures(server, number + 1)
        assert files_below(served) == before, die.__name__
