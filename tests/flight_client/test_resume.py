"""Streams that break go on at the next row: at the same server when it is back, or at another one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import flight_client
from support.processes.forked import run_script
from support.servers.network import reserved_port
from support.servers.served import StartServer

NUM_ROWS = 160_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of some 40 batches in two fragments, which no test changes."""
    root = tmp_path_factory.mktemp("root")
    text = pa.array([f"{number:0>240}" for number in range(1000)]).take(
        pa.array(range(NUM_ROWS)).cast("int64").to_numpy() % 1000
    )
    table = pa.table({"n": pa.array(range(NUM_ROWS)), "text": text})
    lance.write_dataset(table, root / "t.lance", max_rows_per_file=NUM_ROWS // 2)
    return root


def rest_of(batches: Iterator[pa.RecordBatch], before: list[pa.RecordBatch]) -> list[int]:
    return pa.Table.from_batches([*before, *batches])["n"].to_pylist()


@pytest.mark.parametrize("parallel", [pytest.param(1, marks=pytest.mark.long), 3])
def test_another_server_goes_on(folder: Path, serve: StartServer, tmp_path: Path, parallel: int) -> None:
    """A server is killed in the middle of its streams; the other one redeems the tickets."""
    key = tmp_path / "key"
    key.write_text("0" * 64)
    first, second = (serve(folder, "--signing-key-file", str(key)) for _ in range(2))
    client = flight_client.connect(
        [first.uri, second.uri], parallel=parallel, max_read_bytes=4 << 20, attempts=4
    )
    batches = client.dataset("t").to_batches()
    before = [next(batches) for _ in range(5)]
    first.kill()
    assert rest_of(batches, before) == list(range(NUM_ROWS))
    assert client.dataset("t").count_rows("n < 10") == 10, "plans are made by the server that is left"


def test_the_same_server_is_back(folder: Path, serve: StartServer, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("0" * 64)
    with reserved_port() as port:
        options = ("--signing-key-file", str(key), "--port", str(port))
        server = serve(folder, *options)
        dataset = flight_client.connect(server.uri, parallel=1, attempts=6).dataset("t")
        batches = dataset.to_batches()
        before = [next(batches) for _ in range(3)]
        server.kill()
        serve(folder, *options)
        assert rest_of(batches, before) == list(range(NUM_ROWS))


def test_another_server_goes_on_with_a_lookup(folder: Path, serve: StartServer) -> None:
    """A lookup whose server is killed opens its stream at the other one, and stays there."""
    first, second = serve(folder), serve(folder)
    dataset = flight_client.connect([first.uri, second.uri], attempts=4).dataset("t")
    with dataset.lookup(["n"]) as lookup:
        assert lookup.take([3, 1])["n"].to_pylist() == [3, 1]
        first.kill()
        for key in (7, 2):
            assert lookup.take([key, 5])["n"].to_pylist() == [key, 5]
    assert dataset.take([4], columns=["n"])["n"].to_pylist() == [4]


def test_nobody_is_left(folder: Path, serve: StartServer) -> None:
    server = serve(folder)
    dataset = flight_client.connect(server.uri, attempts=2).dataset("t")
    batches = dataset.to_batches()
    next(batches)
    server.kill()
    with pytest.raises(flight_client.UnavailableError) as caught:
        list(batches)
    assert caught.value.retryable
    with pytest.raises(flight_client.UnavailableError):
        flight_client.connect(server.uri, attempts=2).datasets()


def test_a_stopped_server_holds_nobody_up(folder: Path, serve: StartServer) -> None:
    """Closing the iterator does not wait for a server that no longer answers."""
    server = serve(folder)
    dataset = flight_client.connect(server.uri).dataset("t")
    batches = dataset.to_batches()
    next(batches)
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        batches.close()  # type: ignore[attr-defined]
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


FORKED = """if True:
    import os, pickle, sys
    import flight_client

    client = flight_client.connect(sys.argv[1])
    dataset = client.dataset("t")
    batches = dataset.to_batches(columns=["n"], batch_size=1)
    first = next(batches)
    if sys.argv[2] == "closed":
        client.close()

    def connect():
        return flight_client.connect(sys.argv[1]).datasets()

    def close():
        client.close()
        return client.datasets()

    calls = [
        lambda: next(batches),
        connect,
        close,
        client.datasets,
        lambda: dataset.count_rows("n < 7"),
        dataset.to_table,
        lambda: dataset.take([1]),
        dataset.lookup,
        lambda: client.write("t", dataset.schema.empty_table()),
        pickle.loads(pickle.dumps(dataset)).to_table,
    ]
    if os.fork() == 0:
        for number, call in enumerate(calls):
            try:
                call()
            except flight_client.UnsupportedFeatureError as error:
                assert "gRPC does not survive a fork" in str(error), error
            else:
                os._exit(100 + number)
        os._exit(7)
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.parametrize("state", ["open", "closed"])
def test_a_fork_is_refused(folder: Path, serve: StartServer, tmp_path: Path, state: str) -> None:
    """gRPC hangs in a process whose parent had connected, whatever client and server; each call says so."""
    assert run_script(FORKED, serve(folder).uri, state, log=tmp_path / "log") == 7


HELD_LOCK = """if True:
    import gc, os, sys, threading
    import flight_client
    from flight_client.network.endpoints import ParallelReader

    dataset = flight_client.connect(sys.argv[1]).dataset("t")
    batches = dataset.to_batches(columns=["n"], batch_size=1)
    next(batches)
    (reader,) = [each for each in gc.get_objects() if isinstance(each, ParallelReader)]
    holding = threading.Thread(target=reader._changed.acquire)
    holding.start()
    holding.join()
    if sys.argv[2] == "exit":
        sys.exit(7)
    if os.fork() == 0:
        if sys.argv[2] == "read":
            try:
                next(batches)
            except flight_client.UnsupportedFeatureError:
                os._exit(7)
        batches.close()
        os._exit(7)
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.parametrize("call", ["read", "close"])
def test_a_fork_does_not_wait_for_a_thread_of_its_parent(
    folder: Path, serve: StartServer, tmp_path: Path, call: str
) -> None:
    """A reader thread holds the lock of the batches while the process forks; the child has no such thread."""
    assert run_script(HELD_LOCK, serve(folder).uri, call, log=tmp_path / "log") == 7


OPEN_LOOKUP = """if True:
    import os, sys, threading
    import flight_client

    lookup = flight_client.connect(sys.argv[1]).dataset("t").lookup(["n"])
    lookup.take([1])
    if sys.argv[2] == "held":
        holding = threading.Thread(target=lookup._lock.acquire)
        holding.start()
        holding.join()
    if os.fork() == 0:
        try:
            with lookup:
                lookup.take([1])
        except flight_client.UnsupportedFeatureError:
            os._exit(7)
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.parametrize("state", ["idle", "held"])
def test_a_fork_leaves_a_lookup_alone(folder: Path, serve: StartServer, tmp_path: Path, state: str) -> None:
    """The end of the stream would wait for ever for gRPC, or for a thread of the parent that uses it."""
    assert run_script(OPEN_LOOKUP, serve(folder).uri, state, log=tmp_path / "log") == 7


def test_a_process_ends_with_a_stream_that_is_not_read_whole(folder: Path, serve: StartServer) -> None:
    """A reader thread holds the lock of the batches when the end of the process stops it."""
    command = [sys.executable, "-c", HELD_LOCK, serve(folder).uri, "exit"]
    assert subprocess.run(command, timeout=60, check=False).returncode == 7


def test_forked_processes_connect_by_themselves(folder: Path, serve: StartServer, tmp_path: Path) -> None:
    """A client that the parent has prepared and not used is good for its children."""
    script = """if True:
        import os, sys
        import flight_client

        client = flight_client.connect(sys.argv[1])
        for _ in range(2):
            if os.fork() == 0:
                os._exit(client.dataset("t").count_rows("n < 7"))
        statuses = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)]
        sys.exit(0 if statuses == [7, 7] and client.dataset("t").count_rows() > 7 else 1)
    """
    assert run_script(script, serve(folder).uri, log=tmp_path / "log") == 0
