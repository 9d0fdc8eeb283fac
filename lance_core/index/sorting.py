"""Sorting of rows by value in bounded memory.

Rows are sorted in runs, which are written to a directory for temporary files. A merge of the runs reads a few
chunks of each at a time. Nulls have no sort key: they are kept apart, and come first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from tempfile import SpooledTemporaryFile, TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from lance_core.index.build import ROW_KEY, VALUE
from lance_core.index.value_order import Chunk, Rows, ValueOrder, value_order

LEAST_RUN_BYTES = 2 << 20
"""Bytes of the rows of a run at least. Runs of large tables are longer, so that they are not too many."""
_SORT_SHARE = 3
"""Memory of sorting a run, as a multiple of its bytes."""
CHUNK_ROWS = 1 << 14
"""Most rows of a chunk of sorted rows."""
_CHUNK_BYTES = 1 << 20
_NULLS_IN_MEMORY = 16 << 20
"""Bytes of the keys of rows with a null that are not written to a file."""

Keyed = tuple[pa.Array, Any]
"""Sort keys in order, and what belongs to each: an array of NumPy or of Arrow."""


class SortedRows:
    """Rows in the order of their values: rows with a null first, then chunks of the others. Read it once.

    Attributes:
        order: Order of the values.
        null_rows: Yields the keys of the rows with a null.
        chunks: Yields the other rows.
    """

    def __init__(self, order: ValueOrder, null_rows: Iterable[Rows], chunks: Iterable[Chunk]) -> None:
        self.order = order
        self.null_rows = null_rows
        self.chunks = chunks

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield all rows as batches of values and row keys."""
        for rows in self.null_rows:
            values = pa.nulls(len(rows), schema.field(0).type)
            yield pa.RecordBatch.from_arrays([values, pa.array(rows)], schema=schema)
        for keys, rows in self.chunks:
            yield pa.RecordBatch.from_arrays([self.order.decode(keys), pa.array(rows)], schema=schema)


