"""Uploads of rows: DoPut with a finish message, progress, and an id that makes it safe to repeat them."""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

import pyarrow as pa
from pyarrow import flight

from flight_client.errors import (
    CommitUnknownError,
    InternalError,
    InvalidInputError,
    LanceError,
    UnavailableError,
)
from flight_client.network.connection import Connection, to_json
from flight_client.network.connections import Connections
from flight_client.progress import Progress

UploadMode = Literal["append", "create", "overwrite", "merge_insert", "add_columns", "replace_columns"]
"""Modes of uploads. `Client.merge_insert` uploads in the mode `merge_insert`."""

_BATCH_BYTES = 2 << 20
"""Approximate size of a sent batch."""

# gRPC accepts hundreds of megabytes for a receiver that is slow. The client therefore sends at most this many
# bytes more than the server has reported as received.
_BYTES_AHEAD = 128 << 20
_REPORT_BYTES = _BYTES_AHEAD // 4

_REPORT_SECONDS = 5.0
"""Seconds without a report after which one more batch is sent. (Client and server may count a batch
differently.)
"""

_ACCEPT_SECONDS = 1.0
"""Longest time to wait until the server accepts an upload, before rows that can be read only once are read.
Servers of other projects may send no report at the beginning.
"""


def upload(
    connections: Connections,
    name: str,
    data: Any,
    mode: UploadMode,
    *,
    schema: pa.Schema | None,
    progress: bool | None,
    fields: Mapping[str, Any],
) -> dict[str, Any]:
    """Upload rows, see `Client.write`. Return the answer, with `result`, or with `staged` if the fields have
    `stage`.

    After a temporary error, rows that can be read again are sent again with the same transaction id. If the
    first attempt was committed nevertheless, the server returns its result. Rows that can be read only once
    are read when the server has accepted the upload, so that an upload that a busy server refused can be
    repeated.

    Raises:
        LanceError: see `Client.write`.
    """
    rows = rows_of(data, schema)
    command = {"dataset": name, "mode": mode, "report_bytes": _REPORT_BYTES, **fields}
    if not fields.get("stage"):  # nobody would commit the receipts of the first of two attempts
        command.setdefault("transaction_id", str(uuid4()))
    command = {key: value for key, value in command.items() if value is not None}
    descriptor = flight.FlightDescriptor.for_command(to_json({"write": command}))
    turns = connections.turns()
    stage = _Stage()
    try:
        while True:
            connection = turns.next()
            try:
                with Progress.of_rows(f"write {name}", rows.num_rows, progress) as bar:
                    return _send(connection, descriptor, rows, bar, stage)
            except LanceError as error:
                stage.may_have_landed |= stage.has_finished and not error.was_refused
                if stage.has_read and not rows.is_repeatable:
                    raise
                turns.after(error)
    except UnavailableError as error:
        if not stage.may_have_landed or fields.get("stage"):
            raise
        raise CommitUnknownError(f"{error} (transaction_id {command['transaction_id']})") from None


@dataclass
class _Stage:
    """Progress of the attempts of an upload."""

    has_read: bool = False
    """Whether rows were read from their source."""
    has_finished: bool = False
    """Whether the finish message was sent in the latest attempt."""
    may_have_landed: bool = False
    """Whether the server may have made a version in an attempt that failed."""


