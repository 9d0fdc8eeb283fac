"""Open stream on which a server answers each batch with one batch."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self

import pyarrow as pa
from pyarrow import flight

from flight_client.errors import InvalidInputError, UnavailableError
from flight_client.network.connection import Connection, check_process, is_forked, to_json
from flight_client.network.connections import Connections


class _Stream(NamedTuple):
    asked: pa.Schema
    writer: flight.FlightStreamWriter
    reader: flight.FlightStreamReader


class Exchange:
    """Stream of batches to one version of a dataset. A context manager.

    It is opened with the first batch, unless `open` is called before. Threads that share it wait for each
    other: gRPC ends the process if two threads write to one stream.
    """

    def __init__(self, connections: Connections, command: Mapping[str, Any]) -> None:
        """Prepare a stream for the answers to a command."""
        self._connections = connections
        self._descriptor = flight.FlightDescriptor.for_command(to_json(command))
        self._stream: _Stream | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def open(self, asked: pa.Schema) -> None:
        """Open the stream for batches of a schema; errors are those of the server."""
        check_process()  # before the lock, which a thread of the other process may hold
        with self._lock:
            self._connections.call(partial(self._opened, asked))

    def answer(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the answer to a batch.

        After an error the stream is opened again, at another server if possible.

        Raises:
            InvalidInputError: the stream is closed, or the server refuses the batch.
        """
        check_process()
        with self._lock:
            if self._is_closed:
                raise InvalidInputError("the stream is closed")
            return self._connections.call(partial(self._answer, batch))

    def _answer(self, batch: pa.RecordBatch, connection: Connection) -> pa.RecordBatch:
        stream = self._opened(batch.schema, connection)
        try:
            # The client reads one answer before it sends the next batch, so that neither side waits for the
            # other.
            stream.writer.write_batch(batch)
            return stream.reader.read_chunk().data
        except BaseException as error:
            # The next message on this stream would not be the answer to the next batch.
            stream.reader.cancel()
            self._end()
            if isinstance(error, StopIteration):
                raise UnavailableError("the server ended the stream", retryable=True) from None
            raise

    def _opened(self, asked: pa.Schema, connection: Connection) -> _Stream:
        """Return the stream for batches of a schema; open one over `connection` if there is none."""
        if self._stream is not None and self._stream.asked != asked:
            self._end()
        if self._stream is None:
            writer, reader = connection.client.do_exchange(self._descriptor)
            writer.begin(asked)
            self._stream = _Stream(asked, writer, reader)
        return self._stream

    def _end(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(pa.ArrowException, flight.FlightError):
                stream.writer.done_writing()
                stream.writer.close()

    def close(self) -> None:
        """End the stream, after the answer that another thread waits for."""
        if is_forked():  # the stream belongs to the other process
            return
        with self._lock:
            self._is_closed = True
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
