"""The part of a remote dataset's interface that reads single rows by their keys."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import flight

from flight_client.errors import InvalidInputError, UnsupportedFeatureError
from flight_client.network.connection import to_json
from flight_client.reading.arguments import Columns, Condition, check_arguments, sql_columns
from flight_client.reading.lookup import MAX_KEYS, Key, Lookup, are_keys, keys_of
from flight_client.reading.scanner import RemoteScanner, Snapshot

_MAX_TICKET_KEYS = 40_000
"""Largest number of keys in a ticket: a command has at most 1 MiB, and a key up to 20 digits."""

_KEYS: dict[str, Key] = {"offsets": "_rowoffset", "row_ids": "_rowid", "row_addresses": "_rowaddr"}


class RowReads:
    """Methods that return chosen rows, or all rows in random order."""

    _snapshot: Snapshot

    @property
    @abstractmethod
    def _conditions(self) -> list[str]:
        """Filters of the dataset, as text."""

    @abstractmethod
    def scanner(self, columns: Columns = None, filter: Condition = None, **arguments: Any) -> RemoteScanner:
        """Return a scan of the rows that meet the filter."""

    @abstractmethod
    def count_rows(self, filter: Condition = None) -> int:
        """Return the number of rows that meet the filter."""

    def take(
        self,
        indices: Any = None,
        columns: Columns = None,
        filter: Condition = None,
        *,
        row_ids: Any = None,
        row_addresses: Any = None,
        blob_handling: str | None = None,
        **ignored: Any,
    ) -> pa.Table:
        """Return single rows in the order of their keys, in one round trip.

        Args:
            indices: row offsets in the dataset. With a filter, given here or of the dataset: positions among
                the rows that meet it.
            columns: see `scanner`.
            filter: see `scanner`.
            row_ids, row_addresses: other keys, instead of `indices`.
            blob_handling: see `scanner`.
            **ignored: see `scanner`.

        Raises:
            InvalidInputError: not exactly one kind of keys is given, or a key is out of range.
        """
        check_arguments(ignored)
        given = {"offsets": indices, "row_ids": row_ids, "row_addresses": row_addresses}
        keys = {name: values for name, values in given.items() if values is not None}
        if len(keys) != 1:
            raise InvalidInputError(f"expected one of indices, row_ids and row_addresses, found {len(keys)}")
        if self._conditions or filter is not None:
            if indices is None:
                raise InvalidInputError(
                    "a filtered dataset takes rows by indices only, found row_ids or row_addresses"
                )
            return self.scanner(columns, filter, blob_handling=blob_handling).take(keys_of(indices))
        ((name, values),) = keys.items()
        numbers = values if are_keys(values) else keys_of(values).to_pylist()
        if len(numbers) > _MAX_TICKET_KEYS:
            with self.lookup(columns, key=_KEYS[name], blob_handling=blob_handling) as lookup:
                return lookup.take(numbers)
        command: dict[str, Any] = {**self._snapshot.target.fields(), name: numbers}
        if blob_handling is not None:
            command["blob_handling"] = blob_handling
        chosen = sql_columns(columns)
        if chosen is not None:
            command["columns"] = dict(chosen) if isinstance(chosen, Mapping) else list(chosen)
        ticket = flight.Ticket(to_json({"take": command}))
        return self._snapshot.connections.call(lambda connection: connection.client.do_get(ticket).read_all())

    def sample(
        self,
        num_rows: int,
        columns: Columns = None,
        randomize_order: bool = True,
        *,
        seed: int | None = None,
    ) -> pa.Table:
        """Return rows chosen at random, none twice.

        Args:
            num_rows: number of rows.
            columns: see `scanner`.
            randomize_order: whether the rows come in random order instead of dataset order.
            seed: the same seed chooses the same rows of the same version, in the same order.

        Raises:
            InvalidInputError: the dataset has fewer rows, or a column does not exist.
        """
        total = self.count_rows()
        if not 0 <= num_rows <= total:
            raise InvalidInputError(f"num_rows: expected 0 to {total}, found {num_rows}")
        indices = random.Random(seed).sample(range(total), num_rows)
        return self.take(indices if randomize_order else sorted(indices), columns)

    def shuffle(
        self, seed: int | None = None, columns: Columns = None, *, batch_rows: int = 1024
    ) -> Iterator[pa.RecordBatch]:
        """Return all rows in random order, each once: an epoch of a training.

        The order of all rows is drawn first and takes 16 bytes of memory per row. Batches are requested one
        by one, on one stream.

        Args:
            seed: the same seed gives the same order of the same version and filter.
            columns: see `scanner`.
            batch_rows: number of rows in each batch but the last one.

        Raises:
            InvalidInputError: `batch_rows` is out of range, or a column does not exist.
        """
        if not isinstance(batch_rows, int) or not 0 < batch_rows <= MAX_KEYS:
            raise InvalidInputError(f"batch_rows: expected 1 to {MAX_KEYS}, found {batch_rows!r}")
        initializer = "system" if seed is None else seed
        if not self._conditions:
            key: Key = "_rowoffset"
            keys = pc.array_sort_indices(pc.random(self._snapshot.num_rows, initializer=initializer))
        else:
            key = "_rowaddr"
            found = self.scanner([], with_row_address=True).to_table()[key]
            keys = found.take(pc.array_sort_indices(pc.random(len(found), initializer=initializer)))
        chosen = sql_columns(columns)
        return _looked_up(self._snapshot, chosen, key, keys, batch_rows)

    def lookup(
        self, columns: Columns = None, *, key: Key = "_rowoffset", blob_handling: str | None = None
    ) -> Lookup:
        """Return a stream for many takes. The server keeps the files of the takes open.

        Args:
            columns: see `scanner`.
            key: kind of the keys: `_rowoffset` (positions in dataset order), `_rowid` or `_rowaddr`.
            blob_handling: see `scanner`.

        Raises:
            UnsupportedFeatureError: the dataset is filtered.
        """
        if self._conditions:
            raise UnsupportedFeatureError("a filtered dataset has no lookup, use take(indices, filter=...)")
        snapshot = self._snapshot
        return Lookup(snapshot.connections, snapshot.target, sql_columns(columns), key, blob_handling)


def _looked_up(
    snapshot: Snapshot, columns: Columns, key: Key, keys: pa.Array | pa.ChunkedArray, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield batches of `batch_rows` rows for the keys."""
    with Lookup(snapshot.connections, snapshot.target, columns, key) as lookup:
        for start in range(0, len(keys), batch_rows):
            yield from lookup.take(keys.slice(start, batch_rows)).to_batches()
