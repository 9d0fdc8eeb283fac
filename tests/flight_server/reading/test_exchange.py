"""DoExchange: rows for batches of keys, as the reference takes them."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from support.clients.puts import put
from support.oracles.comparison import assert_tables_equal
from support.processes.waiting import wait_until
from support.runs.each_case import each_case
from support.servers.served import Root, StartServer
from support.servers.server import RunningServer

Ask = Callable[[pa.RecordBatch], pa.RecordBatch]


@contextlib.contextmanager
def exchange(client: flight.FlightClient, keys: pa.Schema, **take: Any) -> Iterator[Ask]:
    """A function that sends one batch of keys and returns the rows that come back."""
    descriptor = flight.FlightDescriptor.for_command(json.dumps({"take": take}))
    writer, reader = client.do_exchange(descriptor)
    with writer:
        writer.begin(keys)

        def ask(batch: pa.RecordBatch) -> pa.RecordBatch:
            writer.write_batch(batch)
            return reader.read_chunk().data

        yield ask
        writer.done_writing()
        assert list(reader) == []


def keys_of(kind: str, values: Any, key_type: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.record_batch({kind: pa.array(values, key_type or pa.uint64())})


@pytest.fixture
def client(server: RunningServer) -> Iterator[flight.FlightClient]:
    with server.client() as client:
        yield client


@pytest.mark.parametrize("kind", ["_rowid", "_rowaddr", "_rowoffset"])
def test_rows_in_the_order_of_the_keys(client: flight.FlightClient, root: Root, kind: str) -> None:
    """Batches of all sizes, each answered by one batch; the reference says what is in them."""
    dataset = lance.dataset(root.path / "trips.lance")
    everything = dataset.to_table(with_row_id=True, with_row_address=True)
    keys = np.arange(everything.num_rows) if kind == "_rowoffset" else everything[kind].to_numpy()
    source = np.random.default_rng(5)
    with exchange(client, keys_of(kind, []).schema, dataset="trips") as ask:
        for size in (1, 0, 20, 7, 2000, 300, 2700, 1):
            chosen = source.integers(0, len(keys), size)
            rows = ask(keys_of(kind, keys[chosen]))
            assert_tables_equal(root.trips.take(chosen), pa.Table.from_batches([rows]))


def test_columns_and_expressions(client: flight.FlightClient, root: Root) -> None:
    keys = keys_of("_rowoffset", [5, 3, 5], pa.int32())
    with exchange(client, keys.schema, dataset="trips", columns=["pickup.zone", "id"]) as ask:
        assert ask(keys).column("id").to_pylist() == root.trips["id"].take([5, 3, 5]).to_pylist()
    with exchange(client, keys.schema, dataset="trips", columns={"twice": "id * 2"}) as ask:
        twice = [2 * number for number in root.trips["id"].take([5, 3, 5]).to_pylist()]
        assert ask(keys).to_pydict() == {"twice": twice}
    with exchange(client, keys.schema, dataset="trips", columns=[]) as ask:
        assert [ask(keys).num_rows, ask(keys).num_rows] == [3, 3]


def test_deleted_rows_are_left_out(client: flight.FlightClient) -> None:
    """Ids ending in 3 were deleted."""
    with exchange(client, keys_of("_rowid", []).schema, dataset="trips", columns=["id"]) as ask:
        assert ask(keys_of("_rowid", [2, 3, 4, 13])).column("id").to_pylist() == [2, 4]
        assert ask(keys_of("_rowid", [3])).num_rows == 0


def test_a_path_means_all_columns(client: flight.FlightClient, root: Root) -> None:
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_path("trips@1"))
    with writer:
        writer.begin(keys_of("_rowoffset", []).schema)
        writer.write_batch(keys_of("_rowoffset", [13, 3]))
        rows = reader.read_chunk().data
    assert_tables_equal(root.trips_before.take([13, 3]), pa.Table.from_batches([rows]))


@each_case(
    ("keys", "message"),
    [
        (pa.record_batch({"id": [1]}), "keys come in one column"),
        (pa.record_batch({"_rowid": [1], "_rowaddr": [1]}), "keys come in one column"),
        (pa.RecordBatch.from_arrays([pa.array([1])] * 2, names=["_rowid"] * 2), "keys come in one column"),
        (pa.record_batch({"_rowid": ["1"]}), "keys are integers"),
        (pa.record_batch({"_rowid": [1.0]}), "keys are integers"),
        (keys_of("_rowid", [1, None]), "must not be null"),
        (keys_of("_rowoffset", [1, -1], pa.int64()), "must not be negative"),
        (keys_of("_rowoffset", [1, 2700]), "row offset is out of range"),
        (keys_of("_rowaddr", [1, 1000]), "row address is out of range"),
        (keys_of("_rowaddr", [99 << 32]), "fragment that does not exist"),
        (keys_of("_rowid", [(1 << 64) - 1]), "fragment that does not exist"),
        (keys_of("_rowoffset", np.zeros((1 << 20) + 1)), "too many keys in one batch"),
    ],
)
def test_bad_keys(client: flight.FlightClient, keys: pa.RecordBatch, message: str) -> None:
    """T31: named in the error; answers before them have come."""
    with pytest.raises(pa.ArrowInvalid, match=message), exchange(client, keys.schema, dataset="trips") as ask:
        ask(keys)


@pytest.mark.parametrize(
    ("take", "error", "message"),
    [
        ({"dataset": "trips", "offsets": [1]}, pa.ArrowInvalid, "come in batches, not as offsets"),
        ({"dataset": "nothing"}, KeyError, "no dataset is named"),
        ({"dataset": "trips", "columns": ["nothing"]}, pa.ArrowInvalid, "nothing"),
        ({"dataset": "trips", "limit": 1}, pa.ArrowInvalid, "unknown field 'limit'"),
    ],
)
def test_bad_commands(
    client: flight.FlightClient, take: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message), exchange(client, keys_of("_rowid", []).schema, **take) as ask:
        ask(keys_of("_rowid", [1]))


def test_a_scan_without_a_search_is_no_exchange(client: flight.FlightClient) -> None:
    with pytest.raises(pa.ArrowInvalid, match="the field nearest is missing"):
        send_keys(client, '{"scan": {"dataset": "trips"}}')
    with pytest.raises(pa.ArrowInvalid, match="a take or a scan command, not aggregate"):
        send_keys(client, '{"aggregate": {"dataset": "trips"}}')


def test_metadata_is_refused(client: flight.FlightClient) -> None:
    with pytest.raises(pa.ArrowInvalid, match="batches only, found a metadata message"):
        send_keys(client, '{"take": {"dataset": "trips"}}', metadata=b"{}")


def send_keys(client: flight.FlightClient, command: str, metadata: bytes | None = None) -> None:
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(command))
    with writer:
        writer.begin(keys_of("_rowid", []).schema)
        if metadata is not None:
            writer.write_metadata(metadata)
        reader.read_chunk()


def test_one_version_for_the_whole_exchange(serve: StartServer, tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    with serve(tmp_path / "served").client() as client:
        put(client, {"dataset": "t", "mode": "create"}, pa.table({"n": [1, 2, 3]}))
        with exchange(client, keys_of("_rowoffset", []).schema, dataset="t") as ask:
            assert ask(keys_of("_rowoffset", [0])).to_pydict() == {"n": [1]}
            put(client, {"dataset": "t", "mode": "overwrite"}, pa.table({"n": [7]}))
            assert ask(keys_of("_rowoffset", [2])).to_pydict() == {"n": [3]}


def test_answers_are_bounded(serve: StartServer, tmp_path: Path) -> None:
    """T31: one answer has as many bytes as one uploaded batch may; the server stays within that."""
    (tmp_path / "served").mkdir()
    server = serve(tmp_path / "served", "--max-batch-bytes", "16MiB")
    with server.client() as client:
        vectors = pa.FixedSizeListArray.from_arrays(np.zeros(1 << 18, np.float32), 1 << 18)
        put(client, {"dataset": "t", "mode": "create"}, pa.table({"v": vectors}))
        before = server.anonymous_bytes()
        with exchange(client, keys_of("_rowoffset", []).schema, dataset="t") as ask:
            assert ask(keys_of("_rowoffset", [0] * 16)).nbytes == 16 << 20
        with (
            pytest.raises(pa.ArrowInvalid, match="too large, send fewer keys"),
            exchange(client, keys_of("_rowoffset", []).schema, dataset="t") as ask,
        ):
            ask(keys_of("_rowoffset", [0] * 100_000))
        assert server.anonymous_bytes() - before < 150 << 20


def test_a_client_that_never_reads(serve: StartServer, root: Root) -> None:
    """T31: the client occupies its slot and little memory until it leaves, and leaving is no error of the
    server.
    """
    server = serve(root.path, "--max-streams", "1")
    take = flight.FlightDescriptor.for_command('{"take": {"dataset": "ns/vectors"}}')
    with server.client() as client, server.client() as stuck:
        options = flight.FlightCallOptions(timeout=3)
        writer, _ = stuck.do_exchange(take, options)
        writer.begin(keys_of("_rowoffset", []).schema)
        before = server.anonymous_bytes()
        with pytest.raises(pa.ArrowException):
            write_for_ever(writer, keys_of("_rowoffset", range(1000)))
        assert server.anonymous_bytes() - before < 200 << 20
        with contextlib.suppress(pa.ArrowException):
            writer.close()
        deadline = time.monotonic() + 60
        while True:
            try:
                with exchange(client, keys_of("_rowid", []).schema, dataset="trips") as ask:
                    assert ask(keys_of("_rowid", [1])).num_rows == 1
                break
            except flight.FlightUnavailableError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
    assert "Traceback" not in server.log


def test_an_open_exchange_keeps_nobody_from_looking_up_rows(serve: StartServer, root: Root) -> None:
    """T6: idle exchanges count among themselves only, and one that ends makes room for another."""
    server = serve(root.path, "--max-streams", "2")
    take = flight.Ticket(b'{"take": {"dataset": "trips", "offsets": [1, 2]}}')
    with server.client() as client, contextlib.ExitStack() as stack:
        keys = keys_of("_rowoffset", [])
        asks = [
            stack.enter_context(exchange(client, keys.schema, dataset="trips", columns=["id"]))
            for _ in range(2)
        ]
        for ask in asks:
            assert ask(keys_of("_rowoffset", [1, 2])).num_rows == 2
        wait_until(lambda: is_read(client, take))  # an answer arrives before its slot is free
        assert client.do_get(take).read_all().num_rows == 2
        with (
            pytest.raises(flight.FlightUnavailableError, match="2 exchanges are running"),
            exchange(client, keys.schema, dataset="trips") as more,
        ):
            more(keys)
        stack.close()
        wait_until(lambda: is_answered(client))


def is_read(client: flight.FlightClient, ticket: flight.Ticket) -> bool:
    try:
        return client.do_get(ticket).read_all().num_rows == 2
    except flight.FlightUnavailableError:
        return False


def is_answered(client: flight.FlightClient) -> bool:
    try:
        with exchange(client, keys_of("_rowoffset", []).schema, dataset="trips") as ask:
            return ask(keys_of("_rowoffset", [1])).num_rows == 1
    except flight.FlightUnavailableError:
        return False


def large_lookup(server: RunningServer) -> flight.FlightStreamReader:
    """Start a lookup that is longer than what a client is sent before it reads."""
    offsets = [0] * 200_000
    ticket = flight.Ticket(json.dumps({"take": {"dataset": "ns/vectors", "offsets": offsets}}).encode())
    reader = server.client().do_get(ticket)
    reader.read_chunk()
    return reader


def test_a_question_waits_for_the_slot_of_a_lookup(serve: StartServer, root: Root) -> None:
    """T6: the question is answered when the other lookup ends, and the stream goes on."""
    server = serve(root.path, "--max-streams", "1")
    with (
        server.client() as client,
        exchange(client, keys_of("_rowoffset", []).schema, dataset="trips") as ask,
        ThreadPoolExecutor(1) as pool,
    ):
        assert ask(keys_of("_rowoffset", [1])).num_rows == 1
        running = large_lookup(server)
        answer = pool.submit(ask, keys_of("_rowoffset", [1, 2]))
        with pytest.raises(TimeoutError):
            answer.result(0.5)
        assert sum(chunk.data.num_rows for chunk in running) > 0
        assert answer.result(20).num_rows == 2
        assert ask(keys_of("_rowoffset", [3])).num_rows == 1


def test_a_question_does_not_wait_for_ever(serve: StartServer, root: Root) -> None:
    """T6: the error is retryable and says when to come back. `flight_client` opens another stream then."""
    waits = {"flight_server.limits.admission._QUESTION_SECONDS": 0.2}
    server = serve(root.path, "--max-streams", "1", constants=waits)
    with (
        server.client() as client,
        contextlib.suppress(pa.ArrowException),
        exchange(client, keys_of("_rowoffset", []).schema, dataset="trips") as ask,
    ):
        assert ask(keys_of("_rowoffset", [1])).num_rows == 1
        running = large_lookup(server)
        with pytest.raises(flight.FlightUnavailableError, match="1 lookups are running") as caught:
            ask(keys_of("_rowoffset", [1]))
        assert json.loads(caught.value.extra_info)["retry_after_ms"] > 0
        running.cancel()


def write_for_ever(writer: flight.FlightStreamWriter, batch: pa.RecordBatch) -> None:
    while True:
        writer.write_batch(batch)
