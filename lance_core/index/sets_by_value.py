"""Gathering of the sets of row keys that have each value, in bounded memory.

The sets are gathered compressed, in the form in which they are stored. If they need more memory than is
allowed, they are written to a directory for temporary files as a run in the order of the values, and at the
end the runs are merged. Rows with a null are kept apart, and come first.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.values import as_buffer, offset_bits
from lance_core.index.build import ROW_KEY, VALUE
from lance_core.index.row_sets import Container, RowSet
from lance_core.index.sorting import TemporaryRuns, aligned_chunks
from lance_core.index.value_order import value_order

GATHERED_BYTES = 64 << 20
"""Memory of the sets that are gathered before they are written as a run."""
_CHUNK_BYTES = 1 << 20
_SETS_TYPE = pa.binary()

SetsChunk = tuple[pa.Array, pa.Array]
"""Sort keys of values in order, and the serialized set of each."""


class SetsByValue:
    """Sets of row keys by value. Use it in a `with` block, at whose end the temporary files are removed."""

    def __init__(
        self, value_type: pa.DataType, container: Container, *, most_bytes: int = GATHERED_BYTES
    ) -> None:
        """Prepare to gather rows by values of a type.

        Args:
            value_type: Type of the values.
            container: Container in which the sets are serialized.
            most_bytes: Memory of the sets of a run.

        Raises:
            TypeError: Values of the type have no order; see `value_order`.
        """
        self._order = value_order(value_type)
        self._container = container
        self._most_bytes = most_bytes
        self._key_type = self._order.encode(pa.array([], value_type)).type
        self._null_rows = RowSet()
        self._collector = self._new_collector()
        self._runs = TemporaryRuns()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._runs.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows with the columns `VALUE` and `ROW_KEY`. Ascending row keys are gathered fastest."""
        values, rows = batch.column(VALUE), batch.column(ROW_KEY)
        if values.null_count:
            is_valid = values.is_valid()
            self._null_rows.add(np.asarray(rows.filter(values.is_null())))
            values, rows = values.filter(is_valid), rows.filter(is_valid)
        if not len(values):
            return
        keys = self._order.encode(values)
        self._collector.add(*_buffers(keys), np.ascontiguousarray(rows).data)
        if self._collector.num_bytes > self._most_bytes:
            self._spill()

    def batches(self, schema: pa.Schema, null_value: object = None) -> Iterator[pa.RecordBatch]:
        """Yield all values in order, and the set of the rows of each. Call it once.

        Args:
            schema: The columns of the result: values, and serialized sets.
            null_value: Value of the rows with a null. It comes first; without such rows it is left out.
        """
        if self._null_rows:
            null_set = pa.array([self._null_rows.to_bytes(self._container)], _SETS_TYPE)
            values = pa.array([null_value], schema.field(0).type)
            yield pa.RecordBatch.from_arrays([values, null_set], schema=schema)
        for keys, sets in self._chunks():
            yield pa.RecordBatch.from_arrays([self._order.decode(keys), sets], schema=schema)

    def _chunks(self) -> Iterator[SetsChunk]:
        if not len(self._runs):
            yield from self._gathered()
            return
        self._spill()
        for parts in aligned_chunks(self._order, self._runs.read()):
            keys, sets = (pa.concat_arrays(arrays) for arrays in zip(*parts, strict=True))
            if len(parts) > 1:
                keys, places = self._order.sort([(keys, np.arange(len(keys), dtype=np.uint64))])
                starts = self._order.starts(keys)
                sets = _united(sets.take(pa.array(places)), [*starts[1:], len(keys)], self._container)
                keys = keys.take(pa.array(starts))
            yield keys, sets

    def _spill(self) -> None:
        """Write the gathered sets as a run, and begin anew."""
        schema = pa.schema([pa.field(VALUE, self._key_type), pa.field("sets", _SETS_TYPE)])
        self._runs.write(schema, self._gathered())
        self._collector = self._new_collector()

    def _gathered(self) -> Iterator[SetsChunk]:
        """Yield the gathered sets. Nothing can be added afterwards."""
        collector = self._collector
        collector.finish()
        first = 0
        while first < collector.num_values:
            count, offsets, values, set_offsets, sets = collector.sets(
                first, _CHUNK_BYTES, self._container.is_tree_map
            )
            ends = [as_buffer(offsets)] if offset_bits(self._key_type) else []
            keys = pa.Array.from_buffers(self._key_type, count, [None, *ends, as_buffer(values)])
            yield (
                keys,
                pa.Array.from_buffers(_SETS_TYPE, count, [None, as_buffer(set_offsets), as_buffer(sets)]),
            )
            first += count

    def _new_collector(self) -> kernels.SetCollector:
        return kernels.SetCollector(offset_bits(self._key_type))


def _buffers(values: pa.Array) -> tuple[memoryview | None, memoryview]:
    """Return the offsets and bytes of strings, or None and the bytes of numbers."""
    bits = offset_bits(values.type)
    if not bits:
        return None, np.ascontiguousarray(values).data
    _, offsets, data = values.buffers()
    start, end = values.offset * bits // 8, (values.offset + len(values) + 1) * bits // 8
    return memoryview(offsets)[start:end], memoryview(data if data is not None else b"")


def _united(sets: pa.Array, ends: list[int], container: Container) -> pa.Array:
    """Return the unions of groups of consecutive sets; `ends` has the end of each group."""
    offsets, data = _buffers(sets)
    assert offsets is not None
    found = kernels.unite_row_sets(np.array(ends, np.int64).data, offsets, data, container.is_tree_map)
    return pa.Array.from_buffers(_SETS_TYPE, len(ends), [None, *map(as_buffer, found)])
