"""Uploads that nobody's Arrow library would write: mutated messages, bombs, abused schemas."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import grpc
import lance
import numpy as np
import psutil
import pyarrow as pa
import pytest
from pyarrow import flight

from flight_server.requests import schemas
from support.clients.puts import (
    files_below,
    finish_message,
    flight_data,
    ipc_messages,
    put,
    send,
    small_tables,
)
from support.clients.raw_flight import SERVICE, call, command_descriptor
from support.oracles.comparison import assert_tables_equal
from support.processes.waiting import wait_until
from support.servers.served import StartServer
from support.servers.server import RunningServer, serving

DESCRIPTOR = command_descriptor(json.dumps({"write": {"dataset": "m", "mode": "create"}}).encode())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def server(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(root, tmp_path_factory.mktemp("log") / "server.log") as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[flight.FlightClient]:
    with server.client() as client:
        yield client


def mutants(count: int, seed: int) -> Iterator[list[bytes]]:
    """Uploads with changed bytes in headers or bodies; they never end with the finish message."""
    source = random.Random(seed)
    kinds = [None, "lz4", "zstd"]
    originals = [
        list(ipc_messages(table, 25, compression)) for table in small_tables() for compression in kinds[2:]
    ]
    for _ in range(count):
        messages = [[bytearray(header), bytearray(body)] for header, body in source.choice(originals)]
        for _ in range(source.randrange(1, 3)):
            among = messages[1:] if source.random() < 0.9 else messages[:1]
            mutate(source, source.choice(among), source.random() < 0.8)
        yield [
            flight_data(bytes(header), bytes(body), descriptor=b"" if position else DESCRIPTOR)
            for position, (header, body) in enumerate(messages)
        ]


def mutate(source: random.Random, message: list[bytearray], in_body: bool) -> None:
    data = message[1] if in_body and message[1] else message[0]
    if not data:
        return
    place = source.randrange(len(data))
    match source.randrange(5):
        case 0:
            data[place] = source.choice([0, 1, 127, 128, 255, source.randrange(256)])
        case 1:
            data[place] ^= 1 << source.randrange(8)
        case 2:
            value = source.choice([0, -1, 1 << 31, (1 << 31) - 1, 1 << 62, source.randrange(1 << 63)])
            aligned = place & ~7
            data[aligned : aligned + 8] = struct.pack("<Q", value & (1 << 64) - 1)[: len(data) - aligned]
        case 3:
            del data[place:]
        case 4:
            data[place:place] = source.randbytes(8)


def send_mutants(server: RunningServer, count: int, seed: int) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    with grpc.insecure_channel(server.address) as channel:
        put_stub = channel.stream_stream(SERVICE + "DoPut")
        for requests in mutants(count, seed):
            running = put_stub(iter(requests), timeout=20)
            with pytest.raises(grpc.RpcError):
                list(running)
            trailers = {item.key: item.value for item in running.trailing_metadata() or ()}
            report = json.loads(trailers["x-lance-error"]) if "x-lance-error" in trailers else {}
            # A schema message that cannot be parsed is refused before there is a handler.
            outcomes[report.get("name", "refused with the schema")] += 1
            assert report or "Python" not in running.details()
            assert server.process.poll() is None, server.log[-4000:]
    print(f"seed {seed}: {count} uploads, {dict(outcomes)}")
    return outcomes


def check_mutants(server: RunningServer, root: Path, count: int) -> None:
    outcomes = send_mutants(server, count, seed=20261121)
    assert outcomes.keys() <= {"InvalidInputError", "UnsupportedFeatureError", "refused with the schema"}
    assert not (root / "m.lance").exists()
    assert server.log.count("without the message") > count // 15, "too few mutants got past the checks"


def test_mutated_uploads(server: RunningServer, root: Path) -> None:
    """T15: the server lives, and what it says is that the upload is wrong."""
    check_mutants(server, root, 700)


@pytest.mark.long("30,000 mutants")
def test_many_mutated_uploads(server: RunningServer, root: Path) -> None:
    """T15"""
    check_mutants(server, root, 30_000)


def valid_mutants(count: int, seed: int) -> Iterator[tuple[pa.Table, list[tuple[bytes, bytes]]]]:
    """Uploads with changed bytes in a body that are still valid, and the table that they are."""
    source = random.Random(seed)
    originals = [list(ipc_messages(table, 25)) for table in small_tables()]
    while count:
        messages = [(header, bytearray(body)) for header, body in source.choice(originals)]
        for _ in range(source.randrange(1, 5)):
            _, body = source.choice(messages[1:])
            if body:
                body[source.randrange(len(body))] ^= 1 << source.randrange(8)
        sent = [(header, bytes(body)) for header, body in messages]
        stream = b"".join(
            struct.pack("<Ii", 0xFFFFFFFF, len(header)) + header + body for header, body in sent
        )
        table = pa.ipc.open_stream(stream).read_all()
        try:
            table.validate(full=True)
        except pa.ArrowInvalid:
            continue
        count -= 1
        yield table, sent


def test_mutants_that_are_valid_are_stored_as_what_they_say(server: RunningServer, root: Path) -> None:
    """T15: offsets that do not begin at 0, gaps, odd bytes below nulls: whatever Arrow allows."""
    for number, (table, messages) in enumerate(valid_mutants(150, seed=7)):
        name = f"v{number}"
        command = json.dumps({"write": {"dataset": name, "mode": "create"}}).encode()
        requests = [
            flight_data(header, body, descriptor=b"" if position else command_descriptor(command))
            for position, (header, body) in enumerate(messages)
        ]
        finish = flight_data(metadata=finish_message(table.num_rows, len(table.to_batches())))
        outcome = call(server.address, "DoPut", *requests, finish)
        assert outcome.code is grpc.StatusCode.OK, (table, outcome)
        field = table.schema.field(0)
        expected = table.cast(pa.schema([field.with_type(pa.string())])) if field.name == "view" else table
        assert_tables_equal(expected, lance.dataset(str(root / f"{name}.lance")).to_table())


FINISH = finish_message(0, 0)


def columns(count: int) -> pa.Schema:
    return pa.schema([(f"c{number}", pa.int8()) for number in range(count)])


def nested(depth: int) -> pa.Schema:
    data_type = pa.int8()
    for _ in range(depth):
        data_type = pa.list_(data_type)
    return pa.schema([("x", data_type)])


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        (columns(schemas.MAXIMUM_FIELDS + 1), "more than 20000 fields"),
        (pa.schema([("s", pa.struct(columns(schemas.MAXIMUM_FIELDS)))]), "more than 20000 fields"),
        (nested(63).append(pa.field("x", pa.int8())), "used twice"),
        (nested(64), "nest"),
        (pa.schema([("n" * 5000, pa.int8())]), "longer than 4096 bytes"),
        (pa.schema([("a", pa.int8())], {"k": "v" * (1 << 20)}), "bytes of metadata"),
        (pa.schema([pa.field("a", pa.int8(), metadata={"k": "v" * (1 << 20)})]), "bytes of metadata"),
        (pa.schema([("a", pa.int8()), ("a", pa.int8())]), "used twice"),
        (pa.schema([("_rowid", pa.int8())]), "reserved"),
        (pa.schema([("a.b", pa.int8())]), "dot"),
        (pa.schema([("a", pa.run_end_encoded(pa.int32(), pa.int8()))]), "run_end_encoded"),
        (pa.schema([("a", pa.list_view(pa.int8()))]), "list_view"),
        (pa.schema([("a", pa.dense_union([pa.field("x", pa.int8())]))]), "union"),
        (pa.schema([("a", pa.dictionary(pa.int8(), pa.list_(pa.int8())))]), "dictionary"),
        (pa.schema([("a", pa.int8())], {b"\xff": b"x"}), "not UTF-8"),
        (pa.schema([pa.field("a", pa.int8(), metadata={b"x": b"\xff"})]), "not UTF-8"),
        (pa.schema([("a", pa.timestamp("us", b"\xff"))]), "not UTF-8"),
    ],
    ids=range(17),
)
def test_abused_schemas(client: flight.FlightClient, root: Path, schema: pa.Schema, named: str) -> None:
    """T18: the cap is named."""
    before = files_below(root)
    with pytest.raises((pa.ArrowInvalid, NotImplementedError), match=named):
        send(client, {"dataset": f"s{uuid4().hex}", "mode": "create"}, schema.empty_table(), FINISH)
    assert files_below(root) == before


@pytest.mark.parametrize(
    "column",
    [
        pa.RunEndEncodedArray.from_arrays([1], [1]),
        pa.array([[1]], pa.list_view(pa.int8())),
        pa.array([[1]], pa.large_list_view(pa.int8())),
        pa.array([[[1]]], pa.list_(pa.list_view(pa.int8()))),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
        pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]),
    ],
    ids=lambda column: str(column.type)[:15],
)
@pytest.mark.parametrize(
    "command",
    [
        {"mode": "merge_insert", "on": ["id"], "when_not_matched": "insert_all"},
        {"mode": "add_columns", "on": ["id"]},
        {"mode": "overwrite", "transaction_id": str(UUID(int=7))},
    ],
    ids=lambda command: command["mode"],
)
def test_types_that_no_table_has(
    client: flight.FlightClient, root: Path, column: pa.Array, command: dict[str, Any]
) -> None:
    """T16, T18: refused by name in the modes, too, that look at rows before they look at columns."""
    rows = pa.table({"id": [1]})
    with contextlib.suppress(flight.FlightServerError):
        put(client, {"dataset": "typed", "mode": "create", "transaction_id": str(UUID(int=7))}, rows)
    before = files_below(root / "typed.lance")
    with pytest.raises(NotImplementedError, match=r"\[UnsupportedFeatureError\] type of a column"):
        put(client, {"dataset": "typed", **command}, rows.append_column("x", column))
    assert files_below(root / "typed.lance") == before


def test_nulls_that_are_not_allowed(server: RunningServer) -> None:
    """T18: a schema that no library makes. The one byte that differs says whether nulls are allowed."""
    (nullable, _), *_ = ipc_messages(pa.table({"x": pa.nulls(1)}))
    for place, byte in enumerate(nullable):
        if byte == 1:
            header = nullable[:place] + b"\0" + nullable[place + 1 :]
            with contextlib.suppress(pa.ArrowInvalid, OSError):
                found = pa.ipc.read_schema(message_of(header))
                if found.names == ["x"] and not found.field(0).nullable:
                    break
    outcome = call(server.address, "DoPut", flight_data(header, descriptor=DESCRIPTOR))
    assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "has the type null, but is declared not nullable" in outcome.details


def test_lists_of_a_negative_size(server: RunningServer) -> None:
    """T18"""
    schema = pa.schema([("x", pa.list_(pa.int8(), 0x12345678))])
    sink = pa.BufferOutputStream()
    pa.ipc.new_stream(sink, schema).close()
    header = pa.ipc.MessageReader.open_stream(sink.getvalue()).read_next_message().metadata.to_pybytes()
    negative = header.replace(struct.pack("<i", 0x12345678), struct.pack("<i", -5))
    outcome = call(server.address, "DoPut", flight_data(negative, descriptor=DESCRIPTOR))
    assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "negative size" in outcome.details


def message_of(header: bytes) -> pa.Buffer:
    return pa.py_buffer(struct.pack("<Ii", 0xFFFFFFFF, len(header)) + header)


def bombs() -> dict[str, pa.RecordBatch]:
    """Batches of few bytes that stand for many."""
    one = pa.array(["x" * (1 << 20)], pa.string_view())
    # 2 GiB: Arrow checks the text of each view, which takes a tenth of a second per GiB.
    views = one.buffers()[1].to_pybytes() * (1 << 11)
    made = {
        "rows of nothing": pa.Array.from_buffers(pa.null(), 1 << 60, [None]),
        "too many rows": pa.Array.from_buffers(pa.null(), (1 << 24) + 1, [None]),
        "a dictionary": pa.DictionaryArray.from_arrays(np.zeros(1 << 14, np.int16), ["x" * (1 << 20)]),
        "views": pa.Array.from_buffers(
            pa.string_view(), 1 << 11, [None, pa.py_buffer(views), one.buffers()[2]]
        ),
        "a list of nothing": pa.ListArray.from_arrays(
            pa.array([0, 1 << 30], pa.int32()), pa.Array.from_buffers(pa.null(), 1 << 30, [None])
        ),
        "wide rows of nothing": pa.FixedSizeListArray.from_arrays(
            pa.Array.from_buffers(pa.null(), 1 << 40, [None]), 1 << 30
        ),
    }
    return {name: pa.RecordBatch.from_arrays([array], ["x"]) for name, array in made.items()}


@pytest.mark.parametrize("bomb", bombs().items(), ids=bombs().keys())
def test_bombs(
    server: RunningServer, client: flight.FlightClient, root: Path, bomb: tuple[str, pa.RecordBatch]
) -> None:
    """T16: refused by what they stand for, while others go on; memory stays."""
    before, memory = files_below(root), server.anonymous_bytes()
    with beside(server) as others:
        for _ in range(3):
            with pytest.raises(pa.ArrowInvalid, match=r"too many rows|too large, send smaller ones"):
                send(client, {"dataset": "b", "mode": "create"}, bomb[1])
        wait_until(lambda: others, "an answer to another client")
    assert server.anonymous_bytes() - memory < 128 << 20
    assert files_below(root) == before


@contextmanager
def beside(server: RunningServer) -> Iterator[list[float]]:
    """Somebody else, who asks for health all the time; how long each answer took, in seconds."""
    stop, times = threading.Event(), list[float]()

    def ask() -> None:
        with server.client() as other:
            while not stop.is_set():
                began = time.monotonic()
                list(other.do_action(flight.Action("health", b"")))
                times.append(time.monotonic() - began)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield times
    finally:
        stop.set()
        thread.join()


def test_a_compressed_bomb(serve: StartServer, tmp_path: Path) -> None:
    """T16: Arrow expands a batch before anybody can look; then it is refused, and its memory given back."""
    served = tmp_path / "served"
    served.mkdir()
    server = serve(served, "--max-batch-bytes", "8MiB")
    zeros = pa.table({"x": np.zeros(1 << 25, np.uint8).view(np.int64)})
    options = flight.FlightCallOptions(write_options=pa.ipc.IpcWriteOptions(compression="zstd"))
    with server.client() as client:
        for _ in range(20):
            with pytest.raises(pa.ArrowInvalid, match="too large, send smaller ones"):
                put(client, {"dataset": "b", "mode": "create"}, zeros, options=options)
        assert server.anonymous_bytes() < 300 << 20
        put(client, {"dataset": "b", "mode": "create"}, zeros.slice(0, 1000), options=options)


def inflated(num_bytes: int) -> list[bytes]:
    """Return an upload of 64 rows over a compressed buffer of `num_bytes` zeros."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for _ in range(num_bytes >> 20):
            stream.write(bytes(1 << 20))
    buffer = struct.pack("<q", num_bytes) + sink.getvalue().to_pybytes()
    body = buffer + bytes(-len(buffer) % 64)
    table = pa.table({"x": pa.array([0] * 64, pa.int64())})
    (schema, _), (header, small) = ipc_messages(table, compression="zstd")
    # Lengths in the header: of the body, and of the buffer, which ends somewhere in the last eight bytes.
    (length,) = (n for n in range(len(small) - 7, len(small)) if header.count(struct.pack("<q", n)) == 1)
    for before, after in ((len(small), len(body)), (length, len(buffer))):
        header = header.replace(struct.pack("<q", before), struct.pack("<q", after))
    return [flight_data(schema, descriptor=DESCRIPTOR), flight_data(header, body)]


