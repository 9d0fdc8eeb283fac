"""Uploading: as our clients do it, and message by message over plain gRPC."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

from support.clients.raw_flight import field

Target = str | dict[str, Any]


def descriptor_of(target: Target) -> flight.FlightDescriptor:
    """Return the descriptor of a name, to which rows are appended, or of the fields of a write command."""
    if isinstance(target, str):
        return flight.FlightDescriptor.for_path(*target.split("/"))
    return flight.FlightDescriptor.for_command(json.dumps({"write": target}))


def finish_message(rows: int, batches: int) -> bytes:
    return json.dumps({"finish": {"rows": rows, "batches": batches}}).encode()


def put(
    client: flight.FlightClient,
    target: Target,
    table: pa.Table,
    *,
    finish: bool = True,
    batch_rows: int | None = None,
    options: flight.FlightCallOptions | None = None,
) -> dict[str, Any]:
    """Upload a table; returns the result message. Errors are raised as a client sees them."""
    writer, reader = client.do_put(descriptor_of(target), table.schema, options=options)
    result: dict[str, Any] = {}
    try:
        batches = table.to_batches(max_chunksize=batch_rows)
        for batch in batches:
            writer.write_batch(batch)
        if finish:
            writer.write_metadata(finish_message(table.num_rows, len(batches)))
        writer.done_writing()
        while (message := reader.read()) is not None:
            result |= json.loads(message.to_pybytes())
    finally:
        writer.close()
    return result["result"]  # type: ignore[no-any-return]


def send(client: flight.FlightClient, target: Target, *parts: pa.Table | pa.RecordBatch | bytes) -> None:
    """Upload tables, batches and metadata messages; errors are those of the end."""
    # What is longer than 2^31 is sent, too.
    options = flight.FlightCallOptions(write_options=pa.ipc.IpcWriteOptions(allow_64bit=True))
    writer, _ = client.do_put(descriptor_of(target), parts[0].schema, options=options)
    try:
        for part in parts:
            if isinstance(part, pa.Table):
                writer.write_table(part)
            elif isinstance(part, pa.RecordBatch):
                writer.write_batch(part)
            else:
                writer.write_metadata(part)
    finally:
        writer.close()


def files_below(path: Path) -> set[str]:
    """Return every file and directory below `path`, without the signing key of the server.

    A server may remove directories meanwhile, which `Path.rglob` does not expect.
    """
    found = {
        os.path.relpath(os.path.join(folder, name), path)
        for folder, directories, files in os.walk(path)
        for name in (*directories, *files)
    }
    return found - {".lance-flight-key"}


def ipc_messages(
    table: pa.Table, batch_rows: int | None = None, compression: str | None = None
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the IPC messages of a table: schema, dictionaries and batches, each as header and body."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        yield message.metadata.to_pybytes(), message.body.to_pybytes() if message.body is not None else b""


def flight_data(
    header: bytes = b"", body: bytes = b"", metadata: bytes = b"", descriptor: bytes = b""
) -> bytes:
    """One FlightData message."""
    parts = ((1, descriptor), (2, header), (3, metadata), (1000, body))
    return b"".join(field(number, data) for number, data in parts if data)


def small_tables() -> list[pa.Table]:
    """Small tables that together have every layout of Arrow that can be written."""
    n = 40
    numbers = pa.array([None if i % 5 == 0 else i for i in range(n)], pa.int64())
    texts = pa.array([None if i % 7 == 0 else "é" * (i % 9) for i in range(n)])
    lists = pa.array([None if i % 6 == 0 else list(range(i % 4)) for i in range(n)], pa.list_(pa.int32()))
    structs = pa.array([None if i % 8 == 0 else {"a": i, "b": str(i)} for i in range(n)])
    columns = {
        "int": numbers,
        "small": numbers.cast(pa.int8()),
        "float": numbers.cast(pa.float32()),
        "bool": pa.array([None if i % 5 == 0 else i % 2 == 0 for i in range(n)]),
        "date": numbers.cast(pa.int32()).cast(pa.date32()),
        "time": numbers.cast(pa.timestamp("us", "UTC")),
        "decimal": numbers.cast(pa.decimal128(30, 2)),
        "text": texts,
        "large text": texts.cast(pa.large_string()),
        "view": texts.cast(pa.string_view()),
        "bytes": texts.cast(pa.binary()),
        "fixed": pa.array([b"abcd"] * n, pa.binary(4)),
        "list": lists,
        "large list": lists.cast(pa.large_list(pa.int32())),
        "vector": pa.array([[1.0, 2.0]] * n, pa.list_(pa.float32(), 2)),
        "struct": structs,
        "map": pa.array([[("k", i)] for i in range(n)], pa.map_(pa.string(), pa.int64())),
        "dictionary": texts.dictionary_encode(),
        "nested": pa.array([[{"x": [str(i)]}] for i in range(n)]),
        "null": pa.nulls(n),
    }
    return [pa.table({name: column}) for name, column in columns.items()]