class RowSorter:
    """Sorter of rows. Use it in a `with` block, at whose end the temporary files are removed."""

    def __init__(
        self, value_type: pa.DataType, num_rows: int, *, least_run_bytes: int = LEAST_RUN_BYTES
    ) -> None:
        """Prepare to sort rows by values of a type.

        Args:
            value_type: Type of the values.
            num_rows: Expected number of rows, for the size of the runs.
            least_run_bytes: Bytes of rows that are sorted together, at least.

        Raises:
            TypeError: Values of the type have no order; see `value_order`.
        """
        self._order = value_order(value_type)
        self._num_rows = num_rows
        self._least_run_bytes = least_run_bytes
        self._run_bytes: int | None = None
        self._waiting: list[Chunk] = []
        self._waiting_bytes = 0
        self._runs = TemporaryRuns()
        self._null_rows = SpooledTemporaryFile(max_size=_NULLS_IN_MEMORY)  # noqa: SIM115 - closed at the end

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._runs.close()
        self._null_rows.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows with the columns `VALUE` and `ROW_KEY`. Chunks of a few MiB keep the memory bounded."""
        values, rows = batch.column(VALUE), batch.column(ROW_KEY)
        if values.null_count:
            is_null = values.is_null()
            self._null_rows.write(np.ascontiguousarray(rows.filter(is_null)).data)
            is_valid = values.is_valid()
            values, rows = values.filter(is_valid), rows.filter(is_valid)
        if not len(values):
            return
        keys = self._order.encode(values)
        self._waiting.append((keys, np.asarray(rows)))
        num_bytes = keys.nbytes + rows.nbytes
        if self._run_bytes is None:
            self._run_bytes = max(
                self._least_run_bytes, _balanced_run_bytes(self._num_rows, num_bytes / len(keys))
            )
        self._waiting_bytes += num_bytes
        if self._waiting_bytes >= self._run_bytes:
            self._spill()

    def finish(self) -> SortedRows:
        """Return all rows in order. Rows with equal values come in any order. Call it once."""
        return SortedRows(self._order, self._spooled_nulls(), self._sorted())

    def _sorted(self) -> Iterator[Chunk]:
        if not len(self._runs):
            if self._waiting:
                yield from _sliced(*self._sort_waiting())
            return
        if self._waiting:
            self._spill()
        runs = [((keys, np.asarray(rows)) for keys, rows in run) for run in self._runs.read()]
        yield from merge_chunks(self._order, runs)

    def _spooled_nulls(self) -> Iterator[Rows]:
        self._null_rows.seek(0)
        while data := self._null_rows.read(8 * CHUNK_ROWS):
            yield np.frombuffer(data, np.uint64)

    def _sort_waiting(self) -> Chunk:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return self._order.sort(waiting)

    def _spill(self) -> None:
        keys, rows = self._sort_waiting()
        schema = pa.schema([pa.field(VALUE, keys.type), pa.field(ROW_KEY, pa.uint64())])
        self._runs.write(schema, ((some, pa.array(theirs)) for some, theirs in _sliced(keys, rows)))


class TemporaryRuns:
    """Runs of sorted chunks in a directory for temporary files, which `close` removes."""

    def __init__(self) -> None:
        self._directory: TemporaryDirectory[str] | None = None
        self._paths: list[str] = []

    def __len__(self) -> int:
        return len(self._paths)

    def write(self, schema: pa.Schema, chunks: Iterable[tuple[pa.Array, pa.Array]]) -> None:
        """Write a run of chunks with the columns of the schema."""
        if self._directory is None:
            self._directory = TemporaryDirectory(prefix="lance-index-")
        path = os.path.join(self._directory.name, str(len(self._paths)))
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for chunk in chunks:
                writer.write_batch(pa.RecordBatch.from_arrays(list(chunk), schema=schema))
        self._paths.append(path)

    def read(self) -> list[Iterator[Keyed]]:
        """Return the chunks of each run."""
        return [_read_run(path) for path in self._paths]

    def close(self) -> None:
        """Remove the runs."""
        if self._directory is not None:
            self._directory.cleanup()


def _balanced_run_bytes(num_rows: int, bytes_per_row: float) -> int:
    """Return the bytes of runs of which sorting one takes as much memory as merging all.

    A merge has a chunk of each run in memory.
    """
    chunk_bytes = min(CHUNK_ROWS * bytes_per_row, _CHUNK_BYTES)
    return int((num_rows * bytes_per_row * chunk_bytes / _SORT_SHARE) ** 0.5)


def _sliced(keys: pa.Array, rows: Rows) -> Iterator[Chunk]:
    count = max(1, min(CHUNK_ROWS, _CHUNK_BYTES * len(keys) // max(1, keys.nbytes)))
    for start in range(0, len(keys), count):
        yield keys.slice(start, count), rows[start : start + count]


def _read_run(path: str) -> Iterator[Keyed]:
    # Pages of a mapped file would stay in memory until the end.
    with pa.OSFile(path) as file, pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            keys, payload = reader.get_batch(number).columns
            yield keys, payload


def merge_chunks(order: ValueOrder, runs: Sequence[Iterator[Chunk]]) -> Iterator[Chunk]:
    """Merge runs of sorted chunks. At most one chunk of each run is in memory, and a result of their size.

    Rows with equal values come in any order.
    """
    for parts in aligned_chunks(order, runs):
        yield parts[0] if len(parts) == 1 else order.sort(parts)


def aligned_chunks(order: ValueOrder, runs: Sequence[Iterator[Keyed]]) -> Iterator[list[Keyed]]:
    """Yield chunks of runs of sorted chunks, so that no key of a later chunk is before those of a chunk."""
    heads = [_Head(order, run) for run in runs]
    heads = [head for head in heads if head.advance()]
    while heads:
        # Rows up to the least last key of all chunks cannot be preceded by rows of later chunks.
        bound = min(head.last for head in heads)
        parts = [part for part in (head.take(bound) for head in heads) if len(part[0])]
        if parts:
            yield parts
        heads = [head for head in heads if head.keys is not None or head.advance()]


class _Head:
    """The chunk of a run that is merged next."""

    def __init__(self, order: ValueOrder, run: Iterator[Keyed]) -> None:
        self._order = order
        self._run = run
        self.keys: pa.Array | None = None
        self._payload: Any = None
        self.last: Any = None

    def advance(self) -> bool:
        """Read the next chunk that has keys. Return False at the end of the run."""
        for keys, payload in self._run:
            if len(keys):
                self.keys, self._payload, self.last = keys, payload, self._order.last(keys)
                return True
        return False

    def take(self, bound: Any) -> Keyed:
        """Remove and return the keys up to `bound`, with what belongs to them."""
        assert self.keys is not None
        count = self._order.num_at_most(self.keys, bound)
        taken = self.keys.slice(0, count), self._payload[:count]
        self.keys, self._payload = self.keys.slice(count), self._payload[count:]
        if not len(self.keys):
            self.keys = None
        return taken