@dataclass(frozen=True)
class Rows:
    """Rows to write."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    num_rows: int | None
    """Number of rows; None if it is unknown."""
    is_repeatable: bool
    """Whether `batches` can be called again."""


def rows_of(data: Any, schema: pa.Schema | None) -> Rows:
    """Return the rows of a table, frame, reader or another object with rows.

    Raises:
        InvalidInputError: the object has no rows, Arrow cannot convert its values, or batches come without a
            schema.
    """
    try:
        return _rows_of(data, schema)
    except pa.ArrowException as error:
        raise InvalidInputError(f"data: {error}") from None


def _rows_of(data: Any, schema: pa.Schema | None) -> Rows:
    arrow = sys.modules.get("pyarrow.dataset")  # imported already if `data` is a dataset; see `Snapshot`
    if isinstance(data, Mapping):
        data = pa.table(dict(data), schema=schema)
    elif isinstance(data, list) and data and all(isinstance(row, Mapping) for row in data):
        data = pa.Table.from_pylist(data, schema=schema)
    elif type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
        data = _with_plain_text(pa.Table.from_pandas(data, schema=schema, preserve_index=False), schema)
    elif isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    elif arrow is not None and isinstance(data, arrow.Dataset):
        source = data
        return Rows(source.schema, lambda: iter(source.to_batches()), None, is_repeatable=True)
    elif arrow is not None and isinstance(data, arrow.Scanner):
        data = data.to_reader()
    if isinstance(data, pa.Table):
        table = data if schema is None else data.cast(schema)
        return Rows(table.schema, lambda: iter(table.to_batches()), table.num_rows, is_repeatable=True)
    if not isinstance(data, pa.RecordBatchReader) and hasattr(data, "__arrow_c_stream__"):
        data = pa.RecordBatchReader.from_stream(data, schema)
    if isinstance(data, pa.RecordBatchReader):
        return Rows(data.schema, lambda: iter(data), None, is_repeatable=False)
    if isinstance(data, Iterable) and schema is not None:
        batches = data
        return Rows(schema, lambda: _batches(batches), None, is_repeatable=False)
    wanted = "a table, batches with a schema, a reader, dataset, frame, dict of columns or list of dicts"
    raise InvalidInputError(f"data: expected {wanted}, found {type(data).__name__}")


def _with_plain_text(table: pa.Table, schema: pa.Schema | None) -> pa.Table:
    """Return the table of a pandas frame with text in plain strings, unless a schema is given.

    pandas keeps text in Arrow's large strings, which would not fit columns of other writers.
    """
    if schema is not None:
        return table
    fields = [
        field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields, table.schema.metadata))


def _batches(items: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    for item in items:
        if isinstance(item, pa.Table):
            yield from item.to_batches()
        elif isinstance(item, pa.RecordBatch):
            yield item
        else:
            raise InvalidInputError(f"data: expected record batches, found {type(item).__name__}")


def _send(
    connection: Connection,
    descriptor: flight.FlightDescriptor,
    rows: Rows,
    bar: Progress,
    stage: _Stage,
) -> dict[str, Any]:
    """Send all rows and the finish message, and return the server's answer."""
    stage.has_finished = False
    with connection.calling():
        writer, reader = connection.client.do_put(descriptor, rows.schema)
        answers = _Answers(reader)
        num_rows = num_batches = 0
        try:
            if not rows.is_repeatable and not answers.wait_for_first():
                writer.close()  # raises why the server refused the upload
            stage.has_read = True
            for batch in _slices(rows.batches()):
                writer.write_batch(batch)
                num_rows += batch.num_rows
                num_batches += 1
                answers.wait_for_room(num_rows, batch.nbytes)
                bar.add(batch.num_rows)
        except BaseException:
            # The server refused a batch, the source failed, or the user interrupted. Without the finish
            # message the server writes nothing.
            _give_up(writer, answers)
            raise
        finish = {"rows": num_rows, "batches": num_batches}
        stage.has_finished = True
        writer.write_metadata(json.dumps({"finish": finish}).encode())
        writer.done_writing()
        answers.join()
        writer.close()  # raises what the server reported
    if not {"result", "staged"} & answers.content.keys():
        raise InternalError("the server ended an upload without a result")
    return answers.content


class _Answers:
    """Reader of the server's messages while rows are sent.

    The server never waits for the client to read. The client waits only if much of its data is still on the
    way.
    """

    def __init__(self, reader: flight.FlightMetadataReader) -> None:
        self._reader = reader
        self.content: dict[str, Any] = {}
        self._changed = threading.Condition()
        self._has_ended = False
        self._rows_taken: int | None = None
        """Rows that the server has received; None before its first message."""
        self._ahead: deque[tuple[int, int]] = deque()
        self._bytes_ahead = 0
        self._thread = threading.Thread(target=self._read, name="lance-flight-answers", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            while (message := self._reader.read()) is not None:
                self._add(json.loads(message.to_pybytes()))
        except (pa.ArrowException, flight.FlightError, ValueError):
            return  # `close` of the writer raises it again
        finally:
            with self._changed:
                self._has_ended = True
                self._changed.notify()

    def _add(self, message: dict[str, Any]) -> None:
        self.content |= message
        if "progress" in message:
            with self._changed:
                self._rows_taken = int(message["progress"]["rows"])
                self._changed.notify()

    def wait_for_room(self, num_rows: int, num_bytes: int) -> None:
        """Note a sent batch, up to and including row `num_rows`, and wait until more may follow."""
        self._ahead.append((num_rows, num_bytes))
        self._bytes_ahead += num_bytes
        with self._changed:
            while True:
                while self._ahead and self._ahead[0][0] <= (self._rows_taken or 0):
                    self._bytes_ahead -= self._ahead.popleft()[1]
                if self._bytes_ahead <= _BYTES_AHEAD or self._has_ended:
                    return
                if not self._changed.wait(_REPORT_SECONDS):
                    return

    def wait_for_first(self) -> bool:
        """Wait until the server has accepted the upload, for at most `_ACCEPT_SECONDS`.

        Return False if the server refused it. Then `close` of the writer raises the error.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._rows_taken is not None or self._has_ended, _ACCEPT_SECONDS)
            return self._rows_taken is not None or not self._has_ended

    def join(self) -> None:
        self._thread.join()


def _give_up(writer: flight.FlightStreamWriter, answers: _Answers) -> None:
    """End a stream after an error. The answers must end first: closing waits for ever while a thread reads
    them.
    """
    with suppress(pa.ArrowException, flight.FlightError):
        writer.done_writing()
    answers.join()
    with suppress(pa.ArrowException, flight.FlightError):
        writer.close()


def _slices(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield slices of about `_BATCH_BYTES`, with at least one row each."""
    for batch in batches:
        step = max(1, batch.num_rows * _BATCH_BYTES // max(1, batch.nbytes))
        if step >= batch.num_rows:
            yield batch
        else:
            for start in range(0, batch.num_rows, step):
                yield batch.slice(start, step)
