"""Reads of the endpoints of a plan: resumed after an error, in parallel, in bounded memory."""

import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field

import pyarrow as pa
from pyarrow import flight

from flight_client.errors import LanceError
from flight_client.network.connection import Connection, Stream, check_process, is_forked
from flight_client.network.connections import Connections

_CLOSING_SECONDS = 1.0
"""Longest time that closing a reader waits for its threads. A stream that the server has not opened yet
cannot be cancelled; its thread ends it as soon as it is open.
"""


class EndpointReader:
    """Batches of one ticket. If a stream breaks, the next stream continues at the next row, at another server
    if possible.

    A ticket gives the same batches each time, so the reader counts the received rows and skips them.
    """

    def __init__(self, connections: Connections, endpoint: flight.FlightEndpoint, first: int = 0) -> None:
        """Read at the servers that the endpoint names, in their order.

        If the endpoint names fewer than two servers, begin with number `first` of all known servers.
        """
        self._connections = connections
        self._endpoint = endpoint
        self._first = first
        self._stream: Stream | None = None
        self._is_cancelled = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches in order.

        Raises:
            LanceError: the server reported an error that a repetition cannot solve, or all attempts since the
                last row failed.
        """
        turns = self._connections.turns_of(self._endpoint, self._first)
        num_rows = 0
        while not self._is_cancelled:
            try:
                for batch in self._after(self._open(turns.next()), num_rows):
                    yield batch
                    num_rows += batch.num_rows
                    turns.succeed()
                return
            except LanceError as error:
                if self._is_cancelled:
                    raise
                turns.after(error)

    def cancel(self) -> None:
        """End the stream. Any thread may call this."""
        self._is_cancelled = True
        if self._stream is not None:
            self._stream.cancel()

    def _open(self, connection: Connection) -> Stream:
        self._stream = connection.stream(self._endpoint.ticket)
        if self._is_cancelled:  # while the stream was being opened
            self._stream.cancel()
        return self._stream

    @staticmethod
    def _after(stream: Stream, num_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a stream without their first rows."""
        try:
            while (batch := stream.read()) is not None:
                if num_rows == 0:
                    yield batch
                    continue
                if num_rows < batch.num_rows:
                    yield batch.slice(num_rows)
                num_rows = max(0, num_rows - batch.num_rows)
        finally:
            stream.cancel()


def read_endpoint(
    connections: Connections, endpoint: flight.FlightEndpoint, first: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an endpoint. Closing the iterator ends the stream. Arguments: see
    `EndpointReader`.
    """
    reader = EndpointReader(connections, endpoint, first)
    try:
        yield from reader
    finally:
        reader.cancel()


@dataclass
class _Waiting:
    """Received batches of one endpoint that the caller has not requested yet."""

    batches: deque[pa.RecordBatch] = field(default_factory=deque)
    num_bytes: int = 0
    is_complete: bool = False


class ParallelReader:
    """Batches of several endpoints in order. Threads read them ahead of the caller."""

    def __init__(
        self,
        connections: Connections,
        endpoints: Sequence[flight.FlightEndpoint],
        *,
        parallel: int,
        max_bytes: int,
    ) -> None:
        """Read with `parallel` threads, which hold at most `max_bytes` of batches, or one batch each."""
        self._readers = [EndpointReader(connections, endpoint) for endpoint in endpoints]
        self._waiting = [_Waiting() for _ in endpoints]
        self._parallel = min(parallel, len(endpoints))
        self._share = max_bytes // max(self._parallel, 1)
        self._changed = threading.Condition()
        self._next = 0
        self._failure: BaseException | None = None
        self._is_closed = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches. Closing the iterator ends the streams.

        Raises:
            LanceError: see `EndpointReader`.
        """
        if self._parallel < 2:
            for reader in self._readers:
                try:
                    yield from reader
                finally:
                    reader.cancel()
            return
        threads = [
            threading.Thread(
                target=copy_context().run, args=(self._read,), name=f"lance-flight-read-{number}", daemon=True
            )
            for number in range(self._parallel)
        ]
        try:
            for thread in threads:
                thread.start()
            for waiting in self._waiting:
                while (batch := self._pop(waiting)) is not None:
                    yield batch
        finally:
            # A thread of the other process, or one stopped by the end of this process, may hold the lock.
            if not is_forked() and not sys.is_finalizing():
                self._close()
                deadline = time.monotonic() + _CLOSING_SECONDS
                for thread in threads:
                    thread.join(max(0.0, deadline - time.monotonic()))

    def _pop(self, waiting: _Waiting) -> pa.RecordBatch | None:
        """Return the next batch of an endpoint, None at its end. Errors include those of `check_process`."""
        check_process()
        with self._changed:
            self._changed.wait_for(lambda: waiting.batches or waiting.is_complete or self._failure)
            if waiting.batches:
                batch = waiting.batches.popleft()
                waiting.num_bytes -= batch.nbytes
                self._changed.notify_all()
                return batch
            if not waiting.is_complete and self._failure is not None:
                raise self._failure
            return None

    def _read(self) -> None:
        """Read endpoint after endpoint until none is left."""
        try:
            while (number := self._take()) is not None:
                waiting = self._waiting[number]
                for batch in self._readers[number]:
                    if not self._push(waiting, batch):
                        return
                with self._changed:
                    waiting.is_complete = True
                    self._changed.notify_all()
        except BaseException as error:  # raised again in the thread of the caller
            with self._changed:
                self._failure = self._failure or error
                self._changed.notify_all()

    def _take(self) -> int | None:
        with self._changed:
            if self._is_closed or self._failure or self._next == len(self._readers):
                return None
            self._next += 1
            return self._next - 1

    def _push(self, waiting: _Waiting, batch: pa.RecordBatch) -> bool:
        """Add a batch when there is room. Return whether the caller still wants batches."""
        num_bytes = batch.nbytes
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closed or not waiting.batches or waiting.num_bytes + num_bytes <= self._share
            )
            if self._is_closed:
                return False
            waiting.batches.append(batch)
            waiting.num_bytes += num_bytes
            self._changed.notify_all()
            return True

    def _close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for reader in self._readers:
            reader.cancel()