def test_a_buffer_larger_than_its_rows(serve: StartServer, tmp_path: Path) -> None:
    """T16"""
    served = tmp_path / "served"
    served.mkdir()
    server = serve(served, "--max-batch-bytes", "8MiB")
    outcome = call(server.address, "DoPut", *inflated(32 << 20))
    assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "too large" in outcome.details


def test_a_large_bomb_under_a_limit_of_the_process(server: RunningServer) -> None:
    """T16: 200 kB that expand to 6 GiB; what the operating system refuses ends the upload alone."""
    process = server.statistics()
    limits = process.rlimit(psutil.RLIMIT_AS)
    bomb = inflated(6 << 30)
    assert sum(map(len, bomb)) < 1 << 20
    process.rlimit(psutil.RLIMIT_AS, (5 << 30, limits[1]))
    try:
        for _ in range(5):
            outcome = call(server.address, "DoPut", *bomb)
            assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
            assert "does not fit into memory" in outcome.details
        assert server.anonymous_bytes() < 300 << 20
    finally:
        process.rlimit(psutil.RLIMIT_AS, limits)


def test_a_compressed_length_that_lies(server: RunningServer) -> None:
    """T16: an allocation that fails ends the call and not the server."""
    (schema, _), (header, body) = ipc_messages(pa.table({"x": range(1000)}), compression="zstd")
    lied = struct.pack("<q", 1 << 46) + body[8:]
    requests = [flight_data(schema, descriptor=DESCRIPTOR), flight_data(header, lied)]
    outcome = call(server.address, "DoPut", *requests)
    assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "memory" in outcome.details or "cannot be read" in outcome.details


class Payload:
    """Unpickling one of these makes a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return (open, (str(self._path), "w"))


@pytest.mark.parametrize("name", ["arrow.py_extension_type", "pandas.period", "somebody.else"])
def test_extension_types_are_stored_and_never_unpickled(
    client: flight.FlightClient, root: Path, tmp_path: Path, name: str
) -> None:
    """T17"""
    marker = tmp_path / "unpickled"
    metadata = {
        "ARROW:extension:name": name,
        "ARROW:extension:metadata": pickle.dumps(Payload(marker), protocol=0),
    }
    field = pa.field("x", pa.int64(), metadata=metadata)
    table = pa.table({"x": range(5)}, schema=pa.schema([field]))
    dataset = f"e{abs(hash(name))}"
    put(client, {"dataset": dataset, "mode": "create"}, table)
    assert lance.dataset(str(root / f"{dataset}.lance")).to_table()["x"].to_pylist() == list(range(5))
    assert not marker.exists()
