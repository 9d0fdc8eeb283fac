"""Single rows again and again: keys in, rows out, on one stream that keeps what a take needs open."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self

import pyarrow as pa
from pyarrow import flight

from flight_client.connection import Server, Servers
from flight_client.errors import InvalidInputError
from flight_client.scanner import Target

Key = Literal["_rowoffset", "_rowid", "_rowaddr"]

MAX_KEYS = 1 << 20
"""Of one batch."""

_LARGEST_KEY = (1 << 64) - 1


class Lookup:
    """A stream of takes from one version of a dataset. A context manager, for one thread."""

    def __init__(
        self, servers: Servers, target: Target, columns: Sequence[str] | Mapping[str, str] | None, key: Key
    ) -> None:
        """Use `RemoteDataset.lookup`."""
        command = target.fields()
        if columns is not None:
            command["columns"] = dict(columns) if isinstance(columns, Mapping) else list(columns)
        descriptor = flight.FlightDescriptor.for_command(json.dumps({"take": command}))
        self._keys = pa.schema([(key, pa.uint64())])
        self._shown = (
            f"{target.name!r}, version={target.version}, columns={command.get('columns')}, key={key}"
        )

        def run(server: Server) -> tuple[Server, flight.FlightStreamWriter, flight.FlightStreamReader]:
            writer, reader = server.client.do_exchange(descriptor)
            writer.begin(self._keys)
            return server, writer, reader

        self._server, self._writer, self._reader = servers.call(run)

    def __repr__(self) -> str:
        return f"Lookup({self._shown})"

    def take(self, keys: Any) -> pa.Table:
        """The rows of integer keys, in their order; a key given twice gives its row twice.

        Raises:
            InvalidInputError: a position is out of range.
        """
        values = keys_of(keys)
        with self._server.calling():
            batches = []
            # One answer is read before the next keys go out: neither side waits for the other.
            for start in range(0, max(len(values), 1), MAX_KEYS):
                part = values.slice(start, MAX_KEYS)
                self._writer.write_batch(pa.RecordBatch.from_arrays([part], schema=self._keys))
                try:
                    batches.append(self._reader.read_chunk().data)
                except StopIteration:
                    raise InvalidInputError("the lookup is closed") from None
            return pa.Table.from_batches(batches)

    def close(self) -> None:
        """End the stream."""
        with suppress(pa.ArrowException, flight.FlightError):
            self._writer.done_writing()
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def are_keys(given: Any) -> bool:
    """Whether it is a list of integers that the server takes as keys as it stands."""
    is_list = isinstance(given, list) and set(map(type, given)) == {int}
    return is_list and min(given) >= 0 and max(given) <= _LARGEST_KEY


def keys_of(given: Any) -> pa.Array:
    """Integer keys as the server takes them.

    Raises:
        InvalidInputError: one is null, negative or no integer.
    """
    if are_keys(given):
        return pa.array(given, pa.uint64())  # to begin a cast takes longer than all the rest of a small take
    try:
        values = given if isinstance(given, pa.Array | pa.ChunkedArray) else pa.array(given)
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        keys = values.cast(pa.uint64())  # which refuses what it cannot hold, as making an array does not
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise InvalidInputError(f"keys of rows: integers from 0 on expected: {error}") from None
    if keys.null_count:
        raise InvalidInputError("keys of rows: integers from 0 on expected, null found")
    return keys
