"""Repeated takes of single rows on one stream, for which the server keeps the files open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import pyarrow as pa
from pyarrow import flight

from flight_client.errors import InvalidInputError, UnavailableError
from flight_client.network.connection import Connection, to_json
from flight_client.network.connections import Connections
from flight_client.reading.scanner import Target

Key = Literal["_rowoffset", "_rowid", "_rowaddr"]

MAX_KEYS = 1 << 20
"""Largest number of keys in one batch."""

_LARGEST_KEY = (1 << 64) - 1


class _Exchange(NamedTuple):
    """Open stream."""

    writer: flight.FlightStreamWriter
    reader: flight.FlightStreamReader


class Lookup:
    """Stream of takes from one version of a dataset. A context manager, for one thread."""

    def __init__(
        self,
        connections: Connections,
        target: Target,
        columns: Sequence[str] | Mapping[str, str] | None,
        key: Key,
        blob_handling: str | None = None,
    ) -> None:
        """Use `RemoteDataset.lookup`."""
        command = target.fields()
        if blob_handling is not None:
            command["blob_handling"] = blob_handling
        if columns is not None:
            command["columns"] = dict(columns) if isinstance(columns, Mapping) else list(columns)
        descriptor = flight.FlightDescriptor.for_command(to_json({"take": command}))
        self._keys = pa.schema([(key, pa.uint64())])
        self._shown = (
            f"{target.name!r}, version={target.version}, columns={command.get('columns')}, key={key}"
        )
        self._connections = connections
        self._descriptor = descriptor
        self._stream: _Exchange | None = None
        self._is_closed = False
        connections.call(self._opened)

    def __repr__(self) -> str:
        return f"Lookup({self._shown})"

    def take(self, keys: Any) -> pa.Table:
        """Return the rows of integer keys, in their order. A key that is given twice gives its row twice.

        After an error the stream is opened again, at another server if possible.

        Raises:
            InvalidInputError: a key is out of range, or the lookup is closed.
        """
        if self._is_closed:
            raise InvalidInputError("the lookup is closed")
        values = keys_of(keys)
        parts = [values.slice(start, MAX_KEYS) for start in range(0, max(len(values), 1), MAX_KEYS)]
        return pa.Table.from_batches([self._connections.call(partial(self._answer, part)) for part in parts])

    def _answer(self, keys: pa.Array, connection: Connection) -> pa.RecordBatch:
        stream = self._opened(connection)
        try:
            # The client reads one answer before it sends the next keys, so that neither side waits for the
            # other.
            stream.writer.write_batch(pa.RecordBatch.from_arrays([keys], schema=self._keys))
            return stream.reader.read_chunk().data
        except BaseException as error:
            # The next message on this stream would not be the answer to the next keys.
            stream.reader.cancel()
            self._end()
            if isinstance(error, StopIteration):
                raise UnavailableError("the server ended the stream of a lookup") from None
            raise

    def _opened(self, connection: Connection) -> _Exchange:
        """Return the stream; open one over `connection` if there is none."""
        if self._stream is None:
            writer, reader = connection.client.do_exchange(self._descriptor)
            writer.begin(self._keys)
            self._stream = _Exchange(writer, reader)
        return self._stream

    def _end(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(pa.ArrowException, flight.FlightError):
                stream.writer.done_writing()
                stream.writer.close()

    def close(self) -> None:
        """End the stream."""
        self._is_closed = True
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def are_keys(given: Any) -> bool:
    """Return whether `given` is a list of integers that the server takes as keys without conversion."""
    is_list = isinstance(given, list) and set(map(type, given)) == {int}
    return is_list and min(given) >= 0 and max(given) <= _LARGEST_KEY


def keys_of(given: Any) -> pa.Array:
    """Return integer keys in the form that the server expects.

    Raises:
        InvalidInputError: a key is null, negative or no integer.
    """
    if are_keys(given):
        return pa.array(given, pa.uint64())  # the start of a cast takes longer than the rest of a small take
    try:
        values = given if isinstance(given, pa.Array | pa.ChunkedArray) else pa.array(given)
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if len(values) and not pa.types.is_integer(values.type):
            raise TypeError(f"found {values.type}")
        keys = values.cast(pa.uint64())  # a cast refuses values out of range, `pa.array` does not
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise InvalidInputError(f"keys of rows: expected integers from 0 on: {error}") from None
    if keys.null_count:
        raise InvalidInputError("keys of rows: expected integers from 0 on, found null")
    return keys
