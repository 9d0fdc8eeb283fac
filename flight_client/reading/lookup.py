"""Repeated takes of single rows on one stream, for which the server keeps the files open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from flight_client.errors import InvalidInputError
from flight_client.network.connections import Connections
from flight_client.reading.exchange import Exchange
from flight_client.reading.scanner import Target

Key = Literal["_rowoffset", "_rowid", "_rowaddr"]

MAX_KEYS = 1 << 20
"""Largest number of keys in one batch."""

_LARGEST_KEY = (1 << 64) - 1


class Lookup(Exchange):
    """Stream of takes from one version of a dataset. A context manager.

    Threads may share it; their takes come one after the other.
    """

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
        self._shown = (
            f"{target.name!r}, version={target.version}, columns={command.get('columns')}, key={key}"
        )
        super().__init__(connections, {"take": command})
        self._keys = pa.schema([(key, pa.uint64())])
        self.open(self._keys)

    def __repr__(self) -> str:
        return f"Lookup({self._shown})"

    def take(self, keys: Any) -> pa.Table:
        """Return the rows of integer keys, in their order. A key that is given twice gives its row twice.

        After an error the stream is opened again, at another server if possible.

        Raises:
            InvalidInputError: a key is out of range, or the lookup is closed.
        """
        values = keys_of(keys)
        parts = [values.slice(start, MAX_KEYS) for start in range(0, max(len(values), 1), MAX_KEYS)]
        batches = [pa.RecordBatch.from_arrays([part], schema=self._keys) for part in parts]
        return pa.Table.from_batches(list(map(self.answer, batches)))


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
