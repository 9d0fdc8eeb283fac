"""Sorting of rows by value in bounded memory.

Rows are sorted in runs, which are written to a directory for temporary files. A merge of the runs reads a few
chunks of each at a time. Nulls have no sort key: they are kept apart, and come first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from tempfile import SpooledTemporaryFile, TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from lance_core.index.build import ROW_KEY, VALUE
from lance_core.index.value_order import Rows, ValueOrder, value_order

RUN_BYTES = 16 << 20
"""Bytes of the rows of a run. Sorting a run takes about four times as much memory."""
CHUNK_ROWS = 1 << 14
"""Most rows of a chunk of sorted rows."""
_CHUNK_BYTES = 1 << 20
_NULLS_IN_MEMORY = 16 << 20
"""Bytes of the keys of rows with a null that are not written to a file."""

Chunk = tuple[pa.Array, Rows]
"""Sort keys in order, and the keys of their rows."""


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

    def __init__(self, value_type: pa.DataType, *, run_bytes: int = RUN_BYTES) -> None:
        """Prepare to sort rows by values of a type.

        Args:
            value_type: Type of the values.
            run_bytes: Bytes of rows that are sorted together.

        Raises:
            TypeError: Values of the type have no order; see `value_order`.
        """
        self._order = value_order(value_type)
        self._run_bytes = run_bytes
        self._waiting: list[Chunk] = []
        self._waiting_bytes = 0
        self._resources = ExitStack()
        self._directory: str | None = None
        self._runs: list[str] = []
        nulls = SpooledTemporaryFile(max_size=_NULLS_IN_MEMORY)  # noqa: SIM115 - closed with the others
        self._null_rows = self._resources.enter_context(nulls)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._resources.close()

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
        self._waiting_bytes += keys.nbytes + rows.nbytes
        if self._waiting_bytes >= self._run_bytes:
            self._spill()

    def finish(self) -> SortedRows:
        """Return all rows in order. Rows with equal values come in any order. Call it once."""
        return SortedRows(self._order, self._spooled_nulls(), self._sorted())

    def _sorted(self) -> Iterator[Chunk]:
        if not self._runs:
            if self._waiting:
                yield from _sliced(*self._sort_waiting())
            return
        if self._waiting:
            self._spill()
        yield from merge_chunks(self._order, [_read_run(path) for path in self._runs])

    def _spooled_nulls(self) -> Iterator[Rows]:
        self._null_rows.seek(0)
        while data := self._null_rows.read(8 * CHUNK_ROWS):
            yield np.frombuffer(data, np.uint64)

    def _sort_waiting(self) -> Chunk:
        keys = pa.concat_arrays([keys for keys, _ in self._waiting])
        rows = np.concatenate([rows for _, rows in self._waiting])
        self._waiting, self._waiting_bytes = [], 0
        return self._order.sort(keys, rows)

    def _spill(self) -> None:
        if self._directory is None:
            self._directory = self._resources.enter_context(TemporaryDirectory(prefix="lance-index-"))
        path = os.path.join(self._directory, str(len(self._runs)))
        keys, rows = self._sort_waiting()
        schema = pa.schema([pa.field(VALUE, keys.type), pa.field(ROW_KEY, pa.uint64())])
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for chunk in _sliced(keys, rows):
                writer.write_batch(pa.RecordBatch.from_arrays([chunk[0], pa.array(chunk[1])], schema=schema))
        self._runs.append(path)


def _sliced(keys: pa.Array, rows: Rows) -> Iterator[Chunk]:
    count = max(1, min(CHUNK_ROWS, _CHUNK_BYTES * len(keys) // max(1, keys.nbytes)))
    for start in range(0, len(keys), count):
        yield keys.slice(start, count), rows[start : start + count]


def _read_run(path: str) -> Iterator[Chunk]:
    with pa.memory_map(path) as file, pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            yield batch.column(0), np.asarray(batch.column(1))


def merge_chunks(order: ValueOrder, runs: Sequence[Iterator[Chunk]]) -> Iterator[Chunk]:
    """Merge runs of sorted chunks. At most one chunk of each run is in memory, and a result of their size.

    Rows with equal values come in any order.
    """
    heads = [_Head(order, run) for run in runs]
    heads = [head for head in heads if head.advance()]
    while heads:
        # Rows up to the least last key of all chunks cannot be preceded by rows of later chunks.
        bound = min(head.last for head in heads)
        taken = [head.take(bound) for head in heads]
        parts = [part for part in taken if len(part[1])]
        if len(parts) == 1:
            yield parts[0]
        elif parts:
            yield order.sort(
                pa.concat_arrays([keys for keys, _ in parts]), np.concatenate([rows for _, rows in parts])
            )
        heads = [head for head in heads if head.keys is not None or head.advance()]


class _Head:
    """The chunk of a run that is merged next."""

    def __init__(self, order: ValueOrder, run: Iterator[Chunk]) -> None:
        self._order = order
        self._run = run
        self.keys: pa.Array | None = None
        self._rows: Rows = np.empty(0, np.uint64)
        self.last: Any = None

    def advance(self) -> bool:
        """Read the next chunk that has rows. Return False at the end of the run."""
        for keys, rows in self._run:
            if len(rows):
                self.keys, self._rows, self.last = keys, rows, self._order.last(keys)
                return True
        return False

    def take(self, bound: Any) -> Chunk:
        """Remove and return the rows up to `bound`."""
        assert self.keys is not None
        count = self._order.num_at_most(self.keys, bound)
        taken = self.keys.slice(0, count), self._rows[:count]
        self.keys, self._rows = self.keys.slice(count), self._rows[count:]
        if not len(self._rows):
            self.keys = None
        return taken
